/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Encodes all parts of a block. Thread: that of its arguments. */
#include "store/history/history_samples.h"
#include "store/history/history_totals.h"

struct history_content {
    const struct history_block_span *spans; /* sorted by history_spans_sort() */
    size_t n_spans;
    struct bytes span_attributes;   /* span.attributes_at is an offset in it */
    struct history_sample *samples; /* context.span: index in spans; history_encode() sorts them */
    size_t n_samples;
    const struct bytes *sample_attributes;
    size_t n_sample_attributes;
};

/* -ENOMEM. */
int history_encode(struct blob_writer parts[HISTORY_PARTS], const struct history_content *content,
                   const struct history_totals *totals);
/* Call it once the block is written: adds its CPU time to totals. */
void history_encode_total(struct history_totals *totals, const struct history_content *content);
