/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The samples of a block (HISTORY_PART_SAMPLES). Samples that differ only in time and value form a
 * group. First, in the chunks of history_index.h, the samples of the block's spans, in the order of
 * the spans. Then, in the tail, samples that are joined with no span of the block, by trace; last,
 * samples without trace. The CPU number of a sample is not kept. Pure; thread: the owner's. See
 * history_block.h.
 */
#include "store/history/history_spans.h"

#define HISTORY_NO_SPAN UINT32_MAX

struct history_context {
    uint32_t span; /* index of the joined span in the block; or HISTORY_NO_SPAN */
    bool matched;  /* joined; with a span of another block if span == HISTORY_NO_SPAN */
    /* Ids of the joined span, else of the sample's context; zero = not known. */
    uint8_t trace_id[16], span_id[8];
    uint8_t local_root_id[8];
};

struct history_sample_group {
    struct history_context context;
    int64_t series, stack;
    uint32_t tid; /* in the process's own PID namespace */
    /* Attributes of the samples. If their span is in this block, without the span's attributes.
     * Framed as Span field 9; borrowed from the body. */
    struct bytes attributes;
    uint64_t period_ns;
    uint32_t n;           /* number of samples; n >= 1 */
    uint64_t value_ns;    /* sum over the samples */
    struct bytes samples; /* for history_times_of() */
    bool uniform;         /* for history_times_of() */
};

struct history_samples {
    const struct history_block_span *spans; /* n_spans spans of the block, from first_span on */
    size_t first_span, n_spans;
    bool is_chunk;
    struct blob_reader in;
    uint64_t base_unix_ns, samples_left;
    uint32_t groups_left; /* groups left of the same context */
    struct history_sample_group group;
    struct bytes *attributes;
    size_t n_attributes, cap_attributes;
};

/* spans: all spans of the block, or NULL; n_spans: as in the block's row. With NULL, the ids of
 * groups are not valid. */
int history_samples_open(struct history_samples *groups, struct bytes body,
                         const struct history_block_span *spans, size_t n_spans);
/* Opens one chunk, or the tail (n_spans = 0). The chunk's spans are n_spans of the block from
 * first_span on. Times are not valid. */
void history_samples_open_chunk(struct history_samples *groups, struct bytes chunk,
                                const struct history_block_span *spans, size_t first_span,
                                size_t n_spans);
/* 1 and *group, borrowed until the next call; 0: end; negative errno. */
int history_samples_next(struct history_samples *groups, const struct history_sample_group **group);
void history_samples_close(struct history_samples *groups);

struct history_group_times { /* times of a group's samples, ascending */
    struct blob_reader in;
    uint32_t left;
    uint64_t time_unix_ns, period_ns;
    bool uniform;
};
struct history_group_times history_times_of(const struct history_samples *groups,
                                            const struct history_sample_group *group);
bool history_times_next(struct history_group_times *times, uint64_t *time_unix_ns,
                        uint64_t *value_ns);

struct history_sample { /* encoder input */
    struct history_context context;
    int64_t series, stack;
    uint64_t time_unix_ns, value_ns, period_ns;
    uint32_t tid;
    uint32_t attributes; /* 1-based index in attributes[] of history_samples_encode() */
};

/* Sorts the samples. spans: spans of the block, as encoded; contexts refer to them. chunks: from
 * history_spans_encode(); sets samples_at. attributes: each once. */
int history_samples_encode(struct blob_writer *out, struct history_sample *samples, size_t n,
                           const struct history_block_span *spans, const struct bytes *attributes,
                           size_t n_attributes, struct history_chunks *chunks);
