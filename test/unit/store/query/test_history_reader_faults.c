/* SPDX-License-Identifier: Apache-2.0 */
/* Each question while the n-th allocation fails: it is said, and the next question is answered. */
#include "store/query/history_reader.h"
#include "test/support/faults/aborts.h"
#include "test/support/faults/fail_alloc.h"
#include "test/support/fixtures/history_truth.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define FAULTS_MAX 2000

struct told { /* of an answer, by which two can be told apart */
    uint64_t n, samples, cpu_ns;
    bool complete;
};

struct asked {
    struct truth *truth;
    struct history_reader *reader;
    struct arena arena;
};

typedef int question(struct asked *asked, struct told *told);

static int profile(struct asked *asked, struct told *told)
{
    const struct history_filter filter = {.function = BYTES_LIT("leaf_1"),
                                          .min_duration_ns = FIXTURE_SECOND};
    struct history_profile profile;
    int error = history_profile(asked->reader, &filter, &asked->arena, &profile);
    *told = (struct told){profile.n, profile.samples, profile.cpu_ns, profile.complete};
    return error;
}

static int frames(struct asked *asked, struct told *told)
{
    const struct history_frame *const *frames;
    size_t n;
    int error = history_frames(asked->reader, asked->truth->stacks[3], &frames, &n);
    *told = (struct told){.n = n, .complete = n == 3};
    return error;
}

static int groups(struct asked *asked, struct told *told)
{
    const struct history_filter filter = {.service = BYTES_LIT("shop")};
    struct history_groups groups;
    int error = history_groups(asked->reader, &filter, HISTORY_BY_SPAN, 10, &asked->arena, &groups);
    *told = (struct told){groups.n, groups.samples, groups.cpu_ns, groups.complete};
    return error;
}

static int traces_in(struct asked *asked, struct told *told, enum history_order order)
{
    const struct history_filter filter = {.span_name = BYTES_LIT("SELECT"),
                                          .thread = BYTES_LIT("worker")};
    struct history_traces traces;
    int error = history_traces(asked->reader, &filter, order, 10, &asked->arena, &traces);
    *told = (struct told){.n = traces.n, .complete = traces.complete};
    for (size_t i = 0; !error && i < traces.n; i++) {
        told->samples += traces.traces[i].samples;
        told->cpu_ns += traces.traces[i].cpu_ns;
    }
    return error;
}

static int slowest(struct asked *asked, struct told *told)
{
    return traces_in(asked, told, HISTORY_SLOWEST);
}

static int latest(struct asked *asked, struct told *told)
{
    return traces_in(asked, told, HISTORY_LATEST);
}

static int trace(struct asked *asked, struct told *told)
{
    struct history_filter filter = {.by_trace = true};
    struct history_trace trace;
    memcpy(filter.trace_id, asked->truth->spans[0].span.trace_id, 16);
    int error = history_trace(asked->reader, &filter, &asked->arena, &trace);
    *told = (struct told){trace.n_spans, trace.samples, trace.cpu_ns, trace.complete};
    return error == -ENOENT && !trace.complete ? 0 : error; /* not found for want of memory */
}

static int scrape(struct asked *asked, struct told *told)
{
    const struct history_filter filter = {.to_unix_ns = TRUTH_T0 + HISTORY_MINUTE_NS};
    struct history_scrape scrape = {.max_bytes = 1 << 20, .scope_version = "0"};
    struct buf body _cleanup_buf_ = {0};
    int error = history_scrape(asked->reader, &filter, &scrape, &body);
    *told = (struct told){.n = 1, .samples = scrape.samples, .complete = !scrape.more};
    return error;
}

static void open_reader(struct asked *asked, struct truth *truth)
{
    *asked = (struct asked){.truth = truth};
    assert_int_equal(history_reader_open(truth->rig->db, &asked->reader), 0);
    arena_init(&asked->arena, 1 << 20);
}

static void close_reader(struct asked *asked)
{
    history_reader_close(asked->reader);
    arena_close(&asked->arena);
}

static bool same(const struct told *a, const struct told *b)
{
    return a->n == b->n && a->samples == b->samples && a->cpu_ns == b->cpu_ns;
}

/* False: it takes fewer allocations than n. */
static bool fail_at(struct truth *truth, question *ask, unsigned n, const struct told *expected)
{
    struct asked asked;
    struct told told = {0};
    open_reader(&asked, truth);
    fail_alloc_at(n);
    int error = ask(&asked, &told);
    bool hit = fail_alloc_hit();
    assert_true(error == 0 || error == -ENOMEM);
    if (!error && told.complete)
        assert_true(same(&told, expected));
    arena_reset(&asked.arena);
    assert_int_equal(ask(&asked, &told), 0);
    assert_true(told.complete && same(&told, expected));
    close_reader(&asked);
    return hit;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    static question *const questions[] = {profile, frames, groups, slowest, latest, trace, scrape};
    struct truth *truth = truth_make(5);
    for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++) {
        struct asked asked;
        struct told expected;
        open_reader(&asked, truth);
        assert_int_equal(questions[i](&asked, &expected), 0);
        assert_true(expected.complete && expected.n);
        close_reader(&asked);
        unsigned n = 1;
        while (n < FAULTS_MAX && fail_at(truth, questions[i], n, &expected))
            n += 1 + n / 16; /* the first ones each */
        assert_in_range(n, 3, FAULTS_MAX);
    }
    truth_close(truth);
}

static void opening_may_fail(void **state)
{
    (void)state;
    struct truth *truth = truth_make(5);
    bool hit = true;
    for (unsigned n = 1; hit; n++) {
        struct history_reader *reader = NULL;
        fail_alloc_at(n);
        int error = history_reader_open(truth->rig->db, &reader);
        hit = fail_alloc_hit();
        assert_true(hit ? error == -ENOMEM : !error);
        if (!error)
            history_reader_close(reader);
    }
    truth_close(truth);
}

static void *read_frames_main(void *context)
{
    struct history_reader *reader = context;
    const struct history_frame *const *frames;
    size_t n;
    history_frames(reader, 1, &frames, &n);
    return NULL;
}

static void read_frames_elsewhere(void *context)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_frames_main, context), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_reader_belongs_to_one_thread(void **state)
{
    (void)state;
    struct truth *truth = truth_make(5);
    read_frames_main(truth->rig->reader);
    assert_true(aborts(read_frames_elsewhere, truth->rig->reader));
    truth_close(truth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(opening_may_fail),
        cmocka_unit_test(a_reader_belongs_to_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
