/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/history_truth.h"
#include "proto/otlp/otlp_spans.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define TRACES     150
#define SPANS_MAX  2000
#define LOOSE      600 /* samples without a context */
#define BLOCK_NS   (5 * FIXTURE_SECOND)
#define MS         (FIXTURE_SECOND / 1000)
#define ATTRIBUTES 9 /* field of Span */

unsigned truth_random(struct truth *truth, unsigned below)
{
    truth->seed = truth->seed * 1664525 + 1013904223;
    return (unsigned)((uint64_t)(truth->seed >> 8) * below >> 24);
}

const char *truth_service(unsigned service)
{
    static const char *const names[TRUTH_SERVICES] = {"shop", "tax", "mail"};
    return names[service];
}

const char *truth_name(unsigned name)
{
    static const char *const names[TRUTH_NAMES] = {"GET /buy", "sum up", "SELECT"};
    return names[name];
}

const char *truth_thread(unsigned thread)
{
    return thread ? "worker" : "main";
}

uint32_t truth_pid(unsigned service)
{
    return 100 + service;
}

const char *truth_container(unsigned service)
{
    return service ? "b0b" : "";
}

static void function_names(unsigned stack, char names[3][16])
{
    snprintf(names[0], 16, "leaf_%u", stack % 4);
    snprintf(names[1], 16, "mid_%u", stack % 3);
    snprintf(names[2], 16, "main");
}

bool truth_stack_has(unsigned stack, struct bytes function, bool *self)
{
    char names[3][16];
    function_names(stack, names);
    for (unsigned i = 0; i < 3; i++) {
        if (!bytes_is(function, names[i]))
            continue;
        *self = i == 0;
        return true;
    }
    return false;
}

static void make_stacks(struct truth *truth)
{
    struct stacks *stacks = store_stacks(truth->rig->fixture.store);
    fixture_begin(&truth->rig->fixture);
    for (unsigned n = 0; n < TRUTH_STACKS; n++) {
        const struct frame *frames;
        char names[3][16];
        size_t n_frames;
        truth->stacks[n] = fixture_stack(&truth->rig->fixture, n);
        assert_int_equal(stacks_frames(stacks, truth->stacks[n], &frames, &n_frames), 0);
        function_names(n, names);
        for (size_t i = 0; i < 3; i++) {
            const struct frame_name name = {.address = frames[i].address,
                                            .function = BYTES_STR(names[i])};
            assert_int_equal(stacks_set_names(stacks, frames[i].executable, &name, 1), 0);
        }
    }
    fixture_commit(&truth->rig->fixture);
}

static int64_t series_of(struct truth *truth, unsigned service, int name, int thread)
{
    const struct rig_series series = {
        .service = truth_service(service),
        .span_name = name < 0 ? NULL : truth_name((unsigned)name),
        .thread = thread < 0 ? NULL : truth_thread((unsigned)thread),
        .container = truth_container(service),
        .executable = truth_service(service),
        .pid = thread < 0 ? 0 : truth_pid(service),
        .span_kind = name < 0 ? 0 : SPAN_SERVER,
        .sample_kind = thread < 0 ? 0 : SAMPLE_CPU,
    };
    return history_rig_series(truth->rig, &series);
}

static void id_of(unsigned n, uint8_t *id, size_t size)
{
    memset(id, 0, size);
    memcpy(id, &(uint32_t){n * 2654435761u}, 4);
    memcpy(id + size - 4, &n, 4);
}

static unsigned add_span(struct truth *truth, unsigned trace, unsigned parent, uint64_t start,
                         uint64_t duration)
{
    struct truth_span *added = &truth->spans[truth->n_spans++];
    *added = (struct truth_span){.trace = trace, .parent = parent};
    added->service = truth_random(truth, TRUTH_SERVICES);
    added->name = truth_random(truth, TRUTH_NAMES);
    snprintf(added->route, sizeof(added->route), "/r%u", truth_random(truth, 3));
    added->span.series = series_of(truth, added->service, (int)added->name, -1);
    added->span.start_unix_ns = start;
    added->span.duration_ns = duration;
    added->span.local_root = !parent;
    added->span.error = truth_random(truth, 10) == 0;
    id_of(trace + 1, added->span.trace_id, 16);
    id_of((unsigned)truth->n_spans, added->span.span_id, 8);
    if (parent)
        memcpy(added->span.parent_id, truth->spans[parent - 1].span.span_id, 8);
    added->comes_unix_ns = start + duration + truth_random(truth, 8000) * MS;
    return (unsigned)truth->n_spans;
}

static void add_sample(struct truth *truth, int span, uint64_t time)
{
    const struct truth_span *of = span < 0 ? NULL : &truth->spans[span];
    struct truth_sample *added = &truth->samples[truth->n_samples++];
    *added = (struct truth_sample){.span = span,
                                   .service = of ? of->service : truth_random(truth, 3),
                                   .thread = truth_random(truth, TRUTH_THREADS),
                                   .stack = truth_random(truth, TRUTH_STACKS)};
    struct history_sample *sample = &added->sample;
    sample->series = series_of(truth, added->service, of ? (int)of->name : -1, (int)added->thread);
    sample->stack = truth->stacks[added->stack];
    sample->time_unix_ns = time - time % HISTORY_TICK_NS;
    sample->value_ns = sample->period_ns = FIXTURE_TICK;
    sample->context.span = HISTORY_NO_SPAN;
    added->leaves_unix_ns = time + BLOCK_NS;
    if (!of)
        return;
    sample->context.joined = true;
    memcpy(sample->context.trace_id, of->span.trace_id, 16);
    memcpy(sample->context.span_id, of->span.span_id, 8);
    if (added->leaves_unix_ns < of->comes_unix_ns)
        added->leaves_unix_ns = of->comes_unix_ns;
    truth->spans[span].span.samples++;
    truth->spans[span].span.cpu_ns += sample->value_ns;
}

static void add_trace(struct truth *truth, unsigned trace)
{
    uint64_t longest = truth_random(truth, 10) ? 3000 : 120000;
    uint64_t start = TRUTH_T0 + truth_random(truth, TRUTH_MINUTES * 60000) * MS;
    uint64_t duration = (1 + truth_random(truth, (unsigned)longest)) * MS;
    unsigned first = (unsigned)truth->n_spans, n = truth_random(truth, 6);
    add_span(truth, trace, 0, start, duration);
    for (unsigned i = 0; i < n; i++) {
        unsigned parent = first + 1 + truth_random(truth, i + 1);
        const struct history_block_span *above = &truth->spans[parent - 1].span;
        uint64_t part = above->duration_ns / 4 * truth_random(truth, 4);
        add_span(truth, trace, parent, above->start_unix_ns + part / 2, above->duration_ns - part);
    }
    for (size_t i = first; i < truth->n_spans; i++) {
        uint64_t length = truth->spans[i].span.duration_ns;
        for (unsigned k = truth_random(truth, 30); k; k--)
            add_sample(truth, (int)i,
                       truth->spans[i].span.start_unix_ns +
                           length / 1000 * truth_random(truth, 1000));
    }
}

static void put_attributes(const struct truth_span *span, struct buf *out)
{
    const struct bytes route = BYTES_STR(span->route);
    assert_int_equal(otlp_attribute_string(out, ATTRIBUTES, "http.route", route), 0);
    assert_int_equal(otlp_attribute_int(out, ATTRIBUTES, "size", span->trace), 0);
}

static void put_span(struct truth *truth, const struct truth_span *span)
{
    struct buf attributes _cleanup_buf_ = {0};
    put_attributes(span, &attributes);
    history_rig_span(truth->rig, &span->span, buf_bytes(&attributes));
}

static void put_sample(struct truth *truth, const struct truth_sample *sample, uint64_t from)
{
    struct buf attributes _cleanup_buf_ = {0};
    if (sample->span >= 0 && truth->spans[sample->span].comes_unix_ns < from)
        put_attributes(&truth->spans[sample->span], &attributes);
    history_rig_sample(truth->rig, &sample->sample, buf_bytes(&attributes));
}

/* What came or left in [from, to). */
static void put_block(struct truth *truth, uint64_t from, uint64_t to)
{
    for (size_t i = 0; i < truth->n_spans; i++)
        if (truth->spans[i].comes_unix_ns >= from && truth->spans[i].comes_unix_ns < to)
            put_span(truth, &truth->spans[i]);
    for (size_t i = 0; i < truth->n_samples; i++)
        if (truth->samples[i].leaves_unix_ns >= from && truth->samples[i].leaves_unix_ns < to)
            put_sample(truth, &truth->samples[i], from);
    history_rig_block(truth->rig, to);
}

struct truth *truth_make(unsigned seed)
{
    struct truth *truth = calloc(1, sizeof(*truth));
    assert_non_null(truth);
    truth->seed = seed;
    truth->rig = history_rig_open();
    truth->spans = calloc(SPANS_MAX, sizeof(*truth->spans));
    truth->samples = calloc(SPANS_MAX * 30 + LOOSE, sizeof(*truth->samples));
    assert_true(truth->spans && truth->samples);
    make_stacks(truth);
    fixture_begin(&truth->rig->fixture);
    for (truth->n_traces = 0; truth->n_traces < TRACES; truth->n_traces++)
        add_trace(truth, (unsigned)truth->n_traces);
    for (unsigned i = 0; i < LOOSE; i++)
        add_sample(truth, -1, TRUTH_T0 + truth_random(truth, TRUTH_MINUTES * 60000) * MS);
    truth->end_unix_ns = TRUTH_T0 + (TRUTH_MINUTES + 3) * HISTORY_MINUTE_NS + 17 * FIXTURE_SECOND;
    unsigned n = 0;
    for (uint64_t time = TRUTH_T0; time < truth->end_unix_ns; time += BLOCK_NS) {
        put_block(truth, time, time + BLOCK_NS);
        if (++n % 12 == 0) /* the latest blocks are in no minute */
            history_rig_minutes(truth->rig, time + BLOCK_NS);
    }
    fixture_commit(&truth->rig->fixture);
    return truth;
}

void truth_close(struct truth *truth)
{
    history_rig_close(truth->rig);
    free(truth->spans);
    free(truth->samples);
    free(truth);
}

/* The answer, by going through everything */

uint64_t truth_longest(const struct truth *truth, unsigned trace)
{
    uint64_t longest = 0;
    for (size_t i = 0; i < truth->n_spans; i++)
        if (truth->spans[i].trace == trace && truth->spans[i].span.duration_ns > longest)
            longest = truth->spans[i].span.duration_ns;
    return longest;
}

static bool is_below(const struct truth *truth, const struct truth_span *span, const uint8_t id[8])
{
    for (; memcmp(span->span.span_id, id, 8) != 0; span = &truth->spans[span->parent - 1])
        if (!span->parent)
            return false;
    return true;
}

static bool span_passes(const struct truth *truth, const struct history_filter *filter,
                        const struct truth_span *span)
{
    char number[16];
    uint64_t longest = truth_longest(truth, span->trace);
    snprintf(number, sizeof(number), "%u", span->trace);
    if (filter->by_trace && memcmp(filter->trace_id, span->span.trace_id, 16) != 0)
        return false;
    if (filter->by_span && filter->alone && memcmp(filter->span_id, span->span.span_id, 8) != 0)
        return false;
    if (filter->by_span && !filter->alone && !is_below(truth, span, filter->span_id))
        return false;
    if (longest < filter->min_duration_ns ||
        (filter->max_duration_ns && longest > filter->max_duration_ns))
        return false;
    for (size_t i = 0; i < filter->n_attributes; i++) {
        const struct history_pair *pair = &filter->attributes[i];
        const char *value = bytes_is(pair->key, "size")         ? number
                            : bytes_is(pair->key, "http.route") ? span->route
                                                                : "";
        if (!bytes_is(pair->value, value))
            return false;
    }
    return true;
}

static bool needs_span(const struct history_filter *filter)
{
    return filter->by_trace || filter->by_span || filter->min_duration_ns ||
           filter->max_duration_ns || filter->n_attributes;
}

bool truth_passes(const struct truth *truth, const struct history_filter *filter,
                  const struct truth_sample *sample)
{
    const struct truth_span *span = sample->span < 0 ? NULL : &truth->spans[sample->span];
    uint64_t time = sample->sample.time_unix_ns;
    bool self;
    if (time < filter->from_unix_ns || (filter->to_unix_ns && time >= filter->to_unix_ns))
        return false;
    if (filter->service.len && !bytes_is(filter->service, truth_service(sample->service)))
        return false;
    if (filter->span_name.len && (!span || !bytes_is(filter->span_name, truth_name(span->name))))
        return false;
    if (filter->thread.len && !bytes_is(filter->thread, truth_thread(sample->thread)))
        return false;
    if (filter->container.len && !bytes_is(filter->container, truth_container(sample->service)))
        return false;
    if (filter->host.len && !bytes_is(filter->host, RIG_HOST))
        return false;
    if (filter->pid && filter->pid != truth_pid(sample->service))
        return false;
    if (filter->function.len && !truth_stack_has(sample->stack, filter->function, &self))
        return false;
    return !needs_span(filter) || (span && span_passes(truth, filter, span));
}
