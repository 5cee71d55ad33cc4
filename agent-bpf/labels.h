/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which trace and span do a thread's labels name? The labels of a sample (record.h) are text that
 * its program chose; the names below are those that known libraries use for ids. Pure; any thread.
 *
 * Names, first match wins, a trace and a span of different rows are not mixed but where the row
 * says so (sources: the libraries named): configured names          32 hex digits for a trace, 16
 * for a span trace_id, span_id         grafana/otel-profiling-go; proposed for pprof otel_traceid,
 * otel.traceid, otel.trace_id; span twins of the same form   polarsignals/otel-profiling-go trace
 * id, span id, local root span id   dd-trace-go: trace of 32 hex digits, spans decimal u64
 * profile_id (older pyroscope helpers): 16 hex digits, a span.
 */
#include "base/bytes.h"

struct label_names { /* configured; NULL-terminated lists, NULL = none; borrowed */
    const char *const *trace_id;
    const char *const *span_id;
};

struct label_ids { /* zero = not named, or not an id */
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t local_root_id[8];
};

/* The next label of a sample's attributes (key length u8, value length u8, key, value); false at
 * the end, also when the last one is incomplete. Borrowed. */
bool labels_next(struct bytes *rest, struct bytes *key, struct bytes *value);
/* False: no label names an id. */
bool labels_ids(struct bytes labels, const struct label_names *names, struct label_ids *ids);
/* Is the label one of those that ids come from? Such labels need not be repeated as attributes. */
bool labels_is_id(struct bytes key, const struct label_names *names);
