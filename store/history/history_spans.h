/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The spans of a block (HISTORY_PART_SPANS), grouped by trace. Traces are ordered by their longest
 * span, descending; the spans of a trace by duration, descending. A query for the slowest spans
 * reads the beginning of the body; a query for one trace reads its chunk (history_index.h). Pure;
 * thread: the owner's. See history_block.h.
 */
#include "store/history/history_index.h"

struct history_block_span {
    uint8_t trace_id[16];
    uint8_t span_id[8], parent_id[8];       /* parent: zero = none */
    int64_t series;                         /* without thread and context source */
    uint64_t start_unix_ns, duration_ns;    /* start + duration does not overflow */
    uint64_t longest_ns;                    /* longest duration of its trace in this block */
    uint64_t cpu_ns, samples;               /* all samples of the span known when it arrived */
    uint32_t attributes_at, attributes_len; /* for history_span_attributes() */
    bool error, local_root;
};

struct history_block_spans { /* decoded so far; begin with {0} */
    struct history_block_span *spans;
    size_t n, cap;
    size_t offset;                 /* of the next span, in the body */
    size_t trace_from, trace_left; /* latest trace: its first span; its spans not decoded yet */
};

/* Decodes until there are `want` spans, or to the end of `body`, which may be a prefix of the part.
 * Call it again with a longer prefix, at any address. total: as in the block's row. Returns 0 also
 * if there are fewer than `want`. is_whole: `body` is the whole part, so fewer than total spans
 * mean damage. */
int history_spans_decode(struct history_block_spans *spans, struct bytes body, bool is_whole,
                         size_t total, size_t want);
/* Decodes the n spans of one chunk and replaces earlier spans. head: the first HISTORY_SPANS_HEAD
 * bytes of the body, or all of it if it is shorter. Attributes are not decoded. */
#define HISTORY_SPANS_HEAD 20
int history_spans_decode_chunk(struct history_block_spans *spans, struct bytes head,
                               struct bytes chunk, size_t n);
/* KeyValue messages, each framed as Span field 9; borrowed from the body. */
struct bytes history_span_attributes(const struct history_block_span *span, struct bytes body);
void history_spans_close(struct history_block_spans *spans);

/* Sorts the spans into encoding order, and sets longest_ns. places: NULL, or n new indices by old
 * index. */
int history_spans_sort(struct history_block_span *spans, size_t n, uint32_t *places);
/* spans: n, sorted by history_spans_sort(); attributes_at is an offset in `attributes`. *chunks:
 * where the chunks begin. */
int history_spans_encode(struct blob_writer *out, const struct history_block_span *spans, size_t n,
                         struct bytes attributes, struct history_chunks *chunks);
