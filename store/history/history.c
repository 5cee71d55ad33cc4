/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans arrive in their own transactions, samples leave the join in the transactions of windows.
 * Both are staged in memory with their texts; ids of texts and series are assigned when the block
 * is written. So a rollback in between leaves no dangling ids.
 *
 * If a sample leaves with a span that is not in a recent block, the span is added again from the
 * join's facts: this restores spans of acknowledged requests after a restart. So the same span may
 * be in two blocks; readers identify spans by their ids.
 */
#include "store/history/history.h"
#include "base/clock.h"
#include "base/stats.h"
#include "base/utf8.h"
#include "store/db/db.h"
#include "store/history/history_state.h"
#include "store/join/matched_span.h"
#include "store/stacks/processes.h"
#include "store/stacks/process_resource.h"
#include "store/stacks/stacks.h"
#include <errno.h>
#include <stdlib.h>

#define SOURCES_BYTES_MAX ((size_t)8 << 20)
#define EARLY_SPANS       256 /* so many are written before their window ends */

static const char *const kept_names[HISTORY_KEEP_WHYS] = {[HISTORY_KEEP_SAMPLED] = "sampled",
                                                          [HISTORY_KEEP_TRACE] = "trace",
                                                          [HISTORY_KEEP_SLOW] = "slow",
                                                          [HISTORY_KEEP_CHOSEN] = "chosen"};
STAT_COUNTERS(
    kept, "spanprof_history_spans_total",
    "Spans that the history keeps, by why: they have samples, or their trace has, or they "
    "are slow, or their trace was chosen.",
    STAT_LABEL("why", kept_names, HISTORY_KEEP_WHYS), .absent = STAT_BIT(HISTORY_KEEP_NOT));
STAT_LOSS(
    spans_over_share, "spanprof_history_spans_over_share_total",
    "Spans without samples that the history does not keep, because their sender has its share "
    "of the bytes of a window.");
STAT_COUNTER(spans_passed_over, "spanprof_history_spans_passed_over_total",
             "Spans without samples that the history does not keep, beyond "
             "history::max_spans_per_second.");
STAT_LOSS(staged_dropped, "spanprof_history_spans_dropped_total",
          "Spans that were not in a block yet when a transaction failed.");

/* Opening */

static int open_parts(struct history *history)
{
    const struct history_settings *settings = &history->settings;
    uint64_t windows = settings->retention_ns / HISTORY_WINDOW_NS + 1;
    int error = history_span_budget_open(settings->max_spans_per_second, &history->keep);
    if (!error)
        error = fair_share_init(&history->window,
                                settings->max_size_bytes / windows * HISTORY_WINDOW_PARTS);
    if (!error)
        error = history_totals_open(&history->totals);
    if (!error)
        error = history_names_open(
            &history->names, history->db,
            &(struct history_names_settings){
                .retention_ns = settings->retention_ns,
                .max_bytes =
                    settings->enabled ? settings->max_size_bytes / HISTORY_NAMES_PART : 0});
    if (!error)
        error = history_blocks_open(&history->blocks, history->db,
                                    settings->enabled ? settings->retention_ns : 0,
                                    settings->max_size_bytes);
    return error ? error : history_sum_up(history);
}

/* Names and blocks share the history's part of the store. */
static void divide_room(struct history *history)
{
    uint64_t all = history->settings.max_size_bytes, names = history->names.bytes;
    uint64_t most = all / HISTORY_NAMES_PART;
    history_blocks_limit(&history->blocks, all - (names < most ? names : most));
}

struct source { /* process and Resource of samples */
    struct source_key {
        const void *resource; /* Resource of the joined span; NULL: not joined */
        int64_t process;
    } key;
    struct history_series_facts facts;
    uint64_t tenant;
};

int history_open(struct db *db, struct stacks *stacks, struct processes *processes,
                 const struct history_settings *settings, struct history **result)
{
    struct history *history = calloc(1, sizeof(*history));
    if (!history)
        return -ENOMEM;
    history->db = db;
    history->stacks = stacks;
    history->processes = processes;
    history->settings = *settings;
    history->now_unix_ns = clock_unix_ns();
    stage_open(&history->stage);
    history_sums_open(&history->sums);
    MAP_INIT(&history->sources, struct source, key);
    arena_init(&history->sources_arena, SOURCES_BYTES_MAX);
    int error = open_parts(history);
    if (error) {
        history_close(history);
        return error;
    }
    *result = history;
    return 0;
}

void history_close(struct history *history)
{
    if (!history)
        return;
    history_span_budget_close(history->keep);
    history_totals_close(history->totals);
    history_names_close(&history->names);
    history_blocks_close(&history->blocks);
    stage_close(&history->stage);
    history_sums_close(&history->sums);
    map_close(&history->sources);
    arena_close(&history->sources_arena);
    free(history);
}

void history_forget_sources(struct history *history)
{
    map_close(&history->sources);
    arena_reset(&history->sources_arena);
}

int history_reload(struct history *history)
{
    WRITER_THREAD(history->db);
    stat_add(&staged_dropped, (int64_t)history->stage.n_spans);
    stage_clear(&history->stage);
    fair_share_clear(&history->window);
    history_forget_sources(history);
    history->latest_resource = 0;
    memset(history->recent, 0, sizeof(history->recent));
    history_totals_clear(history->totals);
    int error = history_names_reload(&history->names);
    if (!error)
        error = history_blocks_reload(&history->blocks);
    return error ? error : history_sum_up(history);
}

bool history_is_enabled(const struct history *history)
{
    return history->settings.enabled;
}

uint64_t history_room_to_leave(const struct history *history)
{
    WRITER_THREAD(history->db);
    return history->settings.enabled ? history_blocks_room_to_leave(&history->blocks) : 0;
}

/* Spans in blocks */

static uint64_t *recent_place(const struct history *history, const uint8_t trace_id[16],
                              const uint8_t span_id[8], uint64_t *hash)
{
    uint8_t ids[24];
    memcpy(ids, trace_id, 16);
    memcpy(ids + 16, span_id, 8);
    *hash = bytes_siphash(BYTES(ids, sizeof(ids)), history->sources.seed) | 1;
    return (uint64_t *)&history->recent[(*hash >> 32) % HISTORY_RECENT];
}

static bool history_recent_has(const struct history *history, const uint8_t trace_id[16],
                               const uint8_t span_id[8])
{
    uint64_t hash;
    return *recent_place(history, trace_id, span_id, &hash) == hash;
}

void history_recent_add(struct history *history, const uint8_t trace_id[16],
                        const uint8_t span_id[8])
{
    uint64_t hash, *place = recent_place(history, trace_id, span_id, &hash);
    *place = hash;
}

/* Spans */

/* If the stage is full, writes a block at once. */
static int stage_the_span(struct history *history, const struct stage_new_span *span,
                          uint32_t *number)
{
    int outcome = stage_span(&history->stage, span, number);
    if (outcome != STAGE_FULL)
        return outcome;
    int error = history_write_block(history);
    if (error)
        return error;
    outcome = stage_span(&history->stage, span, number);
    return outcome == STAGE_FULL ? -ENOMEM : outcome;
}

/* Called only for the few spans that are kept. */
static bool has_ids(const struct otlp_span *span)
{
    return !bytes_zero(span->trace_id.data, 16) && !bytes_zero(span->span_id.data, 8);
}

static struct bytes text_of(struct bytes resource, const char *key)
{
    struct bytes key_value, text;
    bool there = otlp_resource_attribute(resource, key, &key_value) &&
                 otlp_key_value_string(key_value, &text);
    return there ? text : BYTES(NULL, 0);
}

/* A Resource that is too large to be kept is not read for its service either. */
static uint64_t tenant_of(struct history *history, uint64_t sender, const struct otlp_span *span)
{
    if (sender || span->resource.len > MATCHED_SPAN_RESOURCE_MAX)
        return sender;
    if (!span->resource_number || span->resource_number != history->latest_resource)
        history->latest_tenant =
            history_names_tenant(&history->names, text_of(span->resource, "service.name"));
    history->latest_resource = span->resource_number;
    return history->latest_tenant;
}

/* Within the sender's share of this window. */
static bool window_takes(struct history *history, uint64_t sender, const struct otlp_span *span,
                         size_t text_bytes)
{
    uint64_t tenant = tenant_of(history, sender, span);
    uint64_t bytes = HISTORY_SPAN_BYTES + text_bytes;
    bool fits = fair_share_has_room(&history->window, tenant, bytes);
    stat_add(&spans_over_share, !fits);
    if (fits)
        fair_share_take(&history->window, tenant, bytes);
    return fits;
}

enum { SPAN_NOT_KEPT = 1 };

static int keep_span(struct history *history, uint64_t sender, const struct otlp_span *span,
                     const struct join_result *result)
{
    struct buf attributes _cleanup_buf_ = BUF_INIT(MATCHED_SPAN_ATTRIBUTES_MAX);
    bool was_cut = false;
    uint32_t number;
    struct bytes parent = span->parent_span_id, resource = span->resource;
    struct bytes name = utf8_cut(span->name, MATCHED_SPAN_NAME_MAX);
    if (!has_ids(span))
        return 0;
    int error =
        matched_span_attributes(history->settings.span_attributes, span, &attributes, &was_cut);
    if (error)
        return error;
    if (!result && !window_takes(history, sender, span, name.len + attributes.len))
        return SPAN_NOT_KEPT;
    if (resource.len > MATCHED_SPAN_RESOURCE_MAX)
        resource = BYTES(NULL, 0);
    return stage_the_span(history,
                          &(struct stage_new_span){
                              .trace_id = span->trace_id.data,
                              .span_id = span->span_id.data,
                              .parent_id = parent.len == 8 ? parent.data : NULL,
                              .resource = resource,
                              .resource_number = span->resource_number,
                              .name = name,
                              .attributes = buf_bytes(&attributes),
                              .start_unix_ns = span->start_unix_ns,
                              .end_unix_ns = span->end_unix_ns,
                              .cpu_ns = result ? result->cpu_ns : 0,
                              .samples = result ? result->samples : 0,
                              .pid = result ? result->pid : 0,
                              .kind = span->kind,
                              .tenant = sender,
                              .error = otlp_span_is_error(span),
                              .local_root = otlp_span_is_local_root(span),
                          },
                          &number);
}

int history_span(struct history *history, uint64_t sender, const struct otlp_span *span,
                 const struct join_result *result)
{
    WRITER_THREAD(history->db);
    if (!history->settings.enabled || span->trace_id.len != 16 || span->span_id.len != 8)
        return 0;
    if (result && result->samples) {
        history_span_budget_trace(history->keep, span->trace_id.data);
        stat_add_of(&kept, HISTORY_KEEP_SAMPLED, 1);
        return keep_span(history, sender, span, result);
    }
    uint64_t duration_ns =
        span->end_unix_ns > span->start_unix_ns ? span->end_unix_ns - span->start_unix_ns : 0;
    enum history_span_budget_why why =
        history_span_budget_span(history->keep, span->trace_id.data, duration_ns);
    if (!why) {
        history->passed_over++;
        return 0;
    }
    int outcome = keep_span(history, sender, span, NULL);
    if (!outcome)
        stat_add_of(&kept, why, 1);
    return outcome == SPAN_NOT_KEPT ? 0 : outcome;
}

/* Samples */

int history_resource_facts(struct history *history, struct bytes resource, uint64_t *tenant,
                           struct history_series_facts *facts)
{
    struct history_names *names = &history->names;
    struct bytes service = text_of(resource, "service.name");
    *facts = (struct history_series_facts){0};
    if (!*tenant)
        *tenant = history_names_tenant(names, service);
    int error = history_names_resource(names, *tenant, resource, &facts->resource);
    if (!error)
        error = history_names_text(names, *tenant, service, &facts->service);
    if (!error)
        error = history_names_text(names, *tenant, text_of(resource, "container.id"),
                                   &facts->container);
    if (!error)
        error = history_names_text(names, *tenant, text_of(resource, "process.executable.name"),
                                   &facts->executable);
    return error;
}

static int find_facts(struct history *history, const struct bytes *span_resource,
                      struct source *source)
{
    int64_t process = source->key.process;
    static const struct process_facts unknown;
    const struct process_facts *facts = &unknown;
    struct buf resource _cleanup_buf_ = {0};
    int error = process ? processes_get(history->processes, process, &facts) : 0;
    if (error == -ENOENT)
        facts = &unknown;
    else if (error)
        return error;
    uint32_t pid = facts->pid;
    source->tenant = facts->cgroup_id;
    error = profile_resource(&resource, span_resource, facts);
    if (!error)
        error =
            history_resource_facts(history, buf_bytes(&resource), &source->tenant, &source->facts);
    source->facts.pid = pid;
    return error;
}

static int find_source(struct history *history, const struct join_span_facts *span, int64_t process,
                       const struct source **result)
{
    struct source_key key = {span ? (const void *)span->resource.data : NULL, process};
    struct source *source = map_get(&history->sources, &key);
    *result = source;
    if (source)
        return 0;
    source = arena_zalloc(&history->sources_arena, sizeof(*source));
    if (!source)
        return -ENOMEM;
    source->key = key;
    int error = find_facts(history, span ? &span->resource : NULL, source);
    *result = source;
    return error ? error : map_put(&history->sources, source, NULL);
}

static int find_series(struct history *history, const struct sample *sample,
                       const struct join_span_facts *span, int64_t *series)
{
    const struct source *source;
    int error = find_source(history, span, sample->process, &source);
    if (error)
        return error;
    struct history_series_facts facts = source->facts;
    facts.sample_kind = sample->kind;
    facts.context_source = sample->context_source;
    error =
        history_names_text(&history->names, source->tenant,
                           BYTES(sample->comm, strnlen(sample->comm, SAMPLE_COMM)), &facts.thread);
    if (!error && span) {
        facts.span_kind = span->kind <= SPAN_CONSUMER ? (uint8_t)span->kind : 0;
        error = history_names_text(&history->names, source->tenant, span->name, &facts.span_name);
    }
    return error ? error : history_names_series(&history->names, source->tenant, &facts, series);
}

static int bring_span(struct history *history, const struct join_span_facts *span, uint32_t *number)
{
    stat_add_of(&kept, HISTORY_KEEP_SAMPLED, 1);
    return stage_the_span(history,
                          &(struct stage_new_span){
                              .trace_id = span->trace_id,
                              .span_id = span->span_id,
                              .parent_id = span->parent_id,
                              .resource = span->resource,
                              .name = span->name,
                              .attributes = span->attributes,
                              .start_unix_ns = span->start_unix_ns,
                              .end_unix_ns = span->end_unix_ns,
                              .kind = span->kind,
                              .pid = span->pid,
                              .error = span->error,
                              .local_root = span->local_root,
                              .counts = true,
                          },
                          number);
}

static int find_context(struct history *history, const struct sample *sample,
                        const struct join_span_facts *span, struct history_context *context)
{
    *context = (struct history_context){.span = HISTORY_NO_SPAN, .matched = span};
    memcpy(context->trace_id, span ? span->trace_id : sample->trace_id, 16);
    memcpy(context->span_id, span ? span->span_id : sample->span_id, 8);
    memcpy(context->local_root_id, sample->local_root_id, 8);
    if (!span)
        return 0;
    context->span = stage_find_span(&history->stage, span->trace_id, span->span_id);
    if (context->span != HISTORY_NO_SPAN ||
        history_recent_has(history, span->trace_id, span->span_id))
        return 0;
    return bring_span(history, span, &context->span);
}

static void count_in_span(struct history *history, const struct history_sample *sample)
{
    if (sample->context.span == HISTORY_NO_SPAN)
        return;
    struct staged_span *span = &history->stage.spans[sample->context.span];
    if (!span->counts)
        return;
    span->row.samples++;
    span->row.cpu_ns += sample->value_ns;
}

static int stage_the_sample(struct history *history, const struct sample *sample,
                            const struct join_span_facts *span)
{
    struct history_sample staged = {.stack = sample->stack,
                                    .time_unix_ns = sample->time_unix_ns,
                                    .value_ns = sample->value_ns,
                                    .period_ns = sample->period_ns,
                                    .tid = sample->tid};
    struct bytes attributes[2] = {{NULL, 0}, sample->attributes};
    int error = stacks_canonical(history->stacks, sample->stack, &staged.stack);
    if (error == -ENOENT) /* the row was removed: an empty stack */
        error = 0;
    if (!error)
        error = find_context(history, sample, span, &staged.context);
    if (!error)
        error = find_series(history, sample, span, &staged.series);
    if (error)
        return error;
    if (span && staged.context.span == HISTORY_NO_SPAN)
        attributes[0] = span->attributes;
    error = stage_sample(&history->stage, &staged, attributes);
    if (!error)
        count_in_span(history, &staged);
    return error;
}

int history_sample(struct history *history, const struct sample *sample,
                   const struct join_span_facts *span)
{
    WRITER_THREAD(history->db);
    if (!history->settings.enabled)
        return 0;
    int outcome = stage_the_sample(history, sample, span);
    if (outcome != STAGE_FULL)
        return outcome;
    outcome = history_write_block(history);
    if (!outcome)
        outcome = stage_the_sample(history, sample, span);
    return outcome == STAGE_FULL ? -ENOMEM : outcome;
}

/* From time to time */

int history_flush(struct history *history, uint64_t now_unix_ns)
{
    WRITER_THREAD(history->db);
    if (!history->settings.enabled)
        return 0;
    history->now_unix_ns = now_unix_ns;
    int error = history_write_block(history);
    if (!error)
        error = history_write_minutes(history); /* also if nothing was added */
    fair_share_clear(&history->window);
    history_forget_sources(history); /* their keys are addresses valid in this window only */
    return error;
}

int history_expire(struct history *history, uint64_t now_unix_ns)
{
    WRITER_THREAD(history->db);
    history->now_unix_ns = now_unix_ns;
    stat_add(&spans_passed_over, (int64_t)history->passed_over);
    history->passed_over = 0;
    history_span_budget_tick(history->keep);
    divide_room(history);
    int error = history->stage.n_spans >= EARLY_SPANS ? history_write_block(history) : 0;
    if (!error)
        error = history_blocks_expire(&history->blocks, now_unix_ns);
    if (!history_blocks_latest_unix_ns(&history->blocks))
        history_sums_clear(&history->sums); /* the blocks of the sums were removed */
    return error ? error : history_names_collect(&history->names, now_unix_ns);
}

int history_references(struct history *history, struct id_set *stacks)
{
    WRITER_THREAD(history->db);
    int error = history_blocks_stacks(&history->blocks, stacks);
    return error ? error : history_sums_stacks(&history->sums, stacks);
}
