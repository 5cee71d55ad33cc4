/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An hour may have millions of traces, and a page shows fifty: traces far from the best are dropped
 * from time to time.
 */
#include "base/hash.h"
#include "store/query/history_reader_traces.h"
#include <errno.h>
#include <stdlib.h>

#define POOL_MAX  ((size_t)1 << 17) /* traces */
#define PRUNED_TO ((size_t)1 << 14)

int found_open(struct finding *finding)
{
    MAP_INIT(&finding->by_id, struct found_trace, trace_id);
    finding->pool = calloc(POOL_MAX, sizeof(*finding->pool)); /* pages are allocated on use */
    finding->sorted = calloc(POOL_MAX, sizeof(struct found_trace *));
    finding->best = calloc(finding->max_best + 1, sizeof(*finding->best));
    return finding->pool && finding->sorted && finding->best ? 0 : -ENOMEM;
}

void found_forget(struct finding *finding)
{
    map_close(&finding->by_id);
    memset(finding->sieve, 0, sizeof(finding->sieve));
    finding->free = NULL;
    finding->n_pool = finding->n_matched = finding->n_sorted = finding->n_chosen = 0;
    finding->n_best = 0;
    finding->answer->searched_spans = 0;
}

void found_close(struct finding *finding)
{
    map_close(&finding->by_id);
    free(finding->pool);
    free(finding->sorted);
    free(finding->best);
}

bool found_is_full(const struct finding *finding)
{
    return finding->by_id.count + HISTORY_BLOCK_SPANS_MAX > POOL_MAX;
}

static struct found_trace *take_free(struct finding *finding)
{
    struct found_trace *trace = finding->free;
    if (trace)
        finding->free = trace->next_free;
    else if (finding->n_pool < POOL_MAX)
        trace = &finding->pool[finding->n_pool++];
    return trace;
}

int found_trace(struct finding *finding, const struct history_block_span *span, bool make,
                struct found_trace **result)
{
    struct found_trace *trace = map_get(&finding->by_id, span->trace_id);
    *result = trace;
    if (trace || !make)
        return 0;
    trace = take_free(finding);
    if (!trace) {
        finding->scan->complete = false;
        return 0;
    }
    *trace = (struct found_trace){.longest = *span};
    memcpy(trace->trace_id, span->trace_id, 16);
    *result = trace;
    return map_put(&finding->by_id, trace, NULL);
}

/* Order */

/* The slowest traces are chosen by their slowest matching span, and then sorted by duration. */
static uint64_t rank_of(const struct finding *finding, const struct found_trace *trace)
{
    return finding->order == HISTORY_MOST_CPU     ? trace->cpu_ns
           : finding->order == HISTORY_LATEST     ? trace->longest.start_unix_ns
           : finding->n_chosen || !trace->matched ? trace->longest.duration_ns
                                                  : trace->asked_ns;
}

/* Matching traces first. */
static int found_compare(const void *left, const void *right, void *finding)
{
    const struct found_trace *a = *(struct found_trace *const *)left;
    const struct found_trace *b = *(struct found_trace *const *)right;
    uint64_t x = rank_of(finding, a), y = rank_of(finding, b);
    if (a->matched != b->matched)
        return a->matched ? -1 : 1;
    return x != y ? (x < y ? 1 : -1) : memcmp(a->trace_id, b->trace_id, 16);
}

static bool duration_passes(const struct history_filter *filter, uint64_t duration)
{
    return duration >= filter->min_duration_ns &&
           (!filter->max_duration_ns || duration <= filter->max_duration_ns);
}

void found_rank(struct finding *finding, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < finding->n_sorted; i++)
        if (duration_passes(finding->filter, finding->sorted[i]->longest.duration_ns))
            finding->sorted[n++] = finding->sorted[i];
    qsort_r(finding->sorted, n, sizeof(struct found_trace *), found_compare, finding);
    finding->n_sorted = n < max ? n : max;
}

static void sort_all(struct finding *finding, bool matched_alone)
{
    struct found_trace *trace;
    finding->n_sorted = 0;
    for (size_t i = 0; (trace = map_next(&finding->by_id, &i));)
        if (trace->matched || !matched_alone)
            finding->sorted[finding->n_sorted++] = trace;
    found_rank(finding, SIZE_MAX);
}

int found_prune(struct finding *finding)
{
    size_t keep = finding->limit * 4 > PRUNED_TO ? finding->limit * 4 : PRUNED_TO;
    sort_all(finding, false);
    for (size_t i = keep; i < finding->n_sorted; i++) {
        struct found_trace *trace = finding->sorted[i];
        map_remove(&finding->by_id, trace->trace_id);
        trace->next_free = finding->free;
        finding->free = trace;
    }
    return 0;
}

/* The best */

bool found_ranks_before(const struct found_best *a, const struct found_best *b)
{
    if (a->rank != b->rank)
        return a->rank > b->rank;
    return memcmp(a->trace_id, b->trace_id, 16) < 0;
}

bool found_is_better(const struct finding *finding, const struct found_best *one)
{
    return finding->n_best < finding->max_best || found_ranks_before(one, &finding->best[0]);
}

static void sink_best(struct finding *finding)
{
    struct found_best *best = finding->best, top = best[0];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < finding->n_best; at = child) {
        if (child + 1 < finding->n_best && found_ranks_before(&best[child], &best[child + 1]))
            child++;
        if (!found_ranks_before(&top, &best[child]))
            break;
        best[at] = best[child];
    }
    best[at] = top;
}

void found_best_add(struct finding *finding, const struct found_best *one)
{
    struct found_best *best = finding->best;
    if (!found_is_better(finding, one))
        return;
    if (finding->n_best == finding->max_best) {
        best[0] = *one;
        sink_best(finding);
        return;
    }
    size_t at = finding->n_best++;
    for (; at && found_ranks_before(&best[(at - 1) / 2], one); at = (at - 1) / 2)
        best[at] = best[(at - 1) / 2];
    best[at] = *one;
}

/* The chosen */

/* Ids are random, at least in part, so some of their bits serve as a hash. */
static unsigned sieve_bit(const uint8_t id[16])
{
    uint64_t halves[2];
    memcpy(halves, id, 16);
    return (unsigned)(hash_mix(halves[0] ^ halves[1]) >> 52);
}

struct found_trace *found_chosen(const struct finding *finding, const uint8_t trace_id[16])
{
    unsigned bit = sieve_bit(trace_id);
    bool may_be = finding->sieve[bit / 64] >> bit % 64 & 1;
    return may_be ? map_get(&finding->by_id, trace_id) : NULL;
}

int found_choose(struct finding *finding, size_t n)
{
    sort_all(finding, true);
    finding->n_sorted = finding->n_sorted < n ? finding->n_sorted : n;
    finding->n_chosen = finding->n_sorted;
    map_close(&finding->by_id);
    for (size_t i = 0; i < finding->n_sorted; i++) {
        struct found_trace *trace = finding->sorted[i];
        unsigned bit = sieve_bit(trace->trace_id);
        trace->index = (uint32_t)i;
        trace->cpu_ns = 0;
        if (!trace->near.to)
            trace->near =
                (struct reader_range){trace->longest.start_unix_ns,
                                      trace->longest.start_unix_ns + trace->longest.duration_ns};
        finding->sieve[bit / 64] |= UINT64_C(1) << bit % 64;
        if (map_put(&finding->by_id, trace, NULL))
            return -ENOMEM;
    }
    return 0;
}
