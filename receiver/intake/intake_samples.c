/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rowids are cached in the process table's tags, so a sample of a known stack in a known process
 * costs no SQL except its own insert.
 */
#include "receiver/intake/intake_samples.h"
#include "base/utf8.h"
#include "receiver/intake/correlation.h"
#include "receiver/intake/intake_context.h"
#include "receiver/intake/intake_frames.h"
#include "receiver/intake/intake_stacks.h"
#include "store/window/coverage.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct samples {
    struct store *store;
    struct process_table *table;
    struct intake_frames *frames;
    struct questions *questions;
    struct intake_stacks *stacks;
    struct sample_context *context;
    struct correlation *correlation; /* NULL: not counted */
    struct coverage *coverage;       /* NULL: not counted */
};

int intake_samples_open(struct store *store, struct process_table *table,
                        const struct label_names *names, struct samples **samplesp)
{
    struct samples *samples = calloc(1, sizeof(*samples));
    if (!samples)
        return -ENOMEM;
    samples->store = store;
    samples->table = table;
    int error = intake_context_open(names, &samples->context);
    if (!error)
        error = intake_frames_open(store, table, &samples->frames);
    if (!error)
        error = questions_open(store, table, samples->frames, &samples->questions);
    if (!error)
        error = intake_stacks_open(store, samples->frames, samples->questions, &samples->stacks);
    if (error) {
        intake_samples_close(samples);
        return error;
    }
    *samplesp = samples;
    return 0;
}

void intake_samples_close(struct samples *samples)
{
    if (!samples)
        return;
    intake_stacks_close(samples->stacks);
    questions_close(samples->questions);
    intake_frames_close(samples->frames);
    intake_context_close(samples->context);
    free(samples);
}

void intake_samples_correlate(struct samples *samples, struct correlation *correlation)
{
    samples->correlation = correlation;
}

void intake_samples_cover(struct samples *samples, struct coverage *coverage)
{
    samples->coverage = coverage;
}

void intake_samples_forget(struct samples *samples)
{
    intake_frames_forget(samples->frames);
    intake_stacks_forget(samples->stacks);
}

void intake_samples_want_names(struct samples *samples)
{
    questions_send(samples->questions);
}

int intake_samples_expire(struct samples *samples, uint64_t now_ns)
{
    return intake_stacks_expire(samples->stacks, now_ns);
}

/* The kernel cuts the name after 15 bytes, even within a character. */
static struct bytes thread_name(const struct record_header *record)
{
    return utf8_cut(BYTES(record->comm, strnlen(record->comm, RECORD_COMM)), RECORD_COMM);
}

/* Makes the name valid UTF-8 before it is stored: every view shows the same text, and a query by
 * the shown text finds it. */
static void put_thread_name(const struct record_header *record, struct sample *sample)
{
    struct bytes name = thread_name(record);
    if (bytes_utf8_valid(name))
        memcpy(sample->comm, name.data, name.len);
    else
        bytes_sanitize(name, sample->comm, sizeof(sample->comm));
}

static int process_row(struct samples *samples, const struct record_header *record,
                       const struct process_details *details, int64_t *id)
{
    const struct process_tag *tag = details->tag;
    if (tag && tag->row && tag->cgroup_id == record->cgroup_id && tag->uid == record->uid) {
        *id = tag->row;
        return 0;
    }
    char name[256], path[1024];
    struct bytes shown =
        details->executable_name.len ? details->executable_name : thread_name(record);
    size_t name_len = bytes_sanitize(shown, name, sizeof(name));
    size_t path_len = bytes_sanitize(details->executable_path, path, sizeof(path));
    struct process_facts facts = {
        .start_ns = details->start_ns ? details->start_ns : record->process_start_ns,
        .pid = record->pid ? record->pid : record->root_pid,
        .own_pid = record->own_pid,
        .executable_name = BYTES(name, name_len),
        .executable_path = BYTES(path, path_len),
        .container_id = details->container_id,
        .pod_uid = details->pod_uid,
        .resource = details->resource,
        .sets_trace_flags = details->sets_trace_flags,
        .cgroup_id = record->cgroup_id,
        .uid = record->uid,
    };
    int error = processes_put(store_processes(samples->store), &facts, id);
    if (!error && details->tag)
        *details->tag = (struct process_tag){*id, record->cgroup_id, record->uid};
    return error;
}

static void samples_cover(struct samples *samples, const struct record_header *record,
                          const struct process_details *details, const struct sample *sample)
{
    bool has_ids = !bytes_zero(sample->trace_id, 16) || !bytes_zero(sample->span_id, 8);
    coverage_sample(samples->coverage,
                    &(struct coverage_sample){
                        .pid = record->pid,
                        .own_pid = record->own_pid,
                        .start_ns = record->process_start_ns,
                        .cgroup_id = record->cgroup_id,
                        .resource = details->resource,
                        .publishes = details->publishes || record->context_source,
                        .attached = record->flags & RECORD_FLAG_CONTEXT_KNOWN,
                        .has_ids = has_ids,
                        .unsampled = has_ids && sample->flags_trusted && !(sample->trace_flags & 1),
                        .unreadable = record->flags & RECORD_FLAG_CONTEXT_TORN,
                        .source = has_ids ? sample->context_source : CONTEXT_NONE,
                        .program = {.runtime = details->runtime,
                                    .publisher = details->publisher,
                                    .unreadable = details->unreadable,
                                    .publishes = details->publishes,
                                    .frames = details->frames},
                    },
                    record->time_ns);
}

int intake_samples_add(struct samples *samples, const struct record_header *record,
                       int64_t unix_offset_ns)
{
    struct process_details details = {0};
    if (record->pid && !(record->flags & RECORD_FLAG_KERNEL_THREAD)) {
        process_table_sampled(samples->table, record->pid, record->cgroup_id, record->time_ns);
        process_table_details(samples->table, record->pid, record->time_ns, &details);
    }
    struct sample sample = {
        .time_unix_ns = (uint64_t)((int64_t)record->time_ns + unix_offset_ns),
        .value_ns = record->value_ns,
        .period_ns = record->period_ns,
        .cpu = record->cpu,
        .tid = record->own_tid,
        .kind = record->kind,
        .state = (uint8_t)record->state,
    };
    put_thread_name(record, &sample);
    if (intake_context_fill(samples->context, record, &details, &sample) == SAMPLE_CONTEXT_CHANGED)
        process_table_context_changed(samples->table, record->pid, record->time_ns);
    samples_cover(samples, record, &details, &sample);

    int error = process_row(samples, record, &details, &sample.process);
    if (!error)
        error = intake_stacks_row(samples->stacks, record, &sample.stack);
    if (error == -ESTALE) {
        intake_frames_forget(samples->frames);
        questions_forget_names(samples->questions);
        error = intake_stacks_row(samples->stacks, record, &sample.stack);
    }
    if (!error && samples->correlation)
        correlation_add(samples->correlation, record, sample.stack);
    return error ? error : join_add_sample(store_join(samples->store), &sample);
}

static int put_executable(struct samples *samples, const struct symbolizer_executable *executable)
{
    struct stacks *stacks = store_stacks(samples->store);
    int64_t id;
    int error = stacks_executable(stacks, executable->identity, &id);
    if (error || !executable->found)
        return error;
    const struct executable_facts *known;
    struct executable_facts facts = {
        .build_id = executable->build_id,
        .go_build_id = executable->go_build_id,
        .htlhash_known = true,
        .n_segments = executable->n_segments,
    };
    char path[1024];
    if (stacks_executable_get(stacks, id, &known) == 0 && known->path.len < sizeof(path)) {
        memcpy(path, known->path.data, known->path.len);
        facts.path = BYTES(path, known->path.len);
    }
    memcpy(facts.htlhash, executable->htlhash, sizeof(facts.htlhash));
    for (size_t i = 0; i < facts.n_segments && i < EXECUTABLE_SEGMENTS_MAX; i++)
        facts.segments[i] =
            (struct executable_segment){.file_offset = executable->segments[i].file_offset,
                                        .size = executable->segments[i].size,
                                        .vaddr = executable->segments[i].vaddr};
    return stacks_executable_facts(stacks, id, &facts);
}

static int put_names(struct samples *samples, const uint8_t identity[16],
                     const struct symbolizer_names *names)
{
    struct stacks *stacks = store_stacks(samples->store);
    int64_t id;
    int error = stacks_executable(stacks, identity, &id);
    struct frame_name found[SYMBOLIZER_NAMES_MAX];
    size_t n = 0;
    for (size_t i = 0; !error && i < names->n && i < SYMBOLIZER_NAMES_MAX; i++)
        found[n++] = (struct frame_name){.address = names->names[i].address,
                                         .function = names->names[i].function,
                                         .file = names->names[i].file,
                                         .line = names->names[i].line,
                                         .system_name = names->names[i].system_name};
    return error ? error : stacks_set_names(stacks, id, found, n);
}

static void samples_cover_code(struct samples *samples, const struct symbolizer_code *code)
{
    if (code->map != CODE_MAP_NOT_ASKED)
        coverage_code(samples->coverage, code->pid,
                      code->map == CODE_MAP_READ ? COVERAGE_CODE_MAP : COVERAGE_CODE_NO_MAP);
}

int intake_samples_answer(struct samples *samples, const struct symbolizer_message *message)
{
    struct process_kernel kernel;
    int error;
    switch (message->kind) {
    case SYMBOLIZER_EXECUTABLE:
        return put_executable(samples, &message->executable);
    case SYMBOLIZER_NAMES:
        return put_names(samples, message->names.identity, &message->names);
    case SYMBOLIZER_KERNEL_NAMES:
        if (process_table_kernel(samples->table, &kernel) != 0)
            return 0;
        return put_names(samples, kernel.identity, &message->names);
    case SYMBOLIZER_KERNEL:
        process_table_answer(samples->table, message);
        return intake_frames_kernel_row(samples->frames);
    case SYMBOLIZER_CODE:
        samples_cover_code(samples, &message->code);
        error = intake_stacks_code(samples->stacks, &message->code);
        questions_send(samples->questions);
        return error;
    case SYMBOLIZER_UNWOUND:
        error = intake_stacks_answer(samples->stacks, &message->unwound);
        questions_send(samples->questions);
        return error;
    default:
        process_table_answer(samples->table, message); /* out of memory: a later scan repairs it */
        return 0;
    }
}
