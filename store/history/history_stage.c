/* SPDX-License-Identifier: Apache-2.0 */
#include "store/history/history_stage.h"
#include "base/limits.h"
#include <errno.h>
#include <stdlib.h>

LIMIT(stage, LIMIT_SERVICE, "history: spans and samples since the last block", .of = "history",
      .bytes = STAGE_BYTES_MAX + HISTORY_BLOCK_SPANS_MAX * sizeof(struct staged_span) +
               HISTORY_BLOCK_SAMPLES_MAX * sizeof(struct history_sample));

/* Texts */

static void texts_open(struct stage_texts *texts)
{
    *texts = (struct stage_texts){0};
    history_contents_open(&texts->known);
}

static void texts_close(struct stage_texts *texts)
{
    history_contents_close(&texts->known);
    free(texts->texts);
}

static void texts_clear(struct stage_texts *texts)
{
    history_contents_clear(&texts->known);
    texts->n = 0;
}

static int texts_make_room(struct stage_texts *texts)
{
    if (texts->n < texts->cap)
        return 0;
    size_t cap = texts->cap ? texts->cap * 2 : 64;
    struct bytes *larger = realloc(texts->texts, cap * sizeof(*larger));
    if (!larger)
        return -ENOMEM;
    texts->texts = larger;
    texts->cap = cap;
    return 0;
}

static int texts_put(struct stage_texts *texts, struct arena *arena, struct bytes text,
                     uint32_t *number)
{
    *number = 0;
    if (!text.len)
        return 0;
    if (history_contents_find(&texts->known, text, number))
        return 0;
    if (arena->used_bytes + text.len > STAGE_BYTES_MAX / 2) /* arena blocks double in size */
        return STAGE_FULL;
    int error = texts_make_room(texts);
    uint8_t *copy = error ? NULL : arena_dup(arena, text.data, text.len);
    if (!copy)
        return -ENOMEM;
    error = history_contents_put(&texts->known, text, (uint32_t)texts->n + 1, number);
    if (error)
        return error;
    texts->texts[texts->n++] = BYTES(copy, text.len);
    *number = (uint32_t)texts->n;
    return 0;
}

/* The stage */

void stage_open(struct history_stage *stage)
{
    *stage = (struct history_stage){0};
    arena_init(&stage->arena, STAGE_BYTES_MAX);
    texts_open(&stage->resources);
    texts_open(&stage->names);
    texts_open(&stage->attributes);
    history_contents_open(&stage->span_numbers);
}

void stage_close(struct history_stage *stage)
{
    arena_close(&stage->arena);
    texts_close(&stage->resources);
    texts_close(&stage->names);
    texts_close(&stage->attributes);
    history_contents_close(&stage->span_numbers);
    free(stage->spans);
    free(stage->samples);
}

void stage_clear(struct history_stage *stage)
{
    arena_reset(&stage->arena);
    texts_clear(&stage->resources);
    texts_clear(&stage->names);
    texts_clear(&stage->attributes);
    history_contents_clear(&stage->span_numbers);
    stage->n_spans = stage->n_samples = 0;
    stage->latest_resource = 0;
}

/* Spans */

static void ids_of(const uint8_t trace_id[16], const uint8_t span_id[8], uint8_t ids[24])
{
    memcpy(ids, trace_id, 16);
    memcpy(ids + 16, span_id, 8);
}

uint32_t stage_find_span(const struct history_stage *stage, const uint8_t trace_id[16],
                         const uint8_t span_id[8])
{
    uint32_t number = HISTORY_NO_SPAN;
    uint8_t ids[24];
    ids_of(trace_id, span_id, ids);
    history_contents_find(&stage->span_numbers, BYTES(ids, sizeof(ids)), &number);
    return number;
}

static int spans_make_room(struct history_stage *stage)
{
    if (stage->n_spans < stage->cap_spans)
        return 0;
    if (stage->n_spans == HISTORY_BLOCK_SPANS_MAX)
        return STAGE_FULL;
    size_t cap = stage->cap_spans ? stage->cap_spans * 2 : 256;
    struct staged_span *larger = realloc(stage->spans, cap * sizeof(*larger));
    if (!larger)
        return -ENOMEM;
    stage->spans = larger;
    stage->cap_spans = cap;
    return 0;
}

/* An invalid duration counts as 0: the end equals the start. */
static struct history_block_span row_of(const struct stage_new_span *span)
{
    struct history_block_span row = {.start_unix_ns = span->start_unix_ns,
                                     .cpu_ns = span->cpu_ns,
                                     .samples = span->samples,
                                     .error = span->error,
                                     .local_root = span->local_root};
    memcpy(row.trace_id, span->trace_id, 16);
    memcpy(row.span_id, span->span_id, 8);
    if (span->parent_id)
        memcpy(row.parent_id, span->parent_id, 8);
    if (span->end_unix_ns > span->start_unix_ns)
        row.duration_ns = span->end_unix_ns - span->start_unix_ns;
    return row;
}

static int take_resource(struct history_stage *stage, const struct stage_new_span *span,
                         uint32_t *number)
{
    if (span->resource_number && span->resource_number == stage->latest_resource) {
        *number = stage->latest_resource_text;
        return 0;
    }
    int error = texts_put(&stage->resources, &stage->arena, span->resource, number);
    if (!error) {
        stage->latest_resource = span->resource_number;
        stage->latest_resource_text = *number;
    }
    return error;
}

static int take_texts(struct history_stage *stage, const struct stage_new_span *span,
                      struct staged_span *staged)
{
    int error = take_resource(stage, span, &staged->resource);
    if (!error)
        error = texts_put(&stage->names, &stage->arena, span->name, &staged->name);
    if (!error)
        error = texts_put(&stage->attributes, &stage->arena, span->attributes, &staged->attributes);
    return error;
}

int stage_span(struct history_stage *stage, const struct stage_new_span *span, uint32_t *number)
{
    struct staged_span staged = {.row = row_of(span),
                                 .pid = span->pid,
                                 .kind = span->kind <= SPAN_CONSUMER ? (uint8_t)span->kind : 0,
                                 .tenant = span->tenant,
                                 .counts = span->counts};
    uint8_t ids[24];
    uint32_t before;
    int error = spans_make_room(stage);
    if (!error)
        error = take_texts(stage, span, &staged);
    if (error)
        return error;
    ids_of(span->trace_id, span->span_id, ids);
    *number = (uint32_t)stage->n_spans;
    int known = history_contents_put(&stage->span_numbers, BYTES(ids, 24), *number, &before);
    if (known < 0)
        return known;
    if (known)
        *number = before;
    else
        stage->n_spans++;
    if (!known || stage->spans[before].row.samples <= staged.row.samples)
        stage->spans[*number] = staged;
    return 0;
}

/* Samples */

static int samples_make_room(struct history_stage *stage)
{
    if (stage->n_samples < stage->cap_samples)
        return 0;
    if (stage->n_samples == HISTORY_BLOCK_SAMPLES_MAX)
        return STAGE_FULL;
    size_t cap = stage->cap_samples ? stage->cap_samples * 2 : 256;
    struct history_sample *larger = realloc(stage->samples, cap * sizeof(*larger));
    if (!larger)
        return -ENOMEM;
    stage->samples = larger;
    stage->cap_samples = cap;
    return 0;
}

static int attributes_put(struct history_stage *stage, const struct bytes parts[2],
                          uint32_t *number)
{
    struct buf both _cleanup_buf_ = {0};
    if (!parts[0].len || !parts[1].len)
        return texts_put(&stage->attributes, &stage->arena, parts[parts[0].len ? 0 : 1], number);
    int error = buf_append_bytes(&both, parts[0]);
    if (!error)
        error = buf_append_bytes(&both, parts[1]);
    return error ? error : texts_put(&stage->attributes, &stage->arena, buf_bytes(&both), number);
}

int stage_sample(struct history_stage *stage, const struct history_sample *sample,
                 const struct bytes attributes[2])
{
    uint32_t number;
    int error = samples_make_room(stage);
    if (!error)
        error = attributes_put(stage, attributes, &number);
    if (error)
        return error;
    struct history_sample *staged = &stage->samples[stage->n_samples++];
    *staged = *sample;
    staged->attributes = number;
    return 0;
}
