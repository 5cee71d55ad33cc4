/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minutes have no spans, so everything is read from blocks.
 */
#include "store/query/history_reader_state.h"
#include "store/join/sample.h"

enum { STOPPED_BY_VISITOR = 1 };

struct reporting {
    struct reader_scan *scan;
    struct reader_periods periods;
    history_visit *visit;
    void *context;
    int outcome; /* returned by the visitor */
};

/* Adds the group's samples within the range. */
static void add_times(const struct reporting *reporting, const struct history_samples *samples,
                      const struct history_sample_group *group, struct history_labelled *labelled)
{
    const struct reader_range *asked = &reporting->scan->asked;
    struct history_group_times times = history_times_of(samples, group);
    uint64_t time_unix_ns, value_ns;
    while (history_times_next(&times, &time_unix_ns, &value_ns)) {
        if (time_unix_ns < asked->from || time_unix_ns >= asked->to)
            continue;
        labelled->samples++;
        labelled->cpu_ns += value_ns;
    }
}

static struct bytes task_of(const struct history_sample_group *group, char own[READER_VALUE_BYTES])
{
    struct bytes key_value, name = {NULL, 0};
    if (reader_attribute_find(group->attributes, BYTES_STR(SAMPLE_TASK_KEY), &key_value))
        reader_value_text(key_value, own, &name);
    return name;
}

static int telling_tell(struct reporting *reporting, const struct reader_weight *weight,
                        struct history_labelled *labelled)
{
    struct history_reader *reader = reporting->scan->reader;
    const struct history_context *context = &weight->group->context;
    char task[READER_VALUE_BYTES];
    labelled->service = weight->series->service;
    labelled->span_name = weight->series->span_name;
    labelled->thread = weight->series->thread;
    labelled->container = weight->series->container;
    labelled->task = task_of(weight->group, task);
    memcpy(labelled->trace_id, context->trace_id, sizeof(labelled->trace_id));
    memcpy(labelled->span_id, context->span_id, sizeof(labelled->span_id));
    reader_periods_add(&reporting->periods, weight->group->period_ns, labelled->samples);
    int error =
        history_frames_get(&reader->frames, weight->stack, &labelled->frames, &labelled->n_frames);
    if (error)
        return error;
    reporting->outcome = reporting->visit(reporting->context, labelled);
    return reporting->outcome ? STOPPED_BY_VISITOR : 0;
}

static int tell_group(void *context, const struct history_samples *samples,
                      const struct history_sample_group *group)
{
    struct reporting *reporting = context;
    struct reader_weight weight = {.stack = group->stack, .group = group};
    struct history_labelled labelled = {.samples = 0};
    int outcome = reader_match_group(reporting->scan, group, &weight);
    if (outcome <= 0)
        return outcome;
    add_times(reporting, samples, group, &labelled);
    return labelled.samples ? telling_tell(reporting, &weight, &labelled) : 0;
}

static int report_block(struct reporting *reporting, const struct reader_block *block)
{
    struct reader_scan *scan = reporting->scan;
    if (!block->samples || block->samples_to_unix_ns < scan->answer.from ||
        block->samples_from_unix_ns >= scan->answer.to)
        return 0;
    int outcome = reader_match_block(scan, block);
    if (outcome <= 0)
        return outcome;
    int error = reader_scan_spans(scan, block);
    return error ? error : reader_scan_groups(scan, block, tell_group, reporting);
}

static int tell_all(struct reporting *reporting)
{
    struct reader_scan *scan = reporting->scan;
    int error = 0;
    for (size_t i = 0; i < scan->n_blocks && !error && reader_scan_goes_on(scan); i++)
        error = reader_scan_left_out(scan, report_block(reporting, &scan->blocks[i]));
    return error == STOPPED_BY_VISITOR ? reporting->outcome : error;
}

int history_each(struct history_reader *reader, const struct history_filter *filter,
                 history_visit *visit, void *context, struct history_whole *whole)
{
    DB_THREAD(reader->db);
    struct reader_scan scan;
    struct reporting reporting = {.scan = &scan, .visit = visit, .context = context};
    *whole = (struct history_whole){0};
    int error = reader_begin(reader);
    if (!error) {
        error = reader_scan_open(&scan, reader, filter);
        scan.by_minutes = false;
        error = error ? error : tell_all(&reporting);
        *whole = (struct history_whole){.from_unix_ns = scan.answer.from,
                                        .to_unix_ns = scan.answer.to,
                                        .period_ns = reader_periods_most(&reporting.periods),
                                        .complete = scan.complete};
        reader_scan_close(&scan);
    }
    reader_end(reader);
    return error;
}
