/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each block lists its traces with the most CPU time, so a trace in no list has at most the CPU
 * time of the last entries. The lists have no times, so the spans of a trace show whether it ran in
 * the range.
 */
#include "store/history/history_busiest.h"
#include "store/query/history_reader_traces.h"
#include <errno.h>

struct listing {
    struct finding *finding;
    struct found_best bound; /* every trace in no list ranks after it */
    bool has_bound;
    struct buf body;
};

static int take_listed(struct finding *finding, const struct reader_block *block,
                       const struct found_best *one)
{
    struct history_block_span of = {.duration_ns = 0};
    struct found_trace *trace;
    memcpy(of.trace_id, one->trace_id, 16);
    int error = found_trace(finding, &of, true, &trace);
    if (error || !trace)
        return error;
    if (!trace->matched)
        found_best_add(finding, one);
    finding->n_matched += !trace->matched;
    trace->matched = true;
    if (trace->cpu_ns < one->rank)
        trace->cpu_ns = one->rank;
    struct reader_range *near = &trace->near;
    if (!near->to || block->spans_from_unix_ns < near->from)
        near->from = block->spans_from_unix_ns;
    if (block->spans_to_unix_ns > near->to)
        near->to = block->spans_to_unix_ns;
    if (block->written_unix_ns > near->to)
        near->to = block->written_unix_ns;
    return 0;
}

static int take_list(struct listing *listing, const struct reader_block *block)
{
    struct finding *finding = listing->finding;
    struct history_busiest list;
    struct found_best one = {0};
    int64_t id = history_part_id(block->seq, HISTORY_PART_BUSIEST);
    int error = reader_part_get(finding->scan->reader, id, &listing->body);
    error = error ? error : history_busiest_open(&list, buf_bytes(&listing->body));
    int outcome = 0;
    while (!error && (outcome = history_busiest_next(&list)) == 1) {
        one.rank = list.trace.cpu_ns;
        memcpy(one.trace_id, list.trace.trace_id, 16);
        if (!found_is_better(finding, &one))
            return 0; /* later entries are not better, either */
        error = take_listed(finding, block, &one);
    }
    if (error || outcome)
        return error ? error : outcome;
    if (!list.is_all && (!listing->has_bound || found_ranks_before(&one, &listing->bound))) {
        listing->bound = one;
        listing->has_bound = true;
    }
    return 0;
}

static int take_lists(struct listing *listing)
{
    struct finding *finding = listing->finding;
    struct reader_scan *scan = finding->scan;
    int error = 0;
    for (size_t i = scan->n_blocks; i-- && !error && reader_scan_goes_on(scan);)
        if (finding_needs_block(finding, &scan->blocks[i]))
            error = take_list(listing, &scan->blocks[i]);
    return error;
}

static void keep_those_in_range(struct finding *finding)
{
    size_t n = 0;
    for (size_t i = 0; i < finding->n_sorted; i++)
        if (finding->sorted[i]->in_range)
            finding->sorted[n++] = finding->sorted[i];
    finding->n_sorted = n;
    found_rank(finding, SIZE_MAX);
}

/* 1: the chosen are the best; 0: a trace in no list may be better, or there are too few. */
static int are_best(const struct listing *listing)
{
    const struct finding *finding = listing->finding;
    if (finding->scan->stopped)
        return 1; /* out of time: the answer so far */
    if (finding->n_sorted < finding->limit || !finding->limit)
        return 0;
    const struct found_trace *last = finding->sorted[finding->limit - 1];
    struct found_best one = {.rank = last->cpu_ns};
    memcpy(one.trace_id, last->trace_id, 16);
    return !listing->has_bound || !found_ranks_before(&listing->bound, &one);
}

/* The spans are known now, and with them the time range of each trace. */
static void begin_again(struct finding *finding)
{
    for (size_t i = 0; i < finding->n_sorted; i++) {
        struct found_trace *trace = finding->sorted[i];
        const struct history_block_span *longest = &trace->longest;
        trace->near = (struct reader_range){longest->start_unix_ns,
                                            longest->start_unix_ns + longest->duration_ns};
        trace->cpu_ns = trace->samples = trace->n_spans = 0;
        trace->error = false;
    }
}

int traces_busiest(struct finding *finding)
{
    struct listing listing = {.finding = finding};
    int error = take_lists(&listing);
    buf_close(&listing.body);
    if (error == -EUCLEAN || error == -ENOENT)
        return 0;
    error = error ? error : found_choose(finding, finding->max_best);
    error = error ? error : traces_gather(finding, NULL);
    if (error)
        return error;
    keep_those_in_range(finding);
    int outcome = are_best(&listing);
    if (outcome && !finding->scan->stopped)
        begin_again(finding);
    return outcome;
}
