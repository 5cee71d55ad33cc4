/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which traces a block has, and where (HISTORY_PART_TRACES). Spans and samples are stored in
 * chunks, each of which can be decoded alone. All spans of a trace, and the samples of those spans,
 * are in one chunk. Samples that belong to no span of the block are in the tail of the samples.
 * Pure; thread: the owner's. See history_block.h.
 */
#include "store/history/history_block.h"

#define HISTORY_CHUNK_SPANS 256 /* minimum, except in the last chunk; a trace is never split */
#define HISTORY_CHUNKS_MAX  (HISTORY_BLOCK_SPANS_MAX / HISTORY_CHUNK_SPANS + 1)
#define HISTORY_NO_CHUNK    UINT32_MAX

struct history_chunk { /* where a chunk begins */
    uint32_t first_span, spans_at, samples_at;
};

struct history_chunks {
    size_t n;
    struct history_chunk of[HISTORY_CHUNKS_MAX + 1]; /* of[n]: where the last chunk ends */
};

struct history_where {
    uint32_t chunk; /* HISTORY_NO_CHUNK: no span of the trace is in the block */
    bool tail;      /* samples of the trace are in the tail */
};

struct history_index_trace { /* to be encoded */
    uint8_t trace_id[16];
    struct history_where where;
};

/* traces: in any order; the function reorders them. A trace may be listed several times; its
 * entries are merged. */
int history_index_encode(struct blob_writer *out, const struct history_chunks *chunks,
                         struct history_index_trace *traces, size_t n);

struct history_index { /* decoder */
    struct history_chunks chunks;
    uint64_t n_traces;
    uint64_t left, place; /* places not read yet; latest place */
    struct bytes wheres;
    size_t where_size;
    struct blob_reader places;
};

/* Borrows the body. -EUCLEAN: damaged. */
int history_index_open(struct history_index *index, struct bytes body);
/* The value that the index stores for a trace id. Rarely, two traces have the same place. */
uint64_t history_index_place(const struct history_index *index, const uint8_t trace_id[16]);
/* 1: the next entry, in order of place; 0: end; -EUCLEAN. */
int history_index_next(struct history_index *index, uint64_t *place, struct history_where *where);

/* False: neither a span nor a sample of the block is of this trace. True: a span or sample is of
 * this trace; wrong in about one of 100 cases. True if the body is damaged. */
bool history_index_may_have(struct bytes body, const uint8_t trace_id[16]);
