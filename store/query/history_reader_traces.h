/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the files that look for traces share: history_reader_traces.c finds them,
 * history_reader_busiest.c likewise, history_reader_candidates.c remembers the best,
 * history_reader_details.c tells of them. See history_reader_state.h.
 */
#include "store/query/history_reader_state.h"

struct found_trace {
    uint8_t trace_id[16];
    struct history_block_span longest;
    uint64_t asked_ns; /* HISTORY_SLOWEST: duration of the longest span that is asked for */
    uint64_t cpu_ns, samples;
    struct reader_range near; /* where its spans and samples are looked for */
    uint32_t n_spans;
    bool error, matched;
    bool in_range;  /* one of its spans is */
    uint32_t index; /* when it was chosen */
    struct found_trace *next_free;
};

#define FOUND_SIEVE_BITS 4096

struct found_best {
    uint64_t rank; /* more is better; where it is the same, a smaller id is */
    uint8_t trace_id[16];
};

enum finding_spans { FIND_ALL, FIND_SAMPLED, FIND_UNSAMPLED };

struct finding {
    struct reader_scan *scan;
    const struct history_filter *filter;
    enum history_order order;
    enum finding_spans which; /* are looked at */
    size_t limit;
    struct history_traces *answer;
    bool by_samples;    /* only traces of `sampled` */
    struct map sampled; /* ids, in the scratch */
    bool by_spans;      /* the filter asks something of spans */
    /* Found: */
    struct map by_id;
    struct found_trace *pool, *free;
    size_t n_pool;
    size_t n_matched;
    struct found_trace **sorted; /* the chosen, best first */
    size_t n_sorted, n_chosen;
    struct found_best *best; /* of different traces: a heap, the worst on top */
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
void found_forget(struct finding *finding); /* as opened */
/* The trace of a span, made if it is new. *trace: NULL if there is no room (the answer is not
 * complete then) or, not `make`, it is not known. */
int found_trace(struct finding *finding, const struct history_block_span *span, bool make,
                struct found_trace **trace);
/* Keeps what may still be among the best; when there may be no room for those of another block. */
int found_prune(struct finding *finding);
bool found_is_full(const struct finding *finding);
/* sorted = the best of those that match, at most n; the others are forgotten. */
int found_choose(struct finding *finding, size_t n);
/* Sorts the chosen anew, by what is known by now; at most n stay. */
void found_rank(struct finding *finding, size_t n);
/* Of a trace that was not told of before. */
void found_best_add(struct finding *finding, const struct found_best *one);
/* Whether it would be among the max_best. */
bool found_is_better(const struct finding *finding, const struct found_best *one);
bool found_ranks_before(const struct found_best *a, const struct found_best *b);
/* Of the chosen; NULL. */
struct found_trace *found_chosen(const struct finding *finding, const uint8_t trace_id[16]);

/* For HISTORY_MOST_CPU without a filter. 1: the chosen are found; 0: the lists of blocks do not say
 * which are the best. */
int traces_busiest(struct finding *finding);

/* Fills in the chosen; the function with most self time of each, if tops is not NULL. */
int traces_gather(struct finding *finding, struct reader_tops *tops);
