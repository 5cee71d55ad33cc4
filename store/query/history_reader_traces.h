/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Shared by the files of the trace search: history_reader_traces.c and history_reader_busiest.c
 * find traces, history_reader_candidates.c keeps the best, history_reader_details.c fills in their
 * details. See history_reader_state.h.
 */
#include "store/query/history_reader_state.h"

struct found_trace {
    uint8_t trace_id[16];
    struct history_block_span longest;
    uint64_t asked_ns; /* HISTORY_SLOWEST: duration of the longest matching span */
    uint64_t cpu_ns, samples;
    struct reader_range near; /* time range to search for its spans and samples */
    uint32_t n_spans;
    bool error, matched;
    bool in_range;  /* one of its spans is in range */
    uint32_t index; /* set when it is chosen */
    struct found_trace *next_free;
};

#define FOUND_SIEVE_BITS 4096

struct found_best {
    uint64_t rank; /* higher is better; for equal ranks the smaller id */
    uint8_t trace_id[16];
};

enum finding_spans { FIND_ALL, FIND_SAMPLED, FIND_UNSAMPLED };

struct finding {
    struct reader_scan *scan;
    const struct history_filter *filter;
    enum history_order order;
    enum finding_spans which; /* which spans are examined */
    size_t limit;
    struct history_traces *answer;
    bool by_samples;    /* only traces in `sampled` */
    struct map sampled; /* ids, in the scratch */
    bool by_spans;      /* the filter has conditions on spans */
    /* Results: */
    struct map by_id;
    struct found_trace *pool, *free;
    size_t n_pool;
    size_t n_matched;
    struct found_trace **sorted; /* the chosen traces, best first */
    size_t n_sorted, n_chosen;
    struct found_best *best; /* distinct traces; a heap with the worst on top */
    size_t n_best, max_best;
    uint64_t sieve[FOUND_SIEVE_BITS / 64]; /* of the chosen */
};

static inline bool finding_in_range(const struct finding *finding,
                                    const struct history_block_span *span)
{
    const struct reader_range *asked = &finding->scan->asked;
    return span->start_unix_ns < asked->to &&
           span->start_unix_ns + span->duration_ns >= asked->from;
}

static inline bool finding_needs_block(const struct finding *finding,
                                       const struct reader_block *block)
{
    const struct reader_range *asked = &finding->scan->asked;
    return block->spans && block->spans_from_unix_ns < asked->to &&
           block->spans_to_unix_ns >= asked->from;
}

int found_open(struct finding *finding);
void found_close(struct finding *finding);
void found_forget(struct finding *finding); /* back to the state after found_open() */
/* The trace of a span. make: creates it if new. *trace = NULL: there is no room (then the answer is
 * not complete), or the trace is not known and `make` is false. */
int found_trace(struct finding *finding, const struct history_block_span *span, bool make,
                struct found_trace **trace);
/* Keeps the traces that may still be among the best. Call it when the traces of another block may
 * not fit. */
int found_prune(struct finding *finding);
bool found_is_full(const struct finding *finding);
/* sorted = the best matching traces, at most n; forgets the others. */
int found_choose(struct finding *finding, size_t n);
/* Sorts the chosen traces again, by their current values, and keeps at most n. */
void found_rank(struct finding *finding, size_t n);
/* Adds a trace; each trace may be added only once. */
void found_best_add(struct finding *finding, const struct found_best *one);
/* Whether `one` would be among the max_best. */
bool found_is_better(const struct finding *finding, const struct found_best *one);
bool found_ranks_before(const struct found_best *a, const struct found_best *b);
/* The chosen trace with this id, or NULL. */
struct found_trace *found_chosen(const struct finding *finding, const uint8_t trace_id[16]);

/* For HISTORY_MOST_CPU without a filter. 1: the chosen traces are found; 0: the lists of the blocks
 * (history_busiest.h) do not suffice. */
int traces_busiest(struct finding *finding);

/* Fills in the details of the chosen traces; tops: NULL, or also finds the function with the most
 * self time of each. */
int traces_gather(struct finding *finding, struct reader_tops *tops);
