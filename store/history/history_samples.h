/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The samples of a block (HISTORY_PART_SAMPLES), grouped by all they have in common: those of the
 * block's spans first, in the order of the spans, in their chunks (history_index.h). Behind them,
 * in the tail, by trace, those that are joined with no span of the block, and then those without
 * trace. The CPU of a sample is not kept. Pure; thread: whoever holds it. See history_block.h.
 */
#include "store/history/history_spans.h"

#define HISTORY_NO_SPAN UINT32_MAX

struct history_context {
    uint32_t span; /* joined with this one of the block's spans; or HISTORY_NO_SPAN */
    bool matched;  /* with a span: of another block, if `span` says none */
    /* Of the span joined with, else of the sample's context; zero = not known. */
    uint8_t trace_id[16], span_id[8];
    uint8_t local_root_id[8];
};

struct history_sample_group {
    struct history_context context;
    int64_t series, stack;
    uint32_t tid; /* in the process's own PID namespace */
    /* What the samples have beyond their span, if that is in this block; else all. Framed as Span
     * field 9; borrowed from the body. */
    struct bytes attributes;
    uint64_t period_ns;
    uint32_t n;           /* samples; at least 1 */
    uint64_t value_ns;    /* of all of them */
    struct bytes samples; /* for history_times_of() */
    bool uniform;         /* likewise */
};

struct history_samples {
    const struct history_block_span *spans; /* n_spans of the block, from first_span on */
    size_t first_span, n_spans;
    bool is_chunk;
    struct blob_reader in;
    uint64_t base_unix_ns, samples_left;
    uint32_t groups_left; /* of the same context */
    struct history_sample_group group;
    struct bytes *attributes;
    size_t n_attributes, cap_attributes;
};

/* spans: all of the block. NULL, with the n_spans of the block's row: ids mean nothing then. */
int history_samples_open(struct history_samples *groups, struct bytes body,
                         const struct history_block_span *spans, size_t n_spans);
/* Of one chunk, or of the tail (n_spans: 0), whose spans are n_spans of the block from first_span
 * on. Times mean nothing. */
void history_samples_open_chunk(struct history_samples *groups, struct bytes chunk,
                                const struct history_block_span *spans, size_t first_span,
                                size_t n_spans);
/* 1 and *group, borrowed until the next call; 0: that was all; negative errno. */
int history_samples_next(struct history_samples *groups, const struct history_sample_group **group);
void history_samples_close(struct history_samples *groups);

struct history_group_times { /* of a group, by time */
    struct blob_reader in;
    uint32_t left;
    uint64_t time_unix_ns, period_ns;
    bool uniform;
};
struct history_group_times history_times_of(const struct history_samples *groups,
                                            const struct history_sample_group *group);
bool history_times_next(struct history_group_times *times, uint64_t *time_unix_ns,
                        uint64_t *value_ns);

struct history_sample { /* to be encoded */
    struct history_context context;
    int64_t series, stack;
    uint64_t time_unix_ns, value_ns, period_ns;
    uint32_t tid;
    uint32_t attributes; /* number: from 1 on, into those given to history_samples_encode() */
};

/* Sorts the samples. spans: those of the block that contexts name, as they were encoded, with their
 * chunks; says where the samples of each begin. attributes: each once. */
int history_samples_encode(struct blob_writer *out, struct history_sample *samples, size_t n,
                           const struct history_block_span *spans, const struct bytes *attributes,
                           size_t n_attributes, struct history_chunks *chunks);
