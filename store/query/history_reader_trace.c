/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One trace: collects its spans and samples from all blocks that may have some. If a span is
 * missing, its samples take its place.
 */
#include "store/query/history_reader_state.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"
#include <errno.h>
#include <stdlib.h>

#define SPAN_ATTRIBUTES_MAX 64
#define PIECES_MAX          ((size_t)1 << 20) /* samples of a trace shown with their time */

struct node {
    uint8_t span_id[8];
    struct history_block_span span;
    const struct reader_series *series;
    struct bytes attributes; /* framed; in reader->scratch */
    bool known, shown;
    size_t index; /* in order of arrival */
    uint64_t cpu_ns, samples;
    uint64_t end_unix_ns;
    struct node *parent, *first_child, *last_child, *next; /* siblings by start */
};

struct piece { /* a sample */
    uint32_t node;
    uint64_t from_unix_ns, to_unix_ns;
};

struct tracing {
    struct reader_scan *scan;
    struct arena *arena; /* of the answer */
    struct history_trace *answer;
    struct map by_id;
    struct node **nodes; /* in order of arrival, later sorted by start */
    size_t n_nodes, cap_nodes;
    struct piece *pieces;
    size_t n_pieces, cap_pieces;
    struct reader_tops tops;
    struct reader_owners owners;
};

/* Spans */

static int visit_spans(struct reader_scan *scan, reader_span_visit *visit, void *context)
{
    int error = 0;
    for (size_t i = 0; i < scan->spans.n && !error; i++)
        if (!memcmp(scan->spans.spans[i].trace_id, scan->filter->trace_id, 16))
            error = visit(context, &scan->spans.spans[i], buf_bytes(&scan->spans_body));
    return error;
}

int reader_trace_spans(struct reader_scan *scan, reader_span_visit *visit, void *context)
{
    int error = 0;
    for (size_t i = 0; i < scan->n_blocks && !error && reader_scan_goes_on(scan); i++) {
        int outcome = reader_scan_may_have(scan, &scan->blocks[i], scan->filter->trace_id);
        error = outcome < 0 ? outcome : 0;
        if (outcome > 0) {
            error = reader_scan_spans(scan, &scan->blocks[i]);
            error = error ? error : visit_spans(scan, visit, context);
        }
        error = reader_scan_left_out(scan, error);
    }
    return error;
}

/* series: of the first span or sample that names the span. */
static int make_node(struct tracing *tracing, const uint8_t span_id[8],
                     const struct reader_series *series, struct node **result)
{
    void *nodes = reader_grow(tracing->nodes, tracing->n_nodes, &tracing->cap_nodes,
                              READER_TRACE_SPANS_MAX, sizeof(struct node *));
    if (!nodes)
        return -ENOMEM;
    tracing->nodes = nodes;
    struct node *node = arena_zalloc(&tracing->scan->reader->scratch, sizeof(*node));
    if (!node)
        return -ENOMEM;
    memcpy(node->span_id, span_id, 8);
    node->series = series;
    node->index = tracing->n_nodes;
    if (map_put(&tracing->by_id, node, NULL))
        return -ENOMEM;
    tracing->nodes[tracing->n_nodes++] = node;
    *result = node;
    return 0;
}

static int find_node(struct tracing *tracing, const uint8_t span_id[8],
                     const struct reader_series *series, struct node **node)
{
    *node = map_get(&tracing->by_id, span_id);
    return *node ? 0 : make_node(tracing, span_id, series, node);
}

/* A span that was sent twice counts once. */
static int take_span(void *context, const struct history_block_span *span, struct bytes body)
{
    struct tracing *tracing = context;
    struct history_reader *reader = tracing->scan->reader;
    struct reader_series *series;
    struct node *node;
    int error = reader_series(reader, span->series, &series);
    error = error ? error : reader_owners_add(&tracing->owners, reader, span);
    error = error ? error : find_node(tracing, span->span_id, series, &node);
    if (error || (node->known && node->span.cpu_ns >= span->cpu_ns))
        return error;
    node->span = *span;
    node->series = series;
    node->attributes = history_span_attributes(span, body);
    node->known = true;
    return reader_copy_text(&reader->scratch, &node->attributes);
}

/* Samples */

static int take_piece(struct tracing *tracing, const struct node *node, uint64_t time,
                      uint64_t period)
{
    void *pieces = reader_grow(tracing->pieces, tracing->n_pieces, &tracing->cap_pieces, PIECES_MAX,
                               sizeof(*tracing->pieces));
    if (!pieces)
        return -ENOMEM;
    tracing->pieces = pieces;
    tracing->pieces[tracing->n_pieces++] =
        (struct piece){(uint32_t)node->index, time > period ? time - period : 0, time};
    return 0;
}

static int take_group(void *context, const struct history_samples *samples,
                      const struct history_sample_group *group)
{
    struct tracing *tracing = context;
    const struct history_context *ids = &group->context;
    struct reader_series *series;
    struct node *node;
    uint64_t time, value;
    if (memcmp(ids->trace_id, tracing->scan->filter->trace_id, 16) != 0)
        return 0;
    int error = reader_series(tracing->scan->reader, group->series, &series);
    if (error || series->facts.sample_kind != SAMPLE_CPU ||
        !reader_owners_pass(&tracing->owners, ids, series->facts.pid))
        return error;
    error = find_node(tracing, ids->span_id, series, &node);
    if (error)
        return error;
    if (!node->known && memcmp(ids->local_root_id, ids->span_id, 8) != 0)
        memcpy(node->span.parent_id, ids->local_root_id, 8);
    node->cpu_ns += group->value_ns;
    node->samples += group->n;
    struct history_group_times times = history_times_of(samples, group);
    while (!error && history_times_next(&times, &time, &value))
        error = take_piece(tracing, node, time, group->period_ns);
    return error ? error
                 : reader_tops_add(&tracing->tops, node->index, group->stack, group->value_ns);
}

static int take_samples(struct tracing *tracing, const struct reader_block *block)
{
    struct reader_scan *scan = tracing->scan;
    int outcome = reader_scan_may_have(scan, block, scan->filter->trace_id);
    if (outcome <= 0)
        return outcome;
    int error = reader_scan_spans(scan, block); /* groups refer to them */
    return error ? error : reader_scan_groups(scan, block, take_group, tracing);
}

/* Whose samples count is known when all spans are. */
static int take_blocks(struct tracing *tracing)
{
    struct reader_scan *scan = tracing->scan;
    int error = reader_trace_spans(scan, take_span, tracing);
    for (size_t i = 0; i < scan->n_blocks && !error && reader_scan_goes_on(scan); i++)
        error = reader_scan_left_out(scan, take_samples(tracing, &scan->blocks[i]));
    return error;
}

/* Order */

static int compare_pieces(const void *left, const void *right)
{
    const struct piece *a = left, *b = right;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->from_unix_ns < b->from_unix_ns ? -1 : a->from_unix_ns > b->from_unix_ns;
}

static int compare_nodes(const void *left, const void *right)
{
    const struct history_block_span *a = &(*(struct node *const *)left)->span;
    const struct history_block_span *b = &(*(struct node *const *)right)->span;
    if (a->start_unix_ns != b->start_unix_ns)
        return a->start_unix_ns < b->start_unix_ns ? -1 : 1;
    if (a->duration_ns != b->duration_ns)
        return a->duration_ns > b->duration_ns ? -1 : 1;
    return memcmp(a->span_id, b->span_id, 8);
}

static uint64_t trace_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A span that has not arrived begins with its first sample. */
static void set_starts(struct tracing *tracing)
{
    if (tracing->n_pieces)
        qsort(tracing->pieces, tracing->n_pieces, sizeof(*tracing->pieces), compare_pieces);
    for (size_t i = tracing->n_pieces; i--;) {
        const struct piece *piece = &tracing->pieces[i];
        struct node *node = tracing->nodes[piece->node];
        if (node->known)
            continue;
        node->span.start_unix_ns = piece->from_unix_ns;
        node->end_unix_ns = trace_larger(node->end_unix_ns, piece->to_unix_ns);
    }
}

static void append_child(struct node *parent, struct node *child)
{
    child->parent = parent;
    if (parent->last_child)
        parent->last_child->next = child;
    else
        parent->first_child = child;
    parent->last_child = child;
}

/* nodes are sorted by start. */
static void link_nodes(struct tracing *tracing)
{
    for (size_t i = 0; i < tracing->n_nodes; i++) {
        struct node *node = tracing->nodes[i];
        struct node *parent = map_get(&tracing->by_id, node->span.parent_id);
        if (parent && parent != node && !bytes_zero(node->span.parent_id, 8))
            append_child(parent, node);
    }
}

/* The answer */

struct showing {
    struct tracing *tracing;
    struct reader_top *tops;     /* by index */
    const struct piece **pieces; /* first piece of each node, and an end marker */
    struct history_trace *answer;
};

static int show_attributes(struct showing *showing, const struct node *node,
                           struct history_span *shown)
{
    struct wire_reader reader = wire_read(node->attributes);
    struct history_pair pairs[SPAN_ATTRIBUTES_MAX];
    char own[READER_VALUE_BYTES];
    struct wire_field field;
    struct arena *arena = showing->tracing->arena;
    int error = 0;
    size_t n = 0;
    while (!error && n < SPAN_ATTRIBUTES_MAX && wire_next(&reader, &field) == WIRE_FIELD) {
        struct history_pair *pair = &pairs[n];
        if (field.number != OTLP_SPAN_ATTRIBUTES || field.type != WIRE_BYTES ||
            !reader_value_text(field.bytes, own, &pair->value))
            continue;
        pair->key = otlp_key_value_key(field.bytes);
        error = reader_copy_text(arena, &pair->key);
        error = error ? error : reader_copy_text(arena, &pair->value);
        n++;
    }
    shown->attributes = arena_dup(arena, pairs, n * sizeof(*pairs));
    shown->n_attributes = n;
    return shown->attributes ? error : -ENOMEM;
}

static struct history_busy busy_of(const struct node *node, const struct piece *piece)
{
    uint64_t start = node->span.start_unix_ns;
    uint64_t from = piece->from_unix_ns > start ? piece->from_unix_ns - start : 0;
    uint64_t to = piece->to_unix_ns > start ? piece->to_unix_ns - start : 0;
    if (node->known && to > node->span.duration_ns)
        to = node->span.duration_ns;
    return (struct history_busy){from, to > from ? to - from : 0};
}

static int show_busy(struct showing *showing, const struct node *node, struct history_span *shown)
{
    const struct piece *piece = showing->pieces[node->index];
    const struct piece *end = showing->pieces[node->index + 1];
    shown->busy =
        arena_alloc(showing->tracing->arena, (size_t)(end - piece) * sizeof(*shown->busy));
    if (!shown->busy)
        return -ENOMEM;
    for (; piece < end; piece++) {
        struct history_busy busy = busy_of(node, piece);
        struct history_busy *last = shown->n_busy ? &shown->busy[shown->n_busy - 1] : NULL;
        if (!busy.length_ns)
            continue;
        if (!last || busy.offset_ns > last->offset_ns + last->length_ns)
            shown->busy[shown->n_busy++] = busy;
        else if (busy.offset_ns + busy.length_ns > last->offset_ns + last->length_ns)
            last->length_ns = busy.offset_ns + busy.length_ns - last->offset_ns;
    }
    return 0;
}

static int show_node(struct showing *showing, const struct node *node)
{
    struct arena *arena = showing->tracing->arena;
    struct history_trace *answer = showing->answer;
    struct history_span *shown = &answer->spans[answer->n_spans++];
    *shown = (struct history_span){
        .service = node->series->service,
        .name = node->known ? node->series->span_name : BYTES(NULL, 0),
        .kind = node->known ? node->series->facts.span_kind : 0,
        .known = node->known,
        .error = node->span.error,
        .start_unix_ns = node->span.start_unix_ns,
        .duration_ns = node->span.duration_ns,
        /* samples may have expired, or arrived after the span */
        .cpu_ns = trace_larger(node->cpu_ns, node->span.cpu_ns),
        .samples = trace_larger(node->samples, node->span.samples),
        .top_function = showing->tops[node->index].function,
    };
    memcpy(shown->span_id, node->span_id, 8);
    if (node->parent)
        memcpy(shown->parent_id, node->parent->span_id, 8);
    answer->cpu_ns += shown->cpu_ns;
    answer->samples += shown->samples;
    int error = reader_copy_text(arena, &shown->service);
    error = error ? error : reader_copy_text(arena, &shown->name);
    error = error ? error : reader_copy_text(arena, &shown->top_function);
    error = error ? error : show_attributes(showing, node, shown);
    return error ? error : show_busy(showing, node, shown);
}

/* Preorder, without recursion: the depth comes from outside. */
static int show_tree(struct showing *showing, struct node *root)
{
    struct node *node = root;
    int error = 0;
    while (node && !error) {
        if (!node->shown) {
            node->shown = true;
            error = show_node(showing, node);
        }
        if (node->first_child) {
            struct node *child = node->first_child;
            node->first_child = child->next;
            node = child->shown ? node : child;
        } else {
            node = node == root ? NULL : node->parent;
        }
    }
    return error;
}

/* Spans whose parents form a cycle have no root: the first span counts as the root. */
static int show_trees(struct showing *showing)
{
    struct tracing *tracing = showing->tracing;
    int error = 0;
    for (size_t i = 0; i < tracing->n_nodes && !error; i++)
        if (!tracing->nodes[i]->parent)
            error = show_tree(showing, tracing->nodes[i]);
    for (size_t i = 0; i < tracing->n_nodes && !error; i++) {
        if (tracing->nodes[i]->shown)
            continue;
        tracing->nodes[i]->parent = NULL;
        error = show_tree(showing, tracing->nodes[i]);
    }
    return error;
}

static void set_times(const struct tracing *tracing, struct history_trace *answer)
{
    uint64_t from = UINT64_MAX, to = 0;
    for (size_t i = 0; i < tracing->n_nodes; i++) {
        const struct node *node = tracing->nodes[i];
        if (node->span.start_unix_ns < from)
            from = node->span.start_unix_ns;
        to = trace_larger(
            to, trace_larger(node->end_unix_ns, node->span.start_unix_ns + node->span.duration_ns));
    }
    answer->start_unix_ns = from;
    answer->duration_ns = to - from;
}

static void index_pieces(const struct tracing *tracing, const struct piece **first)
{
    size_t at = 0;
    for (size_t node = 0; node <= tracing->n_nodes; node++) {
        while (at < tracing->n_pieces && tracing->pieces[at].node < node)
            at++;
        first[node] = tracing->pieces ? &tracing->pieces[at] : NULL;
    }
}

static int tracing_show(struct tracing *tracing)
{
    struct arena *scratch = &tracing->scan->reader->scratch;
    struct history_trace *answer = tracing->answer;
    size_t n = tracing->n_nodes;
    struct showing showing = {
        .tracing = tracing,
        .answer = answer,
        .tops = arena_zalloc(scratch, n * sizeof(*showing.tops)),
        .pieces = arena_alloc(scratch, (n + 1) * sizeof(struct piece *)),
    };
    answer->spans = arena_alloc(tracing->arena, n * sizeof(*answer->spans));
    if (!showing.tops || !showing.pieces || !answer->spans)
        return -ENOMEM;
    set_starts(tracing);
    index_pieces(tracing, showing.pieces);
    reader_tops_best(&tracing->tops, showing.tops, n);
    qsort(tracing->nodes, n, sizeof(struct node *), compare_nodes);
    set_times(tracing, answer);
    link_nodes(tracing);
    return show_trees(&showing);
}

static int reader_scan_answer(struct reader_scan *scan, struct arena *arena,
                              struct history_trace *trace)
{
    struct tracing tracing = {.scan = scan, .arena = arena, .answer = trace};
    MAP_INIT(&tracing.by_id, struct node, span_id);
    reader_owners_open(&tracing.owners);
    reader_tops_open(&tracing.tops, scan->reader);
    int error = take_blocks(&tracing);
    if (!error)
        error = tracing.n_nodes ? tracing_show(&tracing) : -ENOENT;
    if (error == -ENOMEM && trace->n_spans) { /* the answer so far */
        trace->n_spans--;
        error = reader_scan_left_out(scan, error);
    }
    trace->complete = scan->complete;
    map_close(&tracing.by_id);
    reader_owners_close(&tracing.owners);
    reader_tops_close(&tracing.tops);
    free(tracing.nodes);
    free(tracing.pieces);
    return error;
}

int history_trace(struct history_reader *reader, const struct history_filter *filter,
                  struct arena *arena, struct history_trace *trace)
{
    DB_THREAD(reader->db);
    struct reader_scan scan;
    struct history_filter of_trace = {.by_trace = true};
    memcpy(of_trace.trace_id, filter->trace_id, 16);
    *trace = (struct history_trace){0};
    int error = reader_begin(reader);
    if (!error) {
        error = reader_scan_open(&scan, reader, &of_trace);
        error = error ? error : reader_scan_answer(&scan, arena, trace);
        reader_scan_close(&scan);
    }
    reader_end(reader);
    return error;
}
