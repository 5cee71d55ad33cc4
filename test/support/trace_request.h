/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * ExportTraceServiceRequests, made field by field: one Resource (service.name "shop"), one scope,
 * spans with ids of store_fixture.h. Asserts with cmocka. Thread: one.
 */
#include "base/buf.h"
#include "store/store.h"

struct trace_span {
    unsigned trace, id;
    uint64_t start_unix_ns, end_unix_ns;
    size_t padding;     /* bytes of an attribute "padding" */
    struct bytes added; /* at the end of the Span message */
};

/* Appended to out. */
void trace_request(struct buf *out, const struct trace_span *spans, size_t n);

/* What waits in the outbox for destination "first", oldest first. */
#define OUTGOING_MAX 64
struct outgoing {
    size_t n;
    struct outbox_item items[OUTGOING_MAX];
};
void outgoing_read(struct outgoing *outgoing, const struct db_settings *settings,
                   enum signal signal);
void outgoing_close(struct outgoing *outgoing);
