/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which traces a block has, and where (HISTORY_PART_TRACES). Spans and samples lie in chunks, each
 * of which can be decoded alone: those of a trace, and the samples of its spans, are in one. What
 * is in no span of the block is in the tail of the samples. Pure; thread: whoever holds it. See
 * history_block.h.
 */
#include "store/history/history_block.h"

#define HISTORY_CHUNK_SPANS 256 /* at least, but for the last one; traces are not split */
#define HISTORY_CHUNKS_MAX  (HISTORY_BLOCK_SPANS_MAX / HISTORY_CHUNK_SPANS + 1)
#define HISTORY_NO_CHUNK    UINT32_MAX

struct history_chunk { /* where it begins */
    uint32_t first_span, spans_at, samples_at;
};

struct history_chunks {
    size_t n;
    struct history_chunk of[HISTORY_CHUNKS_MAX + 1]; /* and one more: where they end */
};

struct history_where {
    uint32_t chunk; /* HISTORY_NO_CHUNK: it has no span here */
    bool tail;      /* it has samples in the tail */
};

struct history_index_trace { /* to be encoded */
    uint8_t trace_id[16];
    struct history_where where;
};

/* traces: in any order, which changes; also several times, what is known of each is put together.
 */
int history_index_encode(struct blob_writer *out, const struct history_chunks *chunks,
                         struct history_index_trace *traces, size_t n);

struct history_index { /* being read */
    struct history_chunks chunks;
    uint64_t n_traces;
    uint64_t left, place; /* places to come; the latest */
    struct bytes wheres;
    size_t where_size;
    struct blob_reader places;
};

/* Borrows the body. -EUCLEAN: damaged. */
int history_index_open(struct history_index *index, struct bytes body);
/* What the index has in place of an id; rarely, another trace has the same. */
uint64_t history_index_place(const struct history_index *index, const uint8_t trace_id[16]);
/* 1: the next entry, by place; 0: that was all; -EUCLEAN. */
int history_index_next(struct history_index *index, uint64_t *place, struct history_where *where);

/* False: neither a span nor a sample of the block is of this trace. True: one is, or, once in some
 * 250 times, none is. A damaged body is taken for true. */
bool history_index_may_have(struct bytes body, const uint8_t trace_id[16]);
