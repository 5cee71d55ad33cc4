/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* All parts of a block. Thread: whoever holds what is given. */
#include "store/history/history_samples.h"
#include "store/history/history_totals.h"

struct history_content {
    const struct history_block_span *spans; /* as history_spans_sort() leaves them */
    size_t n_spans;
    struct bytes span_attributes;   /* attributes_at is an offset in them */
    struct history_sample *samples; /* context.span: an index of spans; are sorted */
    size_t n_samples;
    const struct bytes *sample_attributes;
    size_t n_sample_attributes;
};

/* -ENOMEM. */
int history_encode(struct blob_writer parts[HISTORY_PARTS], const struct history_content *content,
                   const struct history_totals *totals);
/* When the block has been written. */
void history_encode_total(struct history_totals *totals, const struct history_content *content);
