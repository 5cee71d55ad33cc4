/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What an SDK does, in small: the thread's current span, published to the profiler by
 * libspanprof-context, and exported by OTLP/HTTP when it has ended. Thread: any; a span begins and
 * ends in one thread.
 */
#include "context/spanprof_context.h"
#include "test/support/workloads/span_export.h"

struct demo_span {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t parent_id[8];
    const char *name;
    enum span_export_kind kind;
    uint64_t start_unix_ns;
    struct spanprof_context outer; /* what the thread worked on before */
};

/* endpoint: host:port of an OTLP/HTTP receiver. 0 or negative errno. */
int demo_trace_open(const char *service, const char *endpoint);
void demo_trace_close(void); /* sends what is left */
/* A child of the thread's current span, or the root of a trace if there is none. */
void demo_span_begin(struct demo_span *span, const char *name, enum span_export_kind kind);
/* route: http.route of the span, or NULL. */
void demo_span_end(struct demo_span *span, const char *route);
