/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the stage as a block, and the sums as minutes. */
#include "store/db/db.h"
#include "store/history/history_state.h"
#include "base/limits.h"
#include <errno.h>
#include <stdlib.h>

STAT_COUNTER(samples_kept, "spanprof_history_samples_total", "Samples that went into the history.");
enum left_out { LEFT_OUT_SAMPLE, LEFT_OUT_SPAN, LEFT_OUT };

static const char *const left_out_names[] = {
    [LEFT_OUT_SAMPLE] = "sample", [LEFT_OUT_SPAN] = "span"};
STAT_LOSSES(left_out, "spanprof_history_left_out_total",
            "What did not get into the history for want of room.",
            STAT_LABEL("what", left_out_names, LEFT_OUT));

LIMIT(writing, LIMIT_SERVICE, "history: the block being written", .of = "history",
      .bytes = STAGE_BYTES_MAX + HISTORY_BLOCK_SPANS_MAX * sizeof(struct history_block_span));

#define NEW_NAMES_MAX 256 /* of a call: some 10 ms in the database */

/* The block being written. */
struct writing {
    struct history *history;
    struct history_block_row row;
    uint32_t *places; /* index in the block, by number of the staged span */
    struct history_block_span *spans;
    struct buf attributes;
    struct history_content content;
    struct blob_writer parts[HISTORY_PARTS];
};

static void writing_close(struct writing *writing)
{
    free(writing->places);
    free(writing->spans);
    buf_close(&writing->attributes);
    for (size_t i = 0; i < HISTORY_PARTS; i++)
        blob_writer_closep(&writing->parts[i]);
}

/* Spans */

struct resource_of_spans {
    bool known;
    uint64_t tenant;
    struct history_series_facts facts;
};

struct texts_of_spans { /* by number of the stage's texts */
    struct resource_of_spans *resources;
    int64_t *names; /* database ids; -1: not known yet */
};

static int texts_open(struct texts_of_spans *texts, const struct history_stage *stage)
{
    size_t n_names = stage->names.n + 1;
    texts->resources = calloc(stage->resources.n + 1, sizeof(*texts->resources));
    texts->names = malloc(n_names * sizeof(*texts->names));
    for (size_t i = 0; texts->names && i < n_names; i++)
        texts->names[i] = -1;
    return texts->resources && texts->names ? 0 : -ENOMEM;
}

static void texts_close(struct texts_of_spans *texts)
{
    free(texts->resources);
    free(texts->names);
}

/* A text belongs to the first span that has it. */
static int intern_resource(struct history *history, const struct staged_span *span,
                           struct resource_of_spans *resource)
{
    const struct bytes *texts = history->stage.resources.texts;
    struct bytes body = span->resource ? texts[span->resource - 1] : BYTES(NULL, 0);
    if (resource->known)
        return 0;
    resource->known = true;
    resource->tenant = span->tenant;
    return history_resource_facts(history, body, &resource->tenant, &resource->facts);
}

static int intern_name(struct history *history, const struct staged_span *span, uint64_t tenant,
                       int64_t *id)
{
    const struct bytes *texts = history->stage.names.texts;
    struct bytes name = span->name ? texts[span->name - 1] : BYTES(NULL, 0);
    return *id == -1 ? history_names_text(&history->names, tenant, name, id) : 0;
}

static int intern_series(struct history *history, const struct texts_of_spans *texts,
                         struct staged_span *span)
{
    struct resource_of_spans *resource = &texts->resources[span->resource];
    int64_t *name = &texts->names[span->name];
    int error = intern_resource(history, span, resource);
    uint64_t tenant = span->tenant ? span->tenant : resource->tenant;
    if (!error)
        error = intern_name(history, span, tenant, name);
    if (error)
        return error;
    struct history_series_facts facts = resource->facts;
    facts.span_name = *name;
    facts.span_kind = span->kind;
    facts.pid = span->pid;
    return history_names_series(&history->names, tenant, &facts, &span->row.series);
}

/* Of spans that have no series yet. HISTORY_MORE: max_new_names are new, and others may follow. */
static int find_series(struct history *history, uint64_t max_new_names)
{
    struct history_stage *stage = &history->stage;
    struct texts_of_spans texts;
    uint64_t since = history->names.n_new;
    int outcome = texts_open(&texts, stage);
    for (size_t i = 0; i < stage->n_spans && !outcome; i++) {
        if (stage->spans[i].row.series)
            continue;
        if (history->names.n_new - since >= max_new_names)
            outcome = HISTORY_MORE;
        else
            outcome = intern_series(history, &texts, &stage->spans[i]);
    }
    texts_close(&texts);
    return outcome;
}

int history_name_spans(struct history *history)
{
    WRITER_THREAD(history->db);
    return history->stage.n_spans ? find_series(history, NEW_NAMES_MAX) : 0;
}

static uint64_t write_earlier(uint64_t before, uint64_t time)
{
    return before && before < time ? before : time;
}

static void history_block_row_extend(struct history_block_row *row,
                                     const struct history_block_span *span)
{
    uint64_t end = span->start_unix_ns + span->duration_ns;
    row->spans_from_unix_ns = write_earlier(row->spans_from_unix_ns, span->start_unix_ns);
    if (end > row->spans_to_unix_ns)
        row->spans_to_unix_ns = end;
    if (span->duration_ns > row->max_duration_ns)
        row->max_duration_ns = span->duration_ns;
    row->spans++;
}

static int place_spans(struct writing *writing)
{
    struct history_stage *stage = &writing->history->stage;
    int error = 0;
    writing->places = malloc((stage->n_spans + 1) * sizeof(*writing->places));
    writing->spans = malloc((stage->n_spans + 1) * sizeof(*writing->spans));
    if (!writing->places || !writing->spans)
        return -ENOMEM;
    for (size_t i = 0; i < stage->n_spans && !error; i++) {
        const struct staged_span *span = &stage->spans[i];
        struct bytes attributes =
            span->attributes ? stage->attributes.texts[span->attributes - 1] : BYTES(NULL, 0);
        writing->spans[i] = span->row;
        writing->spans[i].attributes_at = (uint32_t)writing->attributes.len;
        writing->spans[i].attributes_len = (uint32_t)attributes.len;
        history_block_row_extend(&writing->row, &span->row);
        error = buf_append_bytes(&writing->attributes, attributes);
    }
    return error ? error : history_spans_sort(writing->spans, stage->n_spans, writing->places);
}

/* Samples */

static void place_samples(struct writing *writing)
{
    struct history_stage *stage = &writing->history->stage;
    struct history_block_row *row = &writing->row;
    for (size_t i = 0; i < stage->n_samples; i++) {
        struct history_sample *sample = &stage->samples[i];
        if (sample->context.span != HISTORY_NO_SPAN)
            sample->context.span = writing->places[sample->context.span];
        row->samples_from_unix_ns = write_earlier(row->samples_from_unix_ns, sample->time_unix_ns);
        if (sample->time_unix_ns > row->samples_to_unix_ns)
            row->samples_to_unix_ns = sample->time_unix_ns;
    }
    row->samples = stage->n_samples;
}

static int add_sums(struct history *history)
{
    const struct history_stage *stage = &history->stage;
    int error = 0;
    for (size_t i = 0; i < stage->n_samples && !error; i++) {
        const struct history_sample *sample = &stage->samples[i];
        error = history_sums_add(&history->sums,
                                 &(struct history_sums_sample){.time_unix_ns = sample->time_unix_ns,
                                                               .series = sample->series,
                                                               .stack = sample->stack,
                                                               .samples = 1,
                                                               .value_ns = sample->value_ns,
                                                               .period_ns = sample->period_ns});
    }
    return error;
}

/* All */

static int writing_encode(struct writing *writing)
{
    struct history_stage *stage = &writing->history->stage;
    int error = place_spans(writing);
    if (error)
        return error;
    place_samples(writing);
    writing->content = (struct history_content){.spans = writing->spans,
                                                .n_spans = stage->n_spans,
                                                .span_attributes = buf_bytes(&writing->attributes),
                                                .samples = stage->samples,
                                                .n_samples = stage->n_samples,
                                                .sample_attributes = stage->attributes.texts,
                                                .n_sample_attributes = stage->attributes.n};
    return history_encode(writing->parts, &writing->content, writing->history->totals);
}

static int writing_put(struct writing *writing)
{
    struct history *history = writing->history;
    struct bytes parts[HISTORY_PARTS];
    for (size_t i = 0; i < HISTORY_PARTS; i++)
        parts[i] = buf_bytes(&writing->parts[i].buf);
    writing->row.written_unix_ns = history->now_unix_ns;
    int outcome = history_write_minutes(history); /* before the block: mostly a new minute */
    if (outcome)
        return outcome;
    outcome = history_blocks_put(&history->blocks, &writing->row, parts);
    if (outcome == HISTORY_NO_ROOM) {
        stat_add_of(&left_out, LEFT_OUT_SAMPLE, (int64_t)writing->row.samples);
        stat_add_of(&left_out, LEFT_OUT_SPAN, (int64_t)writing->row.spans);
        return 0;
    }
    if (outcome)
        return outcome;
    stat_add(&samples_kept, (int64_t)writing->row.samples);
    for (size_t i = 0; i < history->stage.n_spans; i++)
        if (writing->spans[i].samples)
            history_recent_add(history, writing->spans[i].trace_id, writing->spans[i].span_id);
    history_encode_total(history->totals, &writing->content);
    return add_sums(history);
}

int history_write_block(struct history *history)
{
    struct writing writing = {.history = history};
    if (!history->stage.n_spans && !history->stage.n_samples)
        return 0;
    int error = find_series(history, UINT64_MAX);
    if (!error)
        error = writing_encode(&writing);
    if (!error)
        error = writing_put(&writing);
    writing_close(&writing);
    if (error)
        return error;
    stage_clear(&history->stage);
    history_forget_sources(history);
    return 0;
}

/* Minutes */

static int encode_stacks(struct blob_writer *out, const struct history_minute_entry *entries,
                         size_t n)
{
    struct id_set stacks = {0};
    int error = 0;
    for (size_t i = 0; i < n && !error; i++)
        error = id_set_add(&stacks, entries[i].stack);
    id_set_seal(&stacks);
    history_stacks_encode(out, &stacks);
    id_set_close(&stacks);
    return error ? error : out->error;
}

static int write_minute(void *context, uint64_t minute_unix_ns,
                        struct history_minute_entry *entries, size_t n)
{
    struct history *history = context;
    struct blob_writer out _cleanup_blob_ = {0}, stacks _cleanup_blob_ = {0};
    struct history_minute_row row = {.minute_unix_ns = minute_unix_ns,
                                     .written_unix_ns = history->now_unix_ns,
                                     .period_ns = history->sums.period_ns};
    for (size_t i = 0; i < n; i++) {
        row.samples += entries[i].samples;
        row.value_ns += entries[i].value_ns;
    }
    history_minute_encode(&out, entries, n, row.period_ns);
    int error = out.error ? out.error : encode_stacks(&stacks, entries, n);
    return error ? error
                 : history_blocks_put_minute(&history->blocks, &row, buf_bytes(&out.buf),
                                             buf_bytes(&stacks.buf));
}

int history_write_minutes(struct history *history)
{
    uint64_t minute = history->now_unix_ns / HISTORY_MINUTE_NS;
    bool over = minute != history->sums_minute || history_sums_is_full(&history->sums);
    if (!over)
        return 0;
    history->sums_minute = minute;
    if (history_sums_is_empty(&history->sums))
        return 0;
    int error = history_sums_each(&history->sums, write_minute, history);
    history_sums_clear(&history->sums);
    return error;
}

static int sum_group(struct history *history, const struct history_samples *in,
                     const struct history_sample_group *group)
{
    struct history_group_times times = history_times_of(in, group);
    struct history_sums_sample sample = {.series = group->series,
                                         .stack = group->stack,
                                         .samples = 1,
                                         .period_ns = group->period_ns};
    int error = 0;
    while (!error && history_times_next(&times, &sample.time_unix_ns, &sample.value_ns))
        error = history_sums_add(&history->sums, &sample);
    return error;
}

static int sum_groups(struct history *history, struct bytes body, size_t n_spans, bool add)
{
    struct history_samples in;
    const struct history_sample_group *group;
    int error = history_samples_open(&in, body, NULL, n_spans);
    while (!error && (error = history_samples_next(&in, &group)) == 1)
        error = add ? sum_group(history, &in, group) : 0;
    history_samples_close(&in);
    return error;
}

/* A block is added as a whole or not at all: the first pass checks it. Full sums end the visit. */
static int sum_block(void *context, struct bytes body, size_t n_spans)
{
    struct history *history = context;
    if (history_sums_is_full(&history->sums))
        return -ENOENT;
    int error = sum_groups(history, body, n_spans, false);
    return error ? error : sum_groups(history, body, n_spans, true);
}

int history_sum_up(struct history *history)
{
    history_sums_clear(&history->sums);
    history->sums_minute = history_blocks_latest_unix_ns(&history->blocks) / HISTORY_MINUTE_NS;
    return history_blocks_unsummed(&history->blocks, sum_block, history);
}
