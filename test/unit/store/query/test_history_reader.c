/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a history of which everything is known. */
#include "store/query/history_reader.h"
#include "proto/otlp/otlp_spans.h"
#include "test/support/fixtures/history_truth.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define MINUTE HISTORY_MINUTE_NS
#define SECOND FIXTURE_SECOND

static int set_up(void **state)
{
    *state = truth_make(4711);
    return 0;
}

static int tear_down(void **state)
{
    truth_close(*state);
    return 0;
}

/* Some of all that a filter may have. Texts of attributes lie in `texts`. */
static struct history_filter random_filter(struct truth *truth, char texts[2][16])
{
    struct history_filter filter = {0};
    const struct truth_span *span = &truth->spans[truth_random(truth, (unsigned)truth->n_spans)];
    if (truth_random(truth, 3)) {
        filter.from_unix_ns = TRUTH_T0 + truth_random(truth, TRUTH_MINUTES * 60) * SECOND;
        filter.to_unix_ns =
            filter.from_unix_ns + (1 + truth_random(truth, TRUTH_MINUTES * 60)) * SECOND / 2;
    }
    if (!truth_random(truth, 3))
        filter.to_unix_ns = 0;
    if (!truth_random(truth, 3))
        filter.service = BYTES_STR(truth_service(span->service));
    if (!truth_random(truth, 4))
        filter.span_name = BYTES_STR(truth_name(span->name));
    const char *thread = truth_thread(truth_random(truth, 2));
    if (!truth_random(truth, 4))
        filter.thread = BYTES_STR(thread);
    if (!truth_random(truth, 6))
        filter.container = BYTES_LIT("b0b");
    if (!truth_random(truth, 6))
        filter.host = truth_random(truth, 4) ? BYTES_LIT(RIG_HOST) : BYTES_LIT("another");
    if (!truth_random(truth, 6))
        filter.pid = truth_pid(span->service);
    if (!truth_random(truth, 4))
        filter.function = truth_random(truth, 2) ? BYTES_LIT("leaf_1") : BYTES_LIT("mid_2");
    if (!truth_random(truth, 6))
        filter.min_duration_ns = truth_random(truth, 3000) * SECOND / 1000;
    if (!truth_random(truth, 6))
        filter.max_duration_ns = (1 + truth_random(truth, 3000)) * SECOND / 1000;
    filter.by_trace = !truth_random(truth, 6);
    filter.by_span = filter.by_trace && truth_random(truth, 2);
    filter.alone = truth_random(truth, 2);
    memcpy(filter.trace_id, span->span.trace_id, 16);
    memcpy(filter.span_id, span->span.span_id, 8);
    snprintf(texts[0], 16, "%s", span->route);
    snprintf(texts[1], 16, "%u", span->trace);
    if (!truth_random(truth, 6))
        filter.attributes[filter.n_attributes++] =
            (struct history_pair){BYTES_LIT("http.route"), BYTES_STR(texts[0])};
    if (!truth_random(truth, 10))
        filter.attributes[filter.n_attributes++] =
            (struct history_pair){BYTES_LIT("size"), BYTES_STR(texts[1])};
    return filter;
}

/* Profiles */

static uint64_t ns_of(const struct history_profile *profile, int64_t stack)
{
    for (size_t i = 0; i < profile->n; i++)
        if (profile->stacks[i].id == stack)
            return profile->stacks[i].cpu_ns;
    return 0;
}

static void check_profile(struct truth *truth, const struct history_filter *filter)
{
    struct history_profile profile;
    uint64_t samples = 0, of_stack[TRUTH_STACKS] = {0};
    arena_reset(&truth->rig->arena);
    assert_int_equal(history_profile(truth->rig->reader, filter, &truth->rig->arena, &profile), 0);
    for (size_t i = 0; i < truth->n_samples; i++) {
        if (!truth_passes(truth, filter, &truth->samples[i]))
            continue;
        samples++;
        of_stack[truth->samples[i].stack] += FIXTURE_TICK;
    }
    assert_true(profile.complete);
    assert_int_equal(profile.samples, samples);
    assert_int_equal(profile.cpu_ns, samples * FIXTURE_TICK);
    assert_int_equal(profile.period_ns, samples ? FIXTURE_TICK : 0);
    for (unsigned i = 0; i < TRUTH_STACKS; i++)
        assert_int_equal(ns_of(&profile, truth->stacks[i]), of_stack[i]);
    for (size_t i = 1; i < profile.n; i++)
        assert_true(profile.stacks[i - 1].cpu_ns >= profile.stacks[i].cpu_ns);
}

static void profiles_are_what_was_sampled(void **state)
{
    struct truth *truth = *state;
    char texts[2][16];
    check_profile(truth, &(struct history_filter){0});
    for (int i = 0; i < 250; i++) {
        struct history_filter filter = random_filter(truth, texts);
        check_profile(truth, &filter);
    }
}

static void a_profile_tells_its_range(void **state)
{
    struct truth *truth = *state;
    struct history_profile profile;
    struct history_filter filter = {0};
    assert_int_equal(history_profile(truth->rig->reader, &filter, &truth->rig->arena, &profile), 0);
    assert_in_range(profile.from_unix_ns, TRUTH_T0 - SECOND, TRUTH_T0 + MINUTE);
    assert_in_range(profile.to_unix_ns, truth->end_unix_ns - 5 * SECOND,
                    truth->end_unix_ns + 5 * SECOND);
    filter.from_unix_ns = TRUTH_T0 + 2 * MINUTE + SECOND;
    filter.to_unix_ns = TRUTH_T0 + 3 * MINUTE + SECOND;
    assert_int_equal(history_profile(truth->rig->reader, &filter, &truth->rig->arena, &profile), 0);
    assert_int_equal(profile.from_unix_ns, filter.from_unix_ns);
    assert_int_equal(profile.to_unix_ns, filter.to_unix_ns);
    filter.to_unix_ns = filter.from_unix_ns - MINUTE;
    assert_int_equal(history_profile(truth->rig->reader, &filter, &truth->rig->arena, &profile), 0);
    assert_int_equal(profile.samples, 0);
}

/* Groups */

static const struct history_series *series_of(const struct history_groups *groups,
                                              const char *service, const char *name, uint32_t pid)
{
    for (size_t i = 0; i < groups->n; i++)
        if (bytes_is(groups->series[i].service, service) &&
            bytes_is(groups->series[i].name, name) && groups->series[i].pid == pid)
            return &groups->series[i];
    return NULL;
}

struct named {
    const char *service, *name;
    uint32_t pid;
};

static struct named named_by(const struct truth *truth, enum history_group by,
                             const struct truth_sample *sample)
{
    const char *span = sample->span < 0 ? "" : truth_name(truth->spans[sample->span].name);
    const char *service = truth_service(sample->service);
    switch (by) {
    case HISTORY_BY_SPAN:
        return (struct named){service, span, 0};
    case HISTORY_BY_SPAN_NAME:
        return (struct named){"", span, 0};
    case HISTORY_BY_THREAD:
        return (struct named){"", truth_thread(sample->thread), 0};
    case HISTORY_BY_CONTAINER:
        return (struct named){"", truth_container(sample->service), 0};
    case HISTORY_BY_PROCESS:
        return (struct named){service, service, truth_pid(sample->service)};
    case HISTORY_BY_HOST:
        return (struct named){"", RIG_HOST, 0};
    default:
        return (struct named){"", service, 0};
    }
}

/* Takes each sample away from where it should have been counted: nothing is left. */
static void check_groups(struct truth *truth, const struct history_filter *filter,
                         enum history_group by, size_t n_buckets)
{
    struct history_groups groups;
    uint64_t cpu = 0;
    bool self;
    arena_reset(&truth->rig->arena);
    assert_int_equal(
        history_groups(truth->rig->reader, filter, by, n_buckets, &truth->rig->arena, &groups), 0);
    assert_true(groups.complete && groups.n_buckets <= n_buckets);
    for (size_t i = 0; i < truth->n_samples; i++) {
        const struct truth_sample *sample = &truth->samples[i];
        if (!truth_passes(truth, filter, sample))
            continue;
        struct named named = named_by(truth, by, sample);
        struct history_series *series =
            (struct history_series *)series_of(&groups, named.service, named.name, named.pid);
        assert_non_null(series);
        cpu += FIXTURE_TICK;
        series->cpu_ns -= FIXTURE_TICK;
        series->samples--;
        if (filter->function.len && truth_stack_has(sample->stack, filter->function, &self) && self)
            series->self_ns -= FIXTURE_TICK;
        if (!groups.n_buckets)
            continue;
        uint64_t bucket = (sample->sample.time_unix_ns - groups.from_unix_ns) / groups.bucket_ns;
        assert_true(bucket < groups.n_buckets);
        series->buckets[bucket] -= FIXTURE_TICK;
    }
    assert_int_equal(groups.cpu_ns, cpu);
    for (size_t i = 0; i < groups.n; i++) {
        const struct history_series *series = &groups.series[i];
        assert_int_equal(series->cpu_ns | series->samples | series->self_ns, 0);
        for (size_t k = 0; k < groups.n_buckets; k++)
            assert_int_equal(series->buckets[k], 0);
    }
}

static void groups_are_what_was_sampled(void **state)
{
    struct truth *truth = *state;
    char texts[2][16];
    for (int i = 0; i < 200; i++) {
        struct history_filter filter = random_filter(truth, texts);
        check_groups(truth, &filter, (enum history_group)(i % 7),
                     i % 3 ? truth_random(truth, 100) : 0);
    }
}

static void a_payer_has_an_example_and_its_route(void **state)
{
    struct truth *truth = *state;
    struct history_groups groups;
    const struct history_filter filter = {.function = BYTES_LIT("leaf_1")};
    assert_int_equal(history_groups(truth->rig->reader, &filter, HISTORY_BY_SPAN, 0,
                                    &truth->rig->arena, &groups),
                     0);
    assert_true(groups.n > 5);
    for (size_t i = 0; i < groups.n; i++) {
        const struct history_series *series = &groups.series[i];
        assert_int_equal(series->route.len, 0); /* each has several */
        assert_int_equal(bytes_zero(series->example_trace_id, 16), series->name.len == 0);
        struct history_filter of_example = filter;
        of_example.by_trace = true;
        memcpy(of_example.trace_id, series->example_trace_id, 16);
        of_example.service = series->service;
        of_example.span_name = series->name;
        bool found = series->name.len == 0;
        for (size_t k = 0; k < truth->n_samples && !found; k++)
            found = truth_passes(truth, &of_example, &truth->samples[k]);
        assert_true(found);
    }
}

static void texts_are_those_of_the_range(void **state)
{
    struct truth *truth = *state;
    const struct history_filter filter = {.from_unix_ns = TRUTH_T0 + MINUTE,
                                          .to_unix_ns = TRUTH_T0 + 10 * MINUTE};
    static const size_t expected[] = {[HISTORY_SERVICES] = 3,
                                      [HISTORY_SPAN_NAMES] = 3,
                                      [HISTORY_THREADS] = 2,
                                      [HISTORY_CONTAINERS] = 1,
                                      [HISTORY_HOSTS] = 1};
    struct bytes *texts;
    size_t n;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(history_texts(truth->rig->reader, &filter, (enum history_text)i,
                                       &truth->rig->arena, &texts, &n),
                         0);
        assert_int_equal(n, expected[i]);
    }
    assert_true(bytes_is(texts[0], RIG_HOST));
}

/* Traces */

struct expected_trace {
    unsigned trace;
    uint64_t longest_ns, start_unix_ns, cpu_ns, samples;
    uint32_t n_spans;
    uint64_t slowest_ns; /* of the spans that were asked for */
    bool error, passes;
};

static bool span_is_asked_for(const struct history_filter *filter, const struct truth_span *span)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", span->trace);
    for (size_t i = 0; i < filter->n_attributes; i++) {
        const struct history_pair *pair = &filter->attributes[i];
        if (!bytes_is(pair->value, bytes_is(pair->key, "size") ? number : span->route))
            return false;
    }
    return (!filter->host.len || bytes_is(filter->host, RIG_HOST)) &&
           (!filter->service.len || bytes_is(filter->service, truth_service(span->service))) &&
           (!filter->span_name.len || bytes_is(filter->span_name, truth_name(span->name))) &&
           (!filter->container.len || bytes_is(filter->container, truth_container(span->service)));
}

static void expect_trace(const struct truth *truth, const struct history_filter *filter,
                         struct expected_trace *expected)
{
    const struct truth_span *longest = NULL;
    for (size_t i = 0; i < truth->n_spans; i++) {
        const struct truth_span *span = &truth->spans[i];
        if (span->trace != expected->trace)
            continue;
        expected->n_spans++;
        expected->cpu_ns += span->span.cpu_ns;
        expected->samples += span->span.samples;
        expected->error |= span->span.error;
        bool is_asked_for = span_is_asked_for(filter, span);
        expected->passes |= is_asked_for;
        if (is_asked_for && expected->slowest_ns < span->span.duration_ns)
            expected->slowest_ns = span->span.duration_ns;
        if (!longest || longest->span.duration_ns < span->span.duration_ns)
            longest = span;
    }
    assert_non_null(longest);
    expected->longest_ns = longest->span.duration_ns;
    expected->start_unix_ns = longest->span.start_unix_ns;
    expected->passes &=
        expected->longest_ns >= filter->min_duration_ns &&
        (!filter->max_duration_ns || expected->longest_ns <= filter->max_duration_ns);
}

static uint64_t rank_of(enum history_order order, const struct history_trace_summary *trace)
{
    return order == HISTORY_SLOWEST  ? trace->duration_ns
           : order == HISTORY_LATEST ? trace->start_unix_ns
                                     : trace->cpu_ns;
}

static uint64_t chosen_by(enum history_order order, const struct expected_trace *trace)
{
    return order == HISTORY_SLOWEST  ? trace->slowest_ns
           : order == HISTORY_LATEST ? trace->start_unix_ns
                                     : trace->cpu_ns;
}

static unsigned number_of(const struct truth *truth, const uint8_t trace_id[16])
{
    for (size_t i = 0; i < truth->n_spans; i++)
        if (!memcmp(truth->spans[i].span.trace_id, trace_id, 16))
            return truth->spans[i].trace;
    fail();
    return 0;
}

static void check_traces(struct truth *truth, const struct history_filter *filter,
                         enum history_order order, size_t limit)
{
    struct history_traces traces;
    uint64_t least = UINT64_MAX; /* in the answer */
    size_t n = 0, better = 0;
    arena_reset(&truth->rig->arena);
    assert_int_equal(
        history_traces(truth->rig->reader, filter, order, limit, &truth->rig->arena, &traces), 0);
    assert_true(traces.complete && traces.n <= limit);
    for (size_t i = 0; i < traces.n; i++) {
        const struct history_trace_summary *trace = &traces.traces[i];
        struct expected_trace expected = {.trace = number_of(truth, trace->trace_id)};
        expect_trace(truth, filter, &expected);
        assert_true(expected.passes);
        assert_int_equal(trace->duration_ns, expected.longest_ns);
        assert_int_equal(trace->n_spans, expected.n_spans);
        assert_int_equal(trace->cpu_ns, expected.cpu_ns);
        assert_int_equal(trace->samples, expected.samples);
        assert_int_equal(trace->error, expected.error);
        assert_int_equal(trace->top_function.len != 0, expected.samples != 0);
        if (i)
            assert_true(rank_of(order, trace - 1) >= rank_of(order, trace));
        if (least > chosen_by(order, &expected))
            least = chosen_by(order, &expected);
    }
    for (unsigned i = 0; i < truth->n_traces; i++) {
        struct expected_trace expected = {.trace = i};
        expect_trace(truth, filter, &expected);
        n += expected.passes;
        better += expected.passes && chosen_by(order, &expected) > least;
    }
    assert_int_equal(traces.n, n < limit ? n : limit);
    assert_true(better < limit);
}

static void traces_are_found_in_each_order(void **state)
{
    struct truth *truth = *state;
    char texts[2][16];
    for (int i = 0; i < 150; i++) {
        struct history_filter filter = random_filter(truth, texts);
        filter.from_unix_ns = filter.to_unix_ns = 0;
        filter.by_trace = filter.by_span = false;
        filter.function = filter.thread = BYTES(NULL, 0);
        filter.pid = 0;
        check_traces(truth, &filter, (enum history_order)(i % 3), 1 + truth_random(truth, 170));
    }
}

static void traces_may_be_asked_for_by_their_samples(void **state)
{
    struct truth *truth = *state;
    const struct history_filter filter = {
        .function = BYTES_LIT("leaf_1"), .thread = BYTES_LIT("worker"), .min_duration_ns = SECOND};
    struct history_traces traces;
    size_t n = 0;
    assert_int_equal(history_traces(truth->rig->reader, &filter, HISTORY_SLOWEST, 1000,
                                    &truth->rig->arena, &traces),
                     0);
    for (unsigned i = 0; i < truth->n_traces; i++) {
        bool found = false;
        for (size_t k = 0; k < truth->n_samples && !found; k++) {
            const struct truth_sample *sample = &truth->samples[k];
            found = sample->span >= 0 && truth->spans[sample->span].trace == i &&
                    truth_passes(truth, &filter, sample);
        }
        n += found;
    }
    assert_true(n > 0);
    assert_int_equal(traces.n, n);
}

static void traces_of_a_range_are_those_that_ran_in_it(void **state)
{
    struct truth *truth = *state;
    const struct history_filter filter = {.from_unix_ns = TRUTH_T0 + 5 * MINUTE,
                                          .to_unix_ns = TRUTH_T0 + 6 * MINUTE};
    struct history_traces traces;
    size_t n = 0;
    for (int order = HISTORY_SLOWEST; order <= HISTORY_MOST_CPU; order++) {
        assert_int_equal(history_traces(truth->rig->reader, &filter, (enum history_order)order,
                                        1000, &truth->rig->arena, &traces),
                         0);
        n = 0;
        for (size_t i = 0; i < truth->n_spans; i++) {
            const struct truth_span *span = &truth->spans[i];
            n += !span->parent && span->span.start_unix_ns < filter.to_unix_ns &&
                 span->span.start_unix_ns + span->span.duration_ns >= filter.from_unix_ns;
        }
        assert_int_equal(traces.n, n);
    }
    assert_in_range(n, 2, truth->n_traces / 2);
}

/* One trace */

static void check_span(const struct truth *truth, const struct history_trace *trace, size_t i)
{
    const struct history_span *shown = &trace->spans[i];
    const struct truth_span *span = NULL;
    for (size_t k = 0; k < truth->n_spans && !span; k++)
        if (!memcmp(truth->spans[k].span.span_id, shown->span_id, 8))
            span = &truth->spans[k];
    assert_non_null(span);
    assert_true(shown->known);
    assert_true(bytes_is(shown->service, truth_service(span->service)));
    assert_true(bytes_is(shown->name, truth_name(span->name)));
    assert_int_equal(shown->kind, SPAN_SERVER);
    assert_int_equal(shown->error, span->span.error);
    assert_int_equal(shown->start_unix_ns, span->span.start_unix_ns);
    assert_int_equal(shown->duration_ns, span->span.duration_ns);
    assert_int_equal(shown->cpu_ns, span->span.cpu_ns);
    assert_int_equal(shown->samples, span->span.samples);
    assert_int_equal(shown->top_function.len != 0, shown->samples != 0);
    assert_int_equal(shown->n_attributes, 2);
    assert_true(bytes_is(shown->attributes[0].key, "http.route"));
    assert_true(bytes_is(shown->attributes[0].value, span->route));
    assert_true(bytes_is(shown->attributes[1].key, "size"));
    assert_memory_equal(shown->parent_id, span->span.parent_id, 8);
    bool is_behind = !span->parent;
    for (size_t k = 0; k < i; k++)
        is_behind |= !memcmp(trace->spans[k].span_id, shown->parent_id, 8);
    assert_true(is_behind);
}

/* Each sample lies in a piece, pieces are apart, and no longer than their samples. */
static void check_busy(const struct truth *truth, const struct history_span *shown)
{
    uint64_t length = 0, samples = 0;
    for (size_t i = 0; i < shown->n_busy; i++) {
        const struct history_busy *busy = &shown->busy[i];
        length += busy->length_ns;
        assert_true(busy->length_ns && busy->offset_ns + busy->length_ns <= shown->duration_ns);
        if (i)
            assert_true(busy->offset_ns > busy[-1].offset_ns + busy[-1].length_ns);
    }
    for (size_t i = 0; i < truth->n_samples; i++) {
        const struct history_sample *sample = &truth->samples[i].sample;
        if (memcmp(sample->context.span_id, shown->span_id, 8) != 0 || truth->samples[i].span < 0)
            continue;
        samples++;
        if (sample->time_unix_ns <= shown->start_unix_ns)
            continue;
        uint64_t offset = sample->time_unix_ns - shown->start_unix_ns;
        bool found = false;
        for (size_t k = 0; k < shown->n_busy && !found; k++)
            found = offset > shown->busy[k].offset_ns &&
                    offset <= shown->busy[k].offset_ns + shown->busy[k].length_ns;
        assert_true(found);
    }
    assert_true(length <= samples * FIXTURE_TICK);
}

static void a_trace_is_whole(void **state)
{
    struct truth *truth = *state;
    for (size_t i = 0; i < truth->n_spans; i++) {
        struct history_filter filter = {0};
        struct history_trace trace;
        uint64_t samples = 0;
        if (truth->spans[i].parent)
            continue;
        memcpy(filter.trace_id, truth->spans[i].span.trace_id, 16);
        arena_reset(&truth->rig->arena);
        assert_int_equal(history_trace(truth->rig->reader, &filter, &truth->rig->arena, &trace), 0);
        assert_true(trace.complete);
        assert_int_equal(trace.start_unix_ns, truth->spans[i].span.start_unix_ns);
        assert_int_equal(trace.duration_ns, truth->spans[i].span.duration_ns);
        for (size_t k = 0; k < trace.n_spans; k++) {
            check_span(truth, &trace, k);
            check_busy(truth, &trace.spans[k]);
            samples += trace.spans[k].samples;
        }
        assert_int_equal(trace.samples, samples);
        assert_int_equal(trace.cpu_ns, samples * FIXTURE_TICK);
    }
}

static void a_trace_that_is_not_kept_is_not_there(void **state)
{
    struct truth *truth = *state;
    const struct history_filter filter = {.trace_id = {1, 2, 3}};
    struct history_trace trace;
    assert_int_equal(history_trace(truth->rig->reader, &filter, &truth->rig->arena, &trace),
                     -ENOENT);
}

/* Limits */

static void without_time_an_answer_is_not_complete(void **state)
{
    struct truth *truth = *state;
    const struct history_filter filter = {0};
    struct history_profile profile;
    struct history_traces traces;
    struct history_groups groups;
    history_reader_set_time(truth->rig->reader, 0);
    assert_int_equal(history_profile(truth->rig->reader, &filter, &truth->rig->arena, &profile), 0);
    assert_int_equal(history_groups(truth->rig->reader, &filter, HISTORY_BY_SPAN, 10,
                                    &truth->rig->arena, &groups),
                     0);
    assert_int_equal(history_traces(truth->rig->reader, &filter, HISTORY_SLOWEST, 10,
                                    &truth->rig->arena, &traces),
                     0);
    assert_false(profile.complete || groups.complete || traces.complete);
    history_reader_set_time(truth->rig->reader, HISTORY_TIME_MAX_NS);
    check_profile(truth, &filter);
}

static void a_small_arena_is_said(void **state)
{
    struct truth *truth = *state;
    const struct history_filter filter = {0};
    struct history_traces traces;
    for (size_t size = 0; size < 40000; size += 1000) {
        struct arena arena;
        arena_init(&arena, size);
        int error =
            history_traces(truth->rig->reader, &filter, HISTORY_LATEST, 100, &arena, &traces);
        assert_true(error == -ENOMEM || (!error && traces.n == 100));
        arena_close(&arena);
    }
}

#define TEST(function) cmocka_unit_test(function)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(profiles_are_what_was_sampled),
        TEST(a_profile_tells_its_range),
        TEST(groups_are_what_was_sampled),
        TEST(a_payer_has_an_example_and_its_route),
        TEST(texts_are_those_of_the_range),
        TEST(traces_are_found_in_each_order),
        TEST(traces_may_be_asked_for_by_their_samples),
        TEST(traces_of_a_range_are_those_that_ran_in_it),
        TEST(a_trace_is_whole),
        TEST(a_trace_that_is_not_kept_is_not_there),
        TEST(without_time_an_answer_is_not_complete),
        TEST(a_small_arena_is_said),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
