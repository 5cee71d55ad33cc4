/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Shared by the requests of all signals on the writer: settings, decoding the received body to a
 * checked Export request, refusing and counting. Private to receiver/intake. Thread: writer.
 */
#include "receiver/intake/intake.h"
#include "store/store.h"

struct coverage;

/* Settings of one signal. */
struct intake_signal_settings {
    uint32_t destinations; /* outbox mask */
    size_t max_body_bytes; /* of a request in the outbox */
    /* Traces only */
    bool join;                 /* spans are annotated */
    struct coverage *coverage; /* NULL: not counted */
    /* Profiles only: configured labels that hold ids, in addition to the known ones. The texts are
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

/* Refuses one of which a span, profile, metric or log record fits no body. Returns 0. */
int intake_refuse_entry(struct intake_request *request);
/* Before a request is run in parts: whether each of them would be taken. 0; 1: refused;
 * negative errno. */
int intake_body_fit(struct intake_request *request, struct bytes body,
                    const struct intake_signal_settings *settings);
/* Bytes that there has to be room for before the body is put: of one that comes in parts, all that
 * is left. */
size_t intake_room_for(const struct intake_request *request, struct bytes body);
/* Refuses a request that is larger than the quota: a retry would not help. Returns 0. */
int intake_refuse_large(struct intake_request *request);

/* *body: the checked Export request in protobuf. It is the request's body itself, or in `made` the
 * inflated and converted body, or what large_reader has made. 0; 1: refused, or INTAKE_LARGE;
 * -ENOMEM. Thread: writer, of INTAKE_READING large_reader. */
int intake_body_read(struct intake_request *request, struct buf *made, struct bytes *body);
