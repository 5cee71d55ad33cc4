/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Export requests that pass through: checked to the last field, counted on the wire, split if need
 * be, and otherwise left as they came. Pure; thread: any.
 * Source of the format: opentelemetry-proto 1.11, the *_service.proto of each signal.
 */
#include "proto/otlp/otlp_service.h"
#include "proto/otlp/otlp_spans.h"

/* The whole request is well-formed to its last nested field. OTLP_OK, OTLP_MALFORMED, OTLP_TOO_BIG
 * (it would decode to far more than its size). Any signal. */
int otlp_items_check(enum signal signal, struct bytes request);

/* Spans, data points, log records, or samples of profiles; of a checked request. */
uint64_t otlp_items_count(enum signal signal, struct bytes request);

/* Emits a checked request in one or more bodies of at most max_body_bytes, each with its count of
 * items; whole if it fits, else between metrics, log records or profiles (the dictionary is in each
 * body), as otlp_spans_rewrite() does between spans, and with its outcomes. */
struct otlp_split {
    int (*emit)(void *context, struct bytes body, uint64_t n_items);
    void *context;
    size_t max_body_bytes;
    int (*room)(void *context, uint64_t bytes); /* before the first; may be NULL */
};
int otlp_items_split(enum signal signal, struct bytes request, const struct otlp_split *split);

/* Appends to out the request with only those of its spans, metrics, log records or profiles that
 * are the from-th (from 0) to n-th behind it, with the Resource and scope around them and the
 * dictionary; *total: how many there are, whatever n is. Down to one alone, where a split would be
 * OTLP_TOO_BIG. OTLP_OK, OTLP_MALFORMED, or of out BUF_FULL, -ENOMEM: then out is as it was. */
struct otlp_slice {
    uint64_t from;
    uint64_t n;
};
int otlp_items_slice(struct bytes request, const struct otlp_slice *slice, struct buf *out,
                     uint64_t *total);
