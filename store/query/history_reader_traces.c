/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slowest traces: each block orders its traces by longest span, so merging the blocks in this
 * order finds the slowest first, and few are read. (With conditions on spans, the slowest matching
 * span counts: the search continues until no later trace can have a slower one.) The latest traces
 * are in the latest blocks. The traces with the most CPU time are in lists of the blocks; with a
 * filter, all spans of the range are read instead.
 */
#include "store/query/history_reader_traces.h"
#include <errno.h>
#include <stdlib.h>

#define PREFIX_BYTES                                                                               \
    ((size_t)16 << 10) /* first prefix of a block's spans; doubled when more are needed */
#define CURSORS_BYTES ((size_t)64 << 20) /* limit of decoded spans, all cursors together */

/* 1: the span matches; 0: it does not. */
static int finding_passes(struct finding *finding, const struct history_block_span *span,
                          struct bytes body)
{
    const struct history_filter *filter = finding->filter;
    if (filter->by_trace && memcmp(span->trace_id, filter->trace_id, 16) != 0)
        return 0;
    if (finding->by_samples && !map_get(&finding->sampled, span->trace_id))
        return 0;
    return finding->by_spans ? reader_match_span(finding->scan, span, body) : 1;
}

static void take_match(struct finding *finding, struct found_trace *trace, uint64_t duration_ns)
{
    if (!trace->matched) {
        trace->matched = true;
        finding->n_matched++;
    }
    if (trace->asked_ns < duration_ns)
        trace->asked_ns = duration_ns;
}

/* Those with asked-for samples */

struct sampled_trace {
    uint8_t trace_id[16];
};

static int note_sampled(void *context, const struct reader_weight *weight)
{
    struct finding *finding = context;
    const uint8_t *id = weight->group ? weight->group->context.trace_id : NULL;
    if (!id || bytes_zero(id, 16) || map_get(&finding->sampled, id))
        return 0;
    struct sampled_trace *trace = arena_dup(&finding->scan->reader->scratch, id, 16);
    return trace ? map_put(&finding->sampled, trace, NULL) : -ENOMEM;
}

/* All spans, latest blocks first */

static int take_span(struct finding *finding, const struct history_block_span *span)
{
    struct found_trace *trace;
    if (!finding_in_range(finding, span) ||
        (finding->which != FIND_ALL && (finding->which == FIND_SAMPLED) != (span->samples > 0)))
        return 0;
    finding->answer->searched_spans++;
    int error = found_trace(finding, span, true, &trace);
    if (error || !trace)
        return error;
    if (trace->longest.duration_ns < span->duration_ns)
        trace->longest = *span;
    trace->cpu_ns += span->cpu_ns;
    if (trace->matched &&
        (finding->order != HISTORY_SLOWEST || trace->asked_ns >= span->duration_ns))
        return 0;
    int outcome = finding_passes(finding, span, buf_bytes(&finding->scan->spans_body));
    if (outcome > 0)
        take_match(finding, trace, span->duration_ns);
    return outcome < 0 ? outcome : 0;
}

static int take_block(struct finding *finding, const struct reader_block *block)
{
    struct reader_scan *scan = finding->scan;
    if (found_is_full(finding)) {
        int error = found_prune(finding);
        if (error)
            return error;
    }
    int error = reader_scan_spans(scan, block);
    for (size_t i = 0; i < scan->spans.n && !error; i++)
        error = take_span(finding, &scan->spans.spans[i]);
    return error;
}

/* True: `limit` matching traces began after every span of the n oldest blocks. */
static bool has_latest(struct finding *finding, size_t n)
{
    uint64_t latest = 0;
    if (finding->order != HISTORY_LATEST || finding->n_matched < finding->limit)
        return false;
    found_prune(finding); /* sorts */
    if (finding->n_sorted < finding->limit || !finding->sorted[finding->limit - 1]->matched)
        return false;
    for (size_t i = 0; i < n; i++)
        if (finding->scan->blocks[i].spans_to_unix_ns > latest)
            latest = finding->scan->blocks[i].spans_to_unix_ns;
    return finding->sorted[finding->limit - 1]->longest.start_unix_ns >= latest;
}

static int find_all(struct finding *finding)
{
    struct reader_scan *scan = finding->scan;
    int error = 0;
    for (size_t i = scan->n_blocks; i-- && !error && reader_scan_goes_on(scan);) {
        if (!finding_needs_block(finding, &scan->blocks[i]))
            continue;
        error = reader_scan_left_out(scan, take_block(finding, &scan->blocks[i]));
        if (!error && has_latest(finding, i))
            break;
    }
    return error;
}

/* Only spans with samples have CPU time. Other spans are read if the filter has more conditions, or
 * if too few traces are found. */
static int find_most_cpu(struct finding *finding)
{
    const struct history_filter *filter = finding->filter;
    if (finding->by_spans || filter->min_duration_ns || filter->max_duration_ns)
        return find_all(finding);
    finding->which = FIND_SAMPLED;
    int error = find_all(finding);
    if (error || finding->n_matched >= finding->limit)
        return error;
    finding->which = FIND_UNSAMPLED;
    return find_all(finding);
}

/* Longest first */

struct cursor {
    const struct reader_block *block;
    uint64_t longest_ns; /* of its next trace, or an upper bound */
    struct history_block_spans spans;
    struct buf body; /* prefix read so far */
    size_t next, body_size;
};

struct cursors {
    struct cursor *all;
    struct cursor **heap; /* longest on top */
    size_t n;
    size_t bytes; /* of decoded spans */
};

static void cursors_sink(struct cursors *cursors, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < cursors->n; at = child) {
        struct cursor **heap = cursors->heap;
        if (child + 1 < cursors->n && heap[child + 1]->longest_ns > heap[child]->longest_ns)
            child++;
        if (heap[at]->longest_ns >= heap[child]->longest_ns)
            return;
        struct cursor *larger = heap[child];
        heap[child] = heap[at];
        heap[at] = larger;
    }
}

static int cursors_open(struct finding *finding, struct cursors *cursors)
{
    const struct reader_scan *scan = finding->scan;
    *cursors = (struct cursors){
        .all = calloc(scan->n_blocks + 1, sizeof(*cursors->all)),
        .heap = calloc(scan->n_blocks + 1, sizeof(struct cursor *)),
    };
    if (!cursors->all || !cursors->heap)
        return -ENOMEM;
    for (size_t i = 0; i < scan->n_blocks; i++) {
        if (!finding_needs_block(finding, &scan->blocks[i]))
            continue;
        struct cursor *cursor = &cursors->all[cursors->n];
        cursor->block = &scan->blocks[i];
        cursor->longest_ns = cursor->block->max_duration_ns;
        cursors->heap[cursors->n++] = cursor;
    }
    for (size_t i = cursors->n / 2; i--;)
        cursors_sink(cursors, i);
    return 0;
}

static void cursors_close(struct cursors *cursors, size_t n)
{
    for (size_t i = 0; i < n && cursors->all; i++) {
        history_spans_close(&cursors->all[i].spans);
        buf_close(&cursors->all[i].body);
    }
    free(cursors->all);
    free(cursors->heap);
}

/* Reads more of the body, then decodes more of its spans. */
static int read_on(struct reader_scan *scan, struct cursor *cursor)
{
    size_t want = cursor->body.len ? cursor->body.len * 2 : PREFIX_BYTES;
    int64_t id = history_part_id(cursor->block->seq, HISTORY_PART_SPANS);
    int error = reader_part_begin(scan->reader, id, want, &cursor->body, &cursor->body_size);
    if (error)
        return error;
    return history_spans_decode(&cursor->spans, buf_bytes(&cursor->body),
                                cursor->body.len == cursor->body_size, cursor->block->spans,
                                cursor->block->spans);
}

/* True: all spans of its next trace are decoded. */
static bool is_loaded(const struct cursor *cursor)
{
    const struct history_block_spans *spans = &cursor->spans;
    return cursor->next < spans->n && (spans->trace_from > cursor->next || !spans->trace_left);
}

static size_t bytes_of(const struct cursor *cursor)
{
    return cursor->body.cap + cursor->spans.cap * sizeof(*cursor->spans.spans);
}

/* 1: its next trace is decoded; 0: it has no more traces. */
static int cursor_load(struct reader_scan *scan, struct cursors *cursors, struct cursor *cursor)
{
    while (!is_loaded(cursor)) {
        if (cursor->next >= cursor->block->spans ||
            (cursor->body_size && cursor->body.len == cursor->body_size))
            return 0;
        size_t before = bytes_of(cursor);
        int error = read_on(scan, cursor);
        if (error)
            return error;
        cursors->bytes += bytes_of(cursor) - before;
    }
    return 1;
}

static void drop_top(struct cursors *cursors)
{
    cursors->heap[0] = cursors->heap[--cursors->n];
    cursors_sink(cursors, 0);
}

static bool is_long_enough(const struct finding *finding, uint64_t duration_ns)
{
    return duration_ns >= finding->filter->min_duration_ns;
}

/* Finds the longest matching span; NULL if there is none. */
static int find_asked(struct finding *finding, const struct cursor *cursor, size_t end,
                      const struct history_block_span **asked)
{
    *asked = NULL;
    for (size_t i = cursor->next; i < end; i++) {
        const struct history_block_span *span = &cursor->spans.spans[i];
        finding->answer->searched_spans++;
        if (!finding_in_range(finding, span))
            continue;
        int outcome = finding_passes(finding, span, buf_bytes(&cursor->body));
        if (outcome > 0)
            *asked = span;
        if (outcome)
            return outcome < 0 ? outcome : 0;
    }
    return 0;
}

/* The matching span may be in another block than the longest span, which is met first. */
static int take_trace(struct finding *finding, const struct cursor *cursor, size_t end)
{
    const struct history_block_span *longest = &cursor->spans.spans[cursor->next], *asked;
    const struct history_filter *filter = finding->filter;
    struct found_trace *trace;
    int error = find_asked(finding, cursor, end, &asked);
    bool may_match =
        asked || finding->by_spans || filter->min_duration_ns || filter->max_duration_ns;
    if (error || !may_match)
        return error;
    if (found_is_full(finding))
        found_prune(finding);
    error = found_trace(finding, longest, is_long_enough(finding, longest->duration_ns), &trace);
    if (error || !trace || !asked ||
        (filter->max_duration_ns && trace->longest.duration_ns > filter->max_duration_ns))
        return error;
    if (!trace->matched) {
        struct found_best one = {.rank = asked->duration_ns};
        found_best_add(finding, &one);
    }
    take_match(finding, trace, asked->duration_ns);
    return 0;
}

static int take_next(struct finding *finding, struct cursor *cursor)
{
    const struct history_block_span *spans = cursor->spans.spans;
    size_t end = cursor->next + 1;
    while (end < cursor->spans.n && !memcmp(spans[end].trace_id, spans[cursor->next].trace_id, 16))
        end++;
    int error = take_trace(finding, cursor, end);
    cursor->next = end;
    return error;
}

/* 1: the next trace of all blocks is the top's; 0: try again. */
static int settle_top(struct reader_scan *scan, struct cursors *cursors)
{
    struct cursor *top = cursors->heap[0];
    int outcome = cursor_load(scan, cursors, top);
    if (outcome <= 0) {
        drop_top(cursors);
        return reader_scan_left_out(scan, outcome);
    }
    uint64_t longest = top->spans.spans[top->next].longest_ns;
    if (longest == top->longest_ns)
        return 1;
    top->longest_ns = longest;
    cursors_sink(cursors, 0);
    return 0;
}

static bool has_slowest(const struct finding *finding, uint64_t longest_ns)
{
    if (!finding->by_spans && !is_long_enough(finding, longest_ns))
        return true;
    return finding->n_best == finding->max_best &&
           (!finding->limit || finding->best[0].rank >= longest_ns);
}

enum { TOO_MUCH = 1 };

static int finding_walk(struct finding *finding, struct cursors *cursors)
{
    struct reader_scan *scan = finding->scan;
    for (unsigned n = 0; cursors->n; n++) {
        struct cursor *top = cursors->heap[0];
        if (has_slowest(finding, top->longest_ns) || (n % 256 == 0 && !reader_scan_goes_on(scan)))
            return 0;
        if (cursors->bytes > CURSORS_BYTES)
            return TOO_MUCH;
        int outcome = settle_top(scan, cursors);
        if (outcome > 0)
            outcome = reader_scan_left_out(scan, take_next(finding, top));
        if (outcome)
            return outcome;
    }
    return 0;
}

/* If few spans match, every block must be read completely: then blocks are read one after the
 * other. */
static int find_slowest(struct finding *finding)
{
    struct cursors cursors;
    int outcome = cursors_open(finding, &cursors);
    size_t n = cursors.n;
    outcome = outcome ? outcome : finding_walk(finding, &cursors);
    cursors_close(&cursors, n);
    if (outcome != TOO_MUCH)
        return outcome;
    found_forget(finding);
    return find_all(finding);
}

/* Answer */

static int show_trace(const struct finding *finding, const struct found_trace *trace,
                      struct bytes top_function, struct arena *arena,
                      struct history_trace_summary *summary)
{
    struct reader_series *series;
    int error = reader_series(finding->scan->reader, trace->longest.series, &series);
    if (error)
        return error;
    *summary = (struct history_trace_summary){
        .service = series->service,
        .name = series->span_name,
        .start_unix_ns = trace->longest.start_unix_ns,
        .duration_ns = trace->longest.duration_ns,
        .cpu_ns = trace->cpu_ns,
        .samples = trace->samples,
        .n_spans = trace->n_spans,
        .error = trace->error,
        .top_function = top_function,
    };
    memcpy(summary->trace_id, trace->trace_id, 16);
    memcpy(summary->span_id, trace->longest.span_id, 8);
    error = reader_copy_text(arena, &summary->service);
    error = error ? error : reader_copy_text(arena, &summary->name);
    return error ? error : reader_copy_text(arena, &summary->top_function);
}

static int finding_show(const struct finding *finding, const struct reader_tops *found,
                        struct arena *arena)
{
    struct history_traces *answer = finding->answer;
    size_t n = finding->n_sorted;
    /* The index of an owner is the order of choice. */
    struct reader_top *tops =
        arena_zalloc(&finding->scan->reader->scratch, finding->n_chosen * sizeof(*tops));
    answer->traces = arena_alloc(arena, n * sizeof(*answer->traces));
    if (!tops || !answer->traces)
        return -ENOMEM;
    reader_tops_best(found, tops, finding->n_chosen);
    int error = 0;
    for (answer->n = 0; answer->n < n && !error; answer->n++) {
        const struct found_trace *trace = finding->sorted[answer->n];
        error = show_trace(finding, trace, tops[trace->index].function, arena,
                           &answer->traces[answer->n]);
    }
    return error;
}

static int finding_find(struct finding *finding)
{
    struct reader_scan *scan = finding->scan;
    int error = 0;
    if (finding->by_samples) {
        scan->by_minutes = false; /* minutes have no traces */
        scan->whole = (struct reader_range){0};
        error = reader_scan_samples(scan, false, note_sampled, finding);
    }
    if (error)
        return error;
    return finding->order == HISTORY_SLOWEST    ? find_slowest(finding)
           : finding->order == HISTORY_MOST_CPU ? find_most_cpu(finding)
                                                : find_all(finding);
}

static bool may_be_listed(const struct finding *finding)
{
    const struct history_filter *filter = finding->filter;
    return finding->order == HISTORY_MOST_CPU && !finding->by_spans && !finding->by_samples &&
           !filter->min_duration_ns && !filter->max_duration_ns;
}

static int finding_choose(struct finding *finding)
{
    int outcome = may_be_listed(finding) ? traces_busiest(finding) : 0;
    if (outcome)
        return outcome < 0 ? outcome : 0;
    found_forget(finding);
    int error = finding_find(finding);
    return error ? error : found_choose(finding, finding->max_best);
}

static int finding_answer(struct finding *finding, struct arena *arena)
{
    struct reader_tops tops;
    reader_tops_open(&tops, finding->scan->reader);
    int error = finding_choose(finding);
    error = error ? error : traces_gather(finding, &tops);
    if (!error) {
        found_rank(finding, finding->limit);
        error = finding_show(finding, &tops, arena);
    }
    finding->answer->complete = finding->scan->complete;
    reader_tops_close(&tops);
    return error;
}

int history_traces(struct history_reader *reader, const struct history_filter *filter,
                   enum history_order order, size_t limit, struct arena *arena,
                   struct history_traces *traces)
{
    DB_THREAD(reader->db);
    struct history_filter of_samples = *filter; /* the duration is checked here */
    struct reader_scan scan;
    struct finding finding = {
        .scan = &scan,
        .filter = filter,
        .order = order,
        .limit = limit < HISTORY_TRACES_MAX ? limit : HISTORY_TRACES_MAX,
        .answer = traces,
        .by_samples = filter->function.len || filter->thread.len || filter->pid,
        .by_spans = filter->service.len || filter->span_name.len || filter->container.len ||
                    filter->n_attributes || filter->by_trace,
    };
    /* By CPU time, the best are known only at the end, because a trace may be in several blocks. */
    finding.max_best = order == HISTORY_MOST_CPU ? 2 * finding.limit : finding.limit;
    MAP_INIT(&finding.sampled, struct sampled_trace, trace_id);
    of_samples.min_duration_ns = of_samples.max_duration_ns = 0;
    *traces = (struct history_traces){0};
    int error = reader_begin(reader);
    if (!error) {
        error = reader_scan_open(&scan, reader, &of_samples);
        error = error ? error : found_open(&finding);
        error = error ? error : finding_answer(&finding, arena);
        found_close(&finding);
        map_close(&finding.sampled);
        reader_scan_close(&scan);
    }
    reader_end(reader);
    return error;
}
