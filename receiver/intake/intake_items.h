/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A request of metrics or logs on the writer: inflate, check, put into the outbox as it came.
 * WRITER thread only, inside the store's transaction.
 */
#include "receiver/intake/intake.h"
#include "store/store.h"

struct intake_items_settings {
    uint32_t destinations;
    size_t max_body_bytes;
};

/* Sets request->outcome and message. 0, or the store's negative errno: then the batch is lost. */
int intake_items_run(struct intake_request *request, struct store *store,
                     const struct intake_items_settings *settings);
