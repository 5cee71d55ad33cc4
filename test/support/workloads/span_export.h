/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A small OTLP/HTTP exporter for the programs that the tests and the demo instrument: collects
 * ended spans and posts them as one ExportTraceServiceRequest to http://host:port/v1/traces.
 * Encoded by hand from trace/v1/trace.proto (opentelemetry-proto 1.11), so that it shares no code
 * with what it tests.
 *
 * Thread: add from any; flush from any, one at a time (a lock sees to it).
 * Limits: SPAN_EXPORT_MAX_BYTES waiting; what does not fit is counted as dropped.
 */
#include <stddef.h>
#include <stdint.h>

#define SPAN_EXPORT_MAX_BYTES   (64 << 20)
#define SPAN_EXPORT_BATCH_BYTES (512 << 10) /* a request is posted once it passes this */

struct span_exporter;

enum span_export_kind { SPAN_KIND_INTERNAL = 1, SPAN_KIND_SERVER = 2, SPAN_KIND_CLIENT = 3 };

struct span_export_attribute {
    const char *key;
    const char *text; /* NULL: number counts */
    int64_t number;
};

struct span_export_span {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t parent_id[8]; /* zero = none */
    const char *name;
    enum span_export_kind kind;
    uint64_t start_unix_ns;
    uint64_t end_unix_ns;
    const struct span_export_attribute *attributes; /* borrowed for the call */
    size_t n_attributes;
};

struct span_export_settings {
    const char *host; /* numeric IPv4 address or "localhost" */
    uint16_t port;
    const char *service_name;
    const char *instance_id;
    int64_t pid; /* process.pid of the Resource */
};

/* 0 or negative errno. Strings are copied. */
int span_export_open(const struct span_export_settings *settings, struct span_exporter **exporter);
void span_export_close(struct span_exporter *exporter);
void span_export_add(struct span_exporter *exporter, const struct span_export_span *span);
/* Posts all that waits. 0: every request was answered 2xx; else what was not taken waits for the
 * next flush: positive HTTP status, or negative errno of the connection. */
int span_export_flush(struct span_exporter *exporter);

struct span_export_counts {
    uint64_t added;
    uint64_t acknowledged;
    uint64_t dropped;
};
struct span_export_counts span_export_counts(struct span_exporter *exporter);
