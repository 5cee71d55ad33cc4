/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Finds the trace and span ids in a thread's labels. The labels of a sample (record.h) are text
 * that its program chose; known libraries write ids under the names below. Pure; any thread.
 *
 * The first row with an id counts; ids of different rows are not combined:
 *   1. configured names: a trace of 32 hex digits, a span of 16
 *   2. trace_id, span_id: the same forms (grafana/otel-profiling-go)
 *   3. otel_traceid, otel.traceid, otel.trace_id, and the same with span: the same forms
 *      (polarsignals/otel-profiling-go)
 *   4. trace id: 32 hex digits; span id, local root span id: decimal 64-bit numbers (dd-trace-go)
 *   5. profile_id: a span of 16 hex digits (older helpers of grafana/pyroscope)
 * A value of another form, or zero, is not an id: the label is ordinary text. Of labels with the
 * same key the first counts (custom-labels v1). If labels of that row contradict each other there
 * are no ids.
 */
#include "base/bytes.h"

struct label_names { /* configured; NULL-terminated lists, NULL = none; borrowed */
    const char *const *trace_id;
    const char *const *span_id;
};

struct label_ids { /* zero = none */
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t local_root_id[8];
};

/* The next label of a sample's attributes (key length u8, value length u8, key, value); false at
 * the end, also when the last one is incomplete. Borrowed. */
bool labels_next(struct bytes *rest, struct bytes *key, struct bytes *value);
/* False: no label holds an id, or they contradict each other; *ids is zero then. */
bool labels_ids(struct bytes labels, const struct label_names *names, struct label_ids *ids);
/* True: the label holds an id. */
bool labels_is_id(struct bytes key, struct bytes value, const struct label_names *names);
