/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A trace request on the writer: inflate, check, join each span, put the result into the outbox.
 * WRITER thread only, inside the store's transaction.
 */
#include "receiver/intake/intake.h"
#include "store/store.h"

struct intake_spans_settings {
    bool join;
    struct coverage *coverage; /* NULL: nobody asks */
    uint32_t destinations;
    size_t max_body_bytes;
};

/* Sets request->outcome and message. 0, or the store's negative errno: then the batch is lost. */
int intake_spans_run(struct intake_request *request, struct store *store,
                     const struct intake_spans_settings *settings);
