/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spans of a trace, and most of its samples, are in the blocks of its time. The index of a
 * block gives the chunk, so only a small part of the block is read.
 */
#include "store/query/history_reader_traces.h"
#include <errno.h>
#include <stdlib.h>

#define LATE_NS (60 * UINT64_C(1000000000)) /* spans arrive within this after their end */

enum { GATHERED = 1 };

struct gathered_span { /* a span may be in two blocks */
    uint8_t ids[24];
    uint64_t cpu_ns, samples;
};

struct gathering {
    struct finding *finding;
    struct map spans; /* in the scratch */
    struct reader_tops *tops;
    /* Of the current block: */
    const struct found_trace **near;
    uint64_t *places; /* of `near`, in the block's index */
    size_t n_near;
    struct history_index index;
    uint64_t chunks[(HISTORY_CHUNKS_MAX + 63) / 64];
    bool tail;
    uint8_t last_id[16]; /* largest trace id; later groups are not needed */
    struct buf head, body;
    struct history_block_spans in_chunk;
};

/* Samples */

static int gather_group(struct gathering *gathering, const struct history_sample_group *group)
{
    if (!group->context.matched) /* its process may be a stranger to the trace */
        return 0;
    const struct found_trace *trace = found_chosen(gathering->finding, group->context.trace_id);
    return trace ? reader_tops_add(gathering->tops, trace->index, group->stack, group->value_ns)
                 : 0;
}

static int read_samples(struct gathering *gathering, const struct reader_block *block, size_t from,
                        size_t len)
{
    return reader_part_read(gathering->finding->scan->reader,
                            history_part_id(block->seq, HISTORY_PART_SAMPLES), from, len,
                            &gathering->body);
}

static int gather_samples(struct gathering *gathering, const struct reader_block *block, size_t i)
{
    const struct history_chunk *chunk = &gathering->index.chunks.of[i];
    const struct history_block_spans *spans = &gathering->in_chunk;
    const struct history_sample_group *group;
    struct history_samples samples;
    int outcome = 0;
    if (chunk[1].samples_at == chunk->samples_at)
        return 0;
    int error =
        read_samples(gathering, block, chunk->samples_at, chunk[1].samples_at - chunk->samples_at);
    if (error)
        return error;
    history_samples_open_chunk(&samples, buf_bytes(&gathering->body), spans->spans,
                               chunk->first_span, spans->n);
    while (!error && (outcome = history_samples_next(&samples, &group)) == 1)
        error = gather_group(gathering, group);
    history_samples_close(&samples);
    return error ? error : outcome;
}

/* Groups of the tail are ordered by trace; groups without a trace come last. */
static int gather_tail(struct gathering *gathering, const struct reader_block *block)
{
    const struct history_chunks *chunks = &gathering->index.chunks;
    const struct history_sample_group *group;
    struct history_samples samples;
    int outcome = 0;
    int error = read_samples(gathering, block, chunks->of[chunks->n].samples_at, SIZE_MAX);
    if (error)
        return error;
    history_samples_open_chunk(&samples, buf_bytes(&gathering->body), NULL, 0, 0);
    while (!error && (outcome = history_samples_next(&samples, &group)) == 1) {
        const uint8_t *id = group->context.trace_id;
        bool is_over = bytes_zero(id, 16) || memcmp(id, gathering->last_id, 16) > 0;
        error = is_over ? GATHERED : gather_group(gathering, group);
    }
    history_samples_close(&samples);
    if (error)
        return error == GATHERED ? 0 : error;
    return outcome;
}

/* Spans */

static int find_span(struct gathering *gathering, const struct history_block_span *span,
                     struct found_trace *trace, struct gathered_span **result)
{
    uint8_t ids[24];
    memcpy(ids, span->trace_id, 16);
    memcpy(ids + 16, span->span_id, 8);
    *result = map_get(&gathering->spans, ids);
    if (*result)
        return 0;
    *result = arena_zalloc(&gathering->finding->scan->reader->scratch, sizeof(**result));
    if (!*result)
        return -ENOMEM;
    memcpy((*result)->ids, ids, sizeof(ids));
    trace->n_spans++;
    return map_put(&gathering->spans, *result, NULL);
}

static uint64_t raise_to(uint64_t *most, uint64_t number)
{
    uint64_t more = number > *most ? number - *most : 0;
    *most += more;
    return more;
}

static int gather_span(struct gathering *gathering, const struct history_block_span *span,
                       struct found_trace *trace)
{
    struct gathered_span *seen;
    int error = find_span(gathering, span, trace, &seen);
    if (error)
        return error;
    trace->cpu_ns += raise_to(&seen->cpu_ns, span->cpu_ns);
    trace->samples += raise_to(&seen->samples, span->samples);
    trace->error |= span->error;
    trace->in_range |= finding_in_range(gathering->finding, span);
    if (trace->longest.duration_ns < span->duration_ns || bytes_zero(trace->longest.span_id, 8))
        trace->longest = *span;
    return 0;
}

static int read_spans(struct gathering *gathering, const struct reader_block *block, size_t i)
{
    const struct history_chunk *chunk = &gathering->index.chunks.of[i];
    struct history_reader *reader = gathering->finding->scan->reader;
    int64_t id = history_part_id(block->seq, HISTORY_PART_SPANS);
    size_t head = gathering->index.chunks.of[0].spans_at;
    if (head > HISTORY_SPANS_HEAD)
        return -EUCLEAN;
    int error = reader_part_read(reader, id, 0, head, &gathering->head);
    if (!error)
        error = reader_part_read(reader, id, chunk->spans_at, chunk[1].spans_at - chunk->spans_at,
                                 &gathering->body);
    return error ? error
                 : history_spans_decode_chunk(&gathering->in_chunk, buf_bytes(&gathering->head),
                                              buf_bytes(&gathering->body),
                                              chunk[1].first_span - chunk->first_span);
}

static int gather_chunk(struct gathering *gathering, const struct reader_block *block, size_t i)
{
    const struct history_block_spans *spans = &gathering->in_chunk;
    int error = read_spans(gathering, block, i);
    for (size_t k = 0; k < spans->n && !error; k++) {
        struct found_trace *trace = found_chosen(gathering->finding, spans->spans[k].trace_id);
        if (trace)
            error = gather_span(gathering, &spans->spans[k], trace);
    }
    return error || !gathering->tops ? error : gather_samples(gathering, block, i);
}

/* Where */

/* Whether the block was written while spans and samples of the trace arrived, and overlaps its
 * time. */
static bool is_near(const struct reader_block *block, const struct found_trace *trace)
{
    const struct reader_range *near = &trace->near;
    if (block->written_unix_ns < near->from || block->written_unix_ns > near->to + LATE_NS)
        return false;
    return (block->spans && block->spans_from_unix_ns <= near->to &&
            block->spans_to_unix_ns >= near->from) ||
           (block->samples && block->samples_from_unix_ns <= near->to &&
            block->samples_to_unix_ns >= near->from);
}

static int compare_places(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static void note_where(struct gathering *gathering, const struct history_where *where)
{
    if (where->chunk != HISTORY_NO_CHUNK)
        gathering->chunks[where->chunk / 64] |= UINT64_C(1) << where->chunk % 64;
    gathering->tail |= where->tail;
}

/* Looks up the traces in the block's index, which is in the body. */
static int look_up(struct gathering *gathering)
{
    struct history_index *index = &gathering->index;
    struct history_where where;
    uint64_t place;
    size_t next = 0;
    int outcome = history_index_open(index, buf_bytes(&gathering->body));
    if (outcome)
        return outcome;
    for (size_t i = 0; i < gathering->n_near; i++)
        gathering->places[i] = history_index_place(index, gathering->near[i]->trace_id);
    qsort(gathering->places, gathering->n_near, sizeof(*gathering->places), compare_places);
    while (next < gathering->n_near && (outcome = history_index_next(index, &place, &where)) == 1) {
        while (next < gathering->n_near && gathering->places[next] < place)
            next++;
        if (next < gathering->n_near && gathering->places[next] == place)
            note_where(gathering, &where);
    }
    return outcome < 0 ? outcome : 0;
}

static void find_near(struct gathering *gathering, const struct reader_block *block)
{
    const struct finding *finding = gathering->finding;
    gathering->n_near = 0;
    memset(gathering->last_id, 0, sizeof(gathering->last_id));
    for (size_t i = 0; i < finding->n_sorted; i++) {
        const struct found_trace *trace = finding->sorted[i];
        if (!is_near(block, trace))
            continue;
        gathering->near[gathering->n_near++] = trace;
        if (memcmp(trace->trace_id, gathering->last_id, 16) > 0)
            memcpy(gathering->last_id, trace->trace_id, 16);
    }
}

static int gather_block(struct gathering *gathering, const struct reader_block *block)
{
    struct history_reader *reader = gathering->finding->scan->reader;
    find_near(gathering, block);
    if (!gathering->n_near)
        return 0;
    memset(gathering->chunks, 0, sizeof(gathering->chunks));
    gathering->tail = false;
    int error =
        reader_part_get(reader, history_part_id(block->seq, HISTORY_PART_TRACES), &gathering->body);
    if (error)
        return error == -ENOENT ? 0 : error;
    error = look_up(gathering);
    for (size_t i = 0; i < gathering->index.chunks.n && !error; i++)
        if (gathering->chunks[i / 64] >> i % 64 & 1)
            error = gather_chunk(gathering, block, i);
    return error || !gathering->tail || !gathering->tops ? error : gather_tail(gathering, block);
}

static int gathering_gather(struct gathering *gathering)
{
    struct reader_scan *scan = gathering->finding->scan;
    int error = 0;
    for (size_t i = scan->n_blocks; i-- && !error && reader_scan_goes_on(scan);)
        error = reader_scan_left_out(scan, gather_block(gathering, &scan->blocks[i]));
    return error;
}

int traces_gather(struct finding *finding, struct reader_tops *tops)
{
    struct arena *scratch = &finding->scan->reader->scratch;
    size_t n = finding->n_sorted;
    struct gathering gathering = {
        .finding = finding,
        .tops = tops,
        .near = arena_alloc(scratch, n * sizeof(struct found_trace *)),
        .places = arena_alloc(scratch, n * sizeof(uint64_t)),
    };
    if (!gathering.near || !gathering.places)
        return -ENOMEM;
    MAP_INIT(&gathering.spans, struct gathered_span, ids);
    int error = gathering_gather(&gathering);
    map_close(&gathering.spans);
    buf_close(&gathering.head);
    buf_close(&gathering.body);
    history_spans_close(&gathering.in_chunk);
    return error;
}
