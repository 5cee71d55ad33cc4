/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The spans of a block (HISTORY_PART_SPANS), those of a trace together: traces by their longest
 * span, longest first, and so the spans of each. Whoever wants the slowest reads the beginning of
 * the body; whoever wants one trace reads its chunk (history_index.h). Pure; thread: whoever holds
 * it. See history_block.h.
 */
#include "store/history/history_index.h"

struct history_block_span {
    uint8_t trace_id[16];
    uint8_t span_id[8], parent_id[8];       /* parent: zero = none */
    int64_t series;                         /* without thread and context source */
    uint64_t start_unix_ns, duration_ns;    /* start + duration does not overflow */
    uint64_t longest_ns;                    /* of its trace in this block: the first of them */
    uint64_t cpu_ns, samples;               /* all it ever had, as known when it came */
    uint32_t attributes_at, attributes_len; /* chosen ones: history_span_attributes() */
    bool error, local_root;
};

struct history_block_spans { /* decoded so far; begin with {0} */
    struct history_block_span *spans;
    size_t n, cap;
    size_t offset;                 /* in the body, of the one that comes next */
    size_t trace_from, trace_left; /* the latest trace: its first span; how many are to come */
};

/* Decodes until there are `want` spans, or to the end of what is there of the body; call again with
 * more of it (it may lie elsewhere then). total: as in the block's row. 0 also if there are fewer;
 * is_whole: the body ends here, so fewer than total is damage. */
int history_spans_decode(struct history_block_spans *spans, struct bytes body, bool is_whole,
                         size_t total, size_t want);
/* The n spans of one chunk, instead of those before. head: the beginning of the body,
 * HISTORY_SPANS_HEAD bytes if there are so many. Attributes are not known. */
#define HISTORY_SPANS_HEAD 20
int history_spans_decode_chunk(struct history_block_spans *spans, struct bytes head,
                               struct bytes chunk, size_t n);
/* KeyValue messages, each framed as Span field 9; borrowed from the body. */
struct bytes history_span_attributes(const struct history_block_span *span, struct bytes body);
void history_spans_close(struct history_block_spans *spans);

/* Puts them in the order in which they are encoded, and sets longest_ns. places: n, or NULL; where
 * each went. */
int history_spans_sort(struct history_block_span *spans, size_t n, uint32_t *places);
/* spans: n, sorted so; attributes_at is an offset in `attributes`. Tells where chunks begin. */
int history_spans_encode(struct blob_writer *out, const struct history_block_span *spans, size_t n,
                         struct bytes attributes, struct history_chunks *chunks);
