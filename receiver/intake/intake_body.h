/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What requests of all signals have in common on the writer: their settings, the way from the body
 * that came to a checked Export request, and how one is refused and counted. Private to this room.
 * Thread: writer.
 */
#include "receiver/intake/intake.h"
#include "store/store.h"

struct coverage;

/* Of one signal. */
struct intake_signal_settings {
    uint32_t destinations; /* outbox mask */
    size_t max_body_bytes; /* of a request in the outbox */
    /* Of traces */
    bool join;                 /* spans are annotated */
    struct coverage *coverage; /* NULL: not counted */
    /* Of profiles: labels that hold ids beside those that are known; what they point at is
     * borrowed. */
    struct label_names label_names;
};

/* Runs a request on the writer, inside the store's transaction. Sets request->outcome and message.
 * 0, or the store's negative errno: then the batch is lost. */
typedef int intake_signal_run(struct intake_request *request, struct store *store,
                              const struct intake_signal_settings *settings);

/* Sets outcome (INTAKE_MALFORMED or INTAKE_TOO_BIG) and message, and counts. Returns 1. */
int intake_refuse_body(struct intake_request *request, enum intake_outcome outcome,
                       const char *message);

/* The quota could not hold it: to come again would not help. Returns 0. */
int intake_refuse_large(struct intake_request *request);

/* The checked Export request in protobuf: the body itself, or what it was inflated and converted
 * to, in `made`. 0; 1: refused; -ENOMEM. */
int intake_body_read(struct intake_request *request, struct buf *made, struct bytes *body);
