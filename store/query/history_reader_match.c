/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter is checked separately for context, series and stack, cheapest first. Each answer is
 * cached: for the adjacent groups of a context, for a series, for a stack.
 */
#include "base/hash.h"
#include "store/query/history_reader_state.h"
#include <errno.h>

#define STACKS_MAX ((size_t)1 << 20)
#define AS_LEFT_NS                                                                                 \
    (600 * UINT64_C(1000000000)) /* how far back blocks are read: once to twice this */
#define PREFIX_BYTES                                                                               \
    ((size_t)16 << 10) /* first prefix of a block's spans; doubled when more are needed */

enum stack_answer { STACK_IS_OUT = 1, STACK_IS_IN = 2, STACK_IS_SELF = 3 };

struct trace_duration {
    uint8_t trace_id[16];
    uint64_t longest_ns;
};

struct tree_span {
    uint8_t span_id[8], parent_id[8];
    enum { TREE_UNKNOWN, TREE_VISITED, TREE_IN, TREE_OUT } state;
};

bool reader_match_needs_blocks(const struct history_filter *filter)
{
    return filter->by_trace || filter->by_span || filter->n_attributes || filter->min_duration_ns ||
           filter->max_duration_ns;
}

/* Traces by duration */

/* Ids are random, at least in part, so some of their bits serve as a hash. */
static unsigned sieve_bit(const uint8_t id[16])
{
    uint64_t halves[2];
    memcpy(halves, id, 16);
    return (unsigned)(hash_mix(halves[0] ^ halves[1]) >> 32) % READER_SIEVE_BITS;
}

static int note_trace(struct reader_scan *scan, const struct history_block_span *span)
{
    struct trace_duration *trace = map_get(&scan->match.traces, span->trace_id);
    if (trace) {
        if (trace->longest_ns < span->duration_ns)
            trace->longest_ns = span->duration_ns;
        return 0;
    }
    trace = arena_alloc(&scan->reader->scratch, sizeof(*trace));
    if (!trace)
        return -ENOMEM;
    memcpy(trace->trace_id, span->trace_id, 16);
    trace->longest_ns = span->duration_ns;
    unsigned bit = sieve_bit(span->trace_id);
    scan->match.sieve[bit / 64] |= UINT64_C(1) << bit % 64;
    return map_put(&scan->match.traces, trace, NULL);
}

/* Notes the decoded spans from `first` on; the first span of each trace is its longest. 1: a trace
 * is too short, and so are all later ones. */
static int note_spans(struct reader_scan *scan, size_t first)
{
    int error = 0;
    for (size_t i = first; i < scan->spans.n && !error; i++) {
        const struct history_block_span *span = &scan->spans.spans[i];
        if (span->longest_ns < scan->filter->min_duration_ns)
            return 1;
        error = span->duration_ns == span->longest_ns ? note_trace(scan, span) : 0;
    }
    return error;
}

/* Reads only as far as needed, because the longest traces come first. */
static int note_block(struct reader_scan *scan, const struct reader_block *block)
{
    int64_t id = history_part_id(block->seq, HISTORY_PART_SPANS);
    struct buf *body = &scan->spans_body;
    size_t size = 1, want = PREFIX_BYTES;
    int outcome = 0;
    reader_spans_forget(&scan->spans);
    for (buf_clear(body); !outcome && body->len < size; want *= 2) {
        size_t first = scan->spans.n;
        outcome = reader_part_begin(scan->reader, id, want, body, &size);
        if (!outcome)
            outcome = history_spans_decode(&scan->spans, buf_bytes(body), body->len == size,
                                           block->spans, block->spans);
        outcome = outcome ? outcome : note_spans(scan, first);
    }
    reader_spans_forget(&scan->spans); /* the spans are incomplete */
    return outcome < 0 ? outcome : 0;
}

static int note_block_if_asked(struct reader_scan *scan, const struct reader_block *block)
{
    if (!block->spans || block->max_duration_ns < scan->filter->min_duration_ns ||
        block->spans_to_unix_ns < scan->asked.from || block->spans_from_unix_ns >= scan->asked.to)
        return 0;
    return reader_scan_left_out(scan, note_block(scan, block));
}

/* A span is in the block of its arrival, so later blocks are read, too. */
static int note_durations(struct reader_scan *scan)
{
    int error = 0;
    for (size_t i = scan->n_blocks; i-- && !error && reader_scan_goes_on(scan);)
        error = note_block_if_asked(scan, &scan->blocks[i]);
    return error;
}

static void forget_durations(struct reader_scan *scan)
{
    struct reader_match *match = &scan->match;
    map_close(&match->traces);
    MAP_INIT(&match->traces, struct trace_duration, trace_id);
    memset(match->sieve, 0, sizeof(match->sieve));
    match->noted = 0;
}

/* The blocks read depend on the block alone, not on where a scraper started; they are few. */
static int note_durations_as_left(struct reader_scan *scan, size_t at)
{
    struct reader_match *match = &scan->match;
    uint64_t span = scan->blocks[at].written_unix_ns / AS_LEFT_NS;
    uint64_t from = span ? (span - 1) * AS_LEFT_NS : 0;
    int error = 0;
    if (from != match->noted_from_unix_ns)
        forget_durations(scan);
    match->noted_from_unix_ns = from;
    for (; match->noted <= at && !error; match->noted++)
        if (scan->blocks[match->noted].written_unix_ns >= from)
            error = note_block_if_asked(scan, &scan->blocks[match->noted]);
    return error;
}

static bool duration_passes(const struct reader_scan *scan, const uint8_t trace_id[16])
{
    const struct history_filter *filter = scan->filter;
    unsigned bit = sieve_bit(trace_id);
    if (!(scan->match.sieve[bit / 64] >> bit % 64 & 1))
        return false;
    const struct trace_duration *trace = map_get(&scan->match.traces, trace_id);
    return trace && trace->longest_ns >= filter->min_duration_ns &&
           (!filter->max_duration_ns || trace->longest_ns <= filter->max_duration_ns);
}

/* A span and those below it */

static int note_span(void *context, const struct history_block_span *span, struct bytes body)
{
    (void)body;
    struct reader_scan *scan = context;
    int error = reader_owners_add(&scan->match.owners, scan->reader, span);
    if (error || !scan->match.by_tree || map_get(&scan->match.tree, span->span_id))
        return error;
    struct tree_span *new = arena_zalloc(&scan->reader->scratch, sizeof(*new));
    if (!new)
        return -ENOMEM;
    memcpy(new->span_id, span->span_id, 8);
    memcpy(new->parent_id, span->parent_id, 8);
    return map_put(&scan->match.tree, new, NULL);
}

/* Walks up to an ancestor whose answer is known, then walks the same path again to set the answers.
 * Parents may form cycles. */
static void reader_scan_decide(struct reader_scan *scan, struct tree_span *from)
{
    struct tree_span *span = from;
    int state = TREE_OUT;
    while (span && span->state == TREE_UNKNOWN) {
        span->state = TREE_VISITED;
        if (!memcmp(span->span_id, scan->filter->span_id, 8)) {
            state = TREE_IN;
            break;
        }
        span = map_get(&scan->match.tree, span->parent_id);
    }
    if (span && span->state >= TREE_IN)
        state = (int)span->state;
    for (span = from; span && span->state == TREE_VISITED;
         span = map_get(&scan->match.tree, span->parent_id))
        span->state = state == TREE_IN ? TREE_IN : TREE_OUT;
}

static int make_tree(struct reader_scan *scan)
{
    struct tree_span *span;
    int error = reader_trace_spans(scan, note_span, scan);
    for (size_t i = 0; (span = map_next(&scan->match.tree, &i));)
        reader_scan_decide(scan, span);
    return error;
}

static int make_tree_as_left(struct reader_scan *scan, size_t at)
{
    size_t all = scan->n_blocks;
    map_close(&scan->match.tree);
    MAP_INIT(&scan->match.tree, struct tree_span, span_id);
    reader_owners_close(&scan->match.owners);
    reader_owners_open(&scan->match.owners);
    scan->n_blocks = at + 1;
    int error = make_tree(scan);
    scan->n_blocks = all;
    return error;
}

/* A span that has not arrived counts as a descendant of its local root. */
static bool tree_passes(const struct reader_scan *scan, const struct history_context *context)
{
    const struct tree_span *span = map_get(&scan->match.tree, context->span_id);
    if (!memcmp(context->span_id, scan->filter->span_id, 8))
        return true;
    if (!span)
        span = map_get(&scan->match.tree, context->local_root_id);
    return (span && span->state == TREE_IN) ||
           !memcmp(context->local_root_id, scan->filter->span_id, 8);
}

/* Opening */

int reader_match_is_possible(struct history_reader *reader, const struct history_filter *filter)
{
    const struct bytes names[] = {filter->service, filter->span_name, filter->thread,
                                  filter->container};
    int outcome = !filter->host.len || bytes_equal(filter->host, reader->host);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && outcome > 0; i++)
        if (names[i].len)
            outcome = reader_has_text(reader, names[i]);
    return outcome;
}

int reader_match_open(struct reader_scan *scan)
{
    struct reader_match *match = &scan->match;
    const struct history_filter *filter = scan->filter;
    MAP_INIT(&match->traces, struct trace_duration, trace_id);
    MAP_INIT(&match->tree, struct tree_span, span_id);
    reader_owners_open(&match->owners);
    match->stacks.max_count = STACKS_MAX;
    match->by_traces = filter->min_duration_ns || filter->max_duration_ns;
    match->by_tree = filter->by_trace && filter->by_span && !filter->alone;
    if (filter->as_left)
        return 0;
    int error = match->by_traces ? note_durations(scan) : 0;
    if (!error && filter->by_trace)
        error = reader_scan_left_out(scan, make_tree(scan));
    return error;
}

int reader_match_as_left(struct reader_scan *scan, size_t block)
{
    struct reader_match *match = &scan->match;
    match->context_known = false;
    int error = match->by_traces ? note_durations_as_left(scan, block) : 0;
    return error || !scan->filter->by_trace ? error : make_tree_as_left(scan, block);
}

void reader_match_close(struct reader_scan *scan)
{
    map_close(&scan->match.traces);
    map_close(&scan->match.tree);
    reader_owners_close(&scan->match.owners);
    reader_sums_close(&scan->match.stacks);
}

void reader_match_new_block(struct reader_scan *scan)
{
    memset(scan->match.attributes, 0, sizeof(scan->match.attributes));
}

/* Asking */

bool reader_match_needs_trace(const struct reader_scan *scan)
{
    return scan->filter->by_trace || scan->match.by_traces || scan->filter->n_attributes;
}

int reader_match_block(struct reader_scan *scan, const struct reader_block *block)
{
    return scan->filter->by_trace ? reader_scan_may_have(scan, block, scan->filter->trace_id) : 1;
}

static bool text_passes(struct bytes asked, struct bytes text)
{
    return !asked.len || bytes_equal(asked, text);
}

static bool series_passes(const struct history_filter *filter, const struct reader_series *series)
{
    return series->facts.sample_kind == SAMPLE_CPU &&
           text_passes(filter->service, series->service) &&
           text_passes(filter->span_name, series->span_name) &&
           text_passes(filter->thread, series->thread) &&
           text_passes(filter->container, series->container) &&
           (!filter->pid || filter->pid == series->facts.pid);
}

int reader_match_series(struct reader_scan *scan, int64_t id, struct reader_series **series)
{
    int error = reader_series(scan->reader, id, series);
    if (error)
        return error;
    if ((*series)->question != scan->reader->question) {
        (*series)->question = scan->reader->question;
        (*series)->passes = series_passes(scan->filter, *series);
    }
    return (*series)->passes;
}

int reader_match_stack(struct reader_scan *scan, struct reader_weight *weight)
{
    struct reader_sums *stacks = &scan->match.stacks;
    weight->self = false;
    if (!scan->filter->function.len)
        return 1;
    const struct reader_sum *known = reader_sums_find(stacks, weight->stack);
    if (known) {
        weight->self = known->samples == STACK_IS_SELF;
        return known->samples != STACK_IS_OUT;
    }
    int outcome = history_frames_have(&scan->reader->frames, weight->stack, scan->filter->function,
                                      &weight->self);
    if (outcome < 0)
        return outcome;
    struct reader_sum answer = {.id = weight->stack, .samples = STACK_IS_OUT};
    if (outcome)
        answer.samples = weight->self ? STACK_IS_SELF : STACK_IS_IN;
    int error = reader_sums_add(stacks, &answer);
    return error ? error : outcome;
}

static bool have_attributes(const struct reader_scan *scan, struct bytes of_span,
                            struct bytes of_sample)
{
    for (size_t i = 0; i < scan->filter->n_attributes; i++) {
        const struct history_pair *pair = &scan->filter->attributes[i];
        if (!reader_attributes_have(of_span, pair) && !reader_attributes_have(of_sample, pair))
            return false;
    }
    return true;
}

/* Equal attributes in a block are stored once, so answers are cached by their place. */
static bool span_attributes_pass(struct reader_scan *scan, const struct history_block_span *span)
{
    struct reader_answer *answer =
        &scan->match.attributes[span->attributes_at % READER_ATTRIBUTES_KNOWN];
    if (answer->of != (uint64_t)span->attributes_at + 1 || answer->len != span->attributes_len) {
        struct bytes attributes = history_span_attributes(span, buf_bytes(&scan->spans_body));
        answer->of = (uint64_t)span->attributes_at + 1;
        answer->len = span->attributes_len;
        answer->passes = have_attributes(scan, attributes, BYTES(NULL, 0));
    }
    return answer->passes;
}

static bool attributes_pass(struct reader_scan *scan, const struct history_sample_group *group)
{
    if (!scan->filter->n_attributes)
        return true;
    if (!group->context.matched)
        return false;
    if (group->context.span >= scan->spans.n)
        return have_attributes(scan, BYTES(NULL, 0), group->attributes);
    const struct history_block_span *span = &scan->spans.spans[group->context.span];
    if (!group->attributes.len)
        return span_attributes_pass(scan, span);
    return have_attributes(scan, history_span_attributes(span, buf_bytes(&scan->spans_body)),
                           group->attributes);
}

static bool ids_pass(const struct reader_scan *scan, const struct history_context *context)
{
    const struct history_filter *filter = scan->filter;
    if (filter->by_trace && memcmp(context->trace_id, filter->trace_id, 16) != 0)
        return false;
    if (scan->match.by_traces && (!context->matched || !duration_passes(scan, context->trace_id)))
        return false;
    if (scan->match.by_tree)
        return tree_passes(scan, context);
    return !filter->by_span || !memcmp(context->span_id, filter->span_id, 8);
}

static bool same_ids(const struct history_context *a, const struct history_context *b)
{
    return !memcmp(a->trace_id, b->trace_id, 16) && !memcmp(a->span_id, b->span_id, 8) &&
           !memcmp(a->local_root_id, b->local_root_id, 8) && a->matched == b->matched;
}

static bool context_passes(struct reader_scan *scan, const struct history_context *context)
{
    struct reader_match *match = &scan->match;
    if (!match->context_known || !same_ids(context, &match->context)) {
        match->context = *context;
        match->context_known = true;
        match->context_passes = ids_pass(scan, context);
    }
    return match->context_passes;
}

int reader_match_group(struct reader_scan *scan, const struct history_sample_group *group,
                       struct reader_weight *weight)
{
    if (!scan->by_minutes &&
        (!context_passes(scan, &group->context) || !attributes_pass(scan, group)))
        return 0;
    int outcome = reader_match_series(scan, group->series, &weight->series);
    if (outcome > 0 && scan->filter->by_trace &&
        !reader_owners_pass(&scan->match.owners, &group->context, weight->series->facts.pid))
        return 0;
    return outcome <= 0 ? outcome : reader_match_stack(scan, weight);
}

int reader_match_span(struct reader_scan *scan, const struct history_block_span *span,
                      struct bytes body)
{
    const struct history_filter *filter = scan->filter;
    struct reader_series *series;
    int error = reader_series(scan->reader, span->series, &series);
    if (error)
        return error;
    return text_passes(filter->service, series->service) &&
           text_passes(filter->span_name, series->span_name) &&
           text_passes(filter->container, series->container) &&
           have_attributes(scan, history_span_attributes(span, body), BYTES(NULL, 0));
}
