/* SPDX-License-Identifier: Apache-2.0 */
/* Several requests of a signal under way; profiles, which are never joined, are a backlog at once.
 */
#include "base/clock.h"
#include "exporter/sender.h"
#include "test/support/rigs/exporter_rig.h"
#include "test/support/net/h2_end.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { CONSUMERS = 4 };

static const struct backend_answer silent = {.manner = BACKEND_SILENT};
static const struct backend_answer unavailable = {.status = GRPC_UNAVAILABLE, .message = "busy"};

/* Until its marks are written, too. */
static void stop(struct rig *rig)
{
    exporter_close(rig->exporter);
    rig->exporter = NULL;
    while (worker_queued(rig->writer))
        rig_pause(rig, 5);
}

static int setup(void **state)
{
    int error = exporter_rig_setup(state);
    if (error)
        return error;
    struct rig *rig = *state;
    stop(rig);
    rig->config.otlp.num_consumers = CONSUMERS;
    return 0;
}

/* All wait in the store before the first is sent. */
static void start_with(struct rig *rig, enum signal signal, int n)
{
    for (int i = 0; i < n; i++) {
        char body[16];
        snprintf(body, sizeof(body), "[%d]", i);
        rig_put(rig, signal, body);
    }
    exporter_rig_start(rig);
}

/* How many of the backend's requests have that text in their message. */
static size_t count(const struct rig *rig, const char *text)
{
    size_t n = 0;
    struct backend_request *request;
    for (size_t i = 0; (request = backend_request(&rig->backend, "", i)); i++)
        n += memmem(request->reader.message.data, request->reader.message.len, text,
                    strlen(text)) != NULL;
    return n;
}

static void assert_all_came(const struct rig *rig, int n, size_t times)
{
    for (int i = 0; i < n; i++) {
        char body[16];
        snprintf(body, sizeof(body), "[%d]", i);
        assert_in_range(count(rig, body), 1, times);
    }
}

static bool all_came(const struct rig *rig, int n)
{
    for (int i = 0; i < n; i++) {
        char body[16];
        snprintf(body, sizeof(body), "[%d]", i);
        if (!count(rig, body))
            return false;
    }
    return true;
}

/* ---- how many at a time ---- */

static void test_so_many_and_no_more(void **state)
{
    struct rig *rig = *state;
    rig->config.otlp.timeout_ns = 2000 * NS_PER_MS;
    backend_rule(&rig->backend, PROFILES, CONSUMERS, silent);
    start_with(rig, SIGNAL_PROFILES, 10);
    rig_await(rig, PROFILES, CONSUMERS - 1);
    rig_pause(rig, 300);
    assert_int_equal(rig->backend.n_requests, CONSUMERS);
    rig_await_empty(rig);
    assert_int_equal(rig->backend.n_requests, 10 + CONSUMERS); /* those without an answer twice */
    assert_all_came(rig, 10, 1 + CONSUMERS);
}

/* What one request can hold waits for the one under way. */
static void test_a_trickle_is_joined(void **state)
{
    struct rig *rig = *state;
    rig->config.otlp.timeout_ns = 2000 * NS_PER_MS;
    backend_rule(&rig->backend, TRACES, 1, silent);
    start_with(rig, SIGNAL_TRACES, 1);
    rig_await(rig, TRACES, 0);
    for (int i = 0; i < 10; i++)
        rig_put(rig, SIGNAL_TRACES, "later");
    rig_pause(rig, 300);
    assert_int_equal(rig->backend.n_requests, 1);
    rig_await_empty(rig);
    assert_in_range(rig->backend.n_requests, 3, 4);
    assert_int_equal(count(rig, "later"), 1);
}

/* The first after a silence leaves at once, also where others could follow it. */
static void test_the_first_leaves_at_once(void **state)
{
    struct rig *rig = *state;
    uint64_t least_ns = UINT64_MAX;
    exporter_rig_start(rig);
    for (size_t i = 0; i < 5; i++) {
        rig_pause(rig, 100);
        uint64_t put_ns = clock_monotonic_ns();
        rig_put(rig, SIGNAL_TRACES, "alone");
        uint64_t took_ns = rig_await(rig, TRACES, i)->time_ns - put_ns;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    assert_in_range(least_ns / NS_PER_MS, 0, 30);
    rig_await_empty(rig);
}

/* Though the backend answers each at once. */
static void test_close_ones_leave_together(void **state)
{
    enum { N = 40 };
    struct rig *rig = *state;
    exporter_rig_start(rig);
    uint64_t began_ns = clock_monotonic_ns();
    for (int i = 0; i < N; i++) {
        char body[16];
        snprintf(body, sizeof(body), "[%d]", i);
        rig_put(rig, SIGNAL_TRACES, body);
        rig_pause(rig, 2);
    }
    rig_await_empty(rig);
    uint64_t ms = (clock_monotonic_ns() - began_ns) / NS_PER_MS;
    assert_in_range(rig->backend.n_requests, 2, 2 + N / 16 + ms / 50);
    assert_all_came(rig, N, 1);
}

static void test_bytes_are_bounded(void **state)
{
    struct rig *rig = *state;
    enum { SIZE = SENDER_BYTES_MAX / 4 * 3 };
    static uint8_t large[SIZE];
    rig->config.otlp.timeout_ns = 2000 * NS_PER_MS;
    backend_rule(&rig->backend, PROFILES, 2, silent);
    for (int i = 0; i < 5; i++)
        rig_put_bytes(rig, SIGNAL_PROFILES, BYTES(large, SIZE));
    exporter_rig_start(rig);
    rig_await(rig, PROFILES, 1);
    rig_pause(rig, 200);
    assert_int_equal(rig->backend.n_requests, 2);
    rig_await_empty(rig);
    assert_in_range(rig->backend.n_requests, 5 + 2, 5 + 4); /* some may be late on a slow machine */
}

/* ---- failures ---- */

/* All that were under way fail: one pause, then one request alone, then the others. */
static void test_a_burst_of_failures_is_one(void **state)
{
    struct rig *rig = *state;
    rig->config.otlp.timeout_ns = 500 * NS_PER_MS;
    rig->config.otlp.retry.initial_interval_ns = 300 * NS_PER_MS;
    rig->config.otlp.retry.max_interval_ns = 10 * NS_PER_SEC;
    rig->config.otlp.retry.multiplier = 4;
    backend_rule(&rig->backend, PROFILES, CONSUMERS + 1, silent);
    start_with(rig, SIGNAL_PROFILES, 10);
    uint64_t burst_ns = rig_await(rig, PROFILES, 0)->time_ns;
    uint64_t probe_ns = rig_await(rig, PROFILES, CONSUMERS)->time_ns;
    assert_in_range((probe_ns - burst_ns) / NS_PER_MS, 790, 10000);
    uint64_t second_ns = rig_await(rig, PROFILES, CONSUMERS + 1)->time_ns;
    assert_in_range((second_ns - probe_ns) / NS_PER_MS, 1690, 10000); /* not grown for each */
    rig_await_empty(rig);
    assert_int_equal(rig->backend.n_requests, 10 + CONSUMERS + 1);
    assert_all_came(rig, 10, 3);
}

static void test_the_backend_may_ask_all_to_wait(void **state)
{
    struct rig *rig = *state;
    const struct backend_answer exhausted = {
        .status = GRPC_RESOURCE_EXHAUSTED, .message = "later", .retry_delay_ns = 400 * NS_PER_MS};
    backend_rule(&rig->backend, PROFILES, 1, exhausted);
    start_with(rig, SIGNAL_PROFILES, 20);
    uint64_t refused_ns = rig_await(rig, PROFILES, 0)->time_ns;
    rig_await_empty(rig);
    size_t n_before = 0;
    struct backend_request *request;
    for (size_t i = 0; (request = backend_request(&rig->backend, PROFILES, i)); i++) {
        uint64_t ms = (request->time_ns - refused_ns) / NS_PER_MS;
        n_before += ms < 350;
        assert_false(ms > 200 && ms < 350);
    }
    assert_in_range(n_before, 1, CONSUMERS); /* those that were on their way */
    assert_all_came(rig, 20, 2);
}

/* A request that is refused again and again, though not for good, holds up nobody for ever. */
static void test_one_that_is_never_taken(void **state)
{
    struct rig *rig = *state;
    rig->config.otlp.retry.initial_interval_ns = 10 * NS_PER_MS;
    rig->config.otlp.retry.max_interval_ns = 10 * NS_PER_MS; /* a long time: 60 of it */
    backend_rule(&rig->backend, PROFILES, 0, unavailable);
    rig->backend.rules[0].body = "[3]";
    start_with(rig, SIGNAL_PROFILES, 10);
    for (int ms = 0; ms < 5000 && !all_came(rig, 10); ms += 20)
        rig_pause(rig, 20);
    assert_all_came(rig, 10, 1000);
    assert_false(rig_is_empty(rig));
    for (int i = 0; i < 10; i++) {
        char body[16];
        snprintf(body, sizeof(body), "[%d]", i);
        assert_true(i == 3 || count(rig, body) == 1);
    }
    backend_no_rules(&rig->backend);
    rig_await_empty(rig);
}

/* One bad part costs only itself, with others on their way. */
static void test_refused_together(void **state)
{
    enum { N = 600 }; /* more than are joined */
    struct rig *rig = *state;
    const struct backend_answer bad = {.status = GRPC_INVALID_ARGUMENT, .message = "no"};
    int64_t before = rig_dropped("refused");
    backend_rule(&rig->backend, TRACES, 0, bad);
    rig->backend.rules[0].body = "[300]";
    start_with(rig, SIGNAL_TRACES, N);
    rig_await_empty(rig);
    assert_int_equal(rig_dropped("refused") - before, 3);
    assert_all_came(rig, N, 2);
}

/* ---- the end ---- */

/* Closed in the midst of it, as by a kill: what was not answered is sent again, and no more. */
static void test_closed_in_flight(void **state)
{
    struct rig *rig = *state;
    backend_rule(&rig->backend, PROFILES, 2, silent);
    start_with(rig, SIGNAL_PROFILES, 30);
    rig_await(rig, PROFILES, 10);
    stop(rig);
    backend_no_rules(&rig->backend);
    exporter_rig_start(rig);
    rig_await_empty(rig);
    assert_in_range(rig->backend.n_requests, 30, 30 + CONSUMERS);
    assert_all_came(rig, 30, 2);
}

static void on_stopped(void *context)
{
    ((struct rig *)context)->stopped = true;
}

static bool is_stopped(void *context)
{
    return ((struct rig *)context)->stopped;
}

static void test_drain(void **state)
{
    struct rig *rig = *state;
    start_with(rig, SIGNAL_PROFILES, 30);
    exporter_drain(rig->exporter, clock_monotonic_ns() + 10 * NS_PER_SEC, on_stopped, rig);
    assert_true(h2_run_loop(rig->loop, is_stopped, rig, 8000));
    assert_true(rig_is_empty(rig));
    assert_int_equal(rig->backend.n_requests, 30);
}

static void test_drain_while_it_fails(void **state)
{
    struct rig *rig = *state;
    backend_rule(&rig->backend, PROFILES, 0, unavailable);
    start_with(rig, SIGNAL_PROFILES, 30);
    rig_await(rig, PROFILES, CONSUMERS);
    exporter_drain(rig->exporter, clock_monotonic_ns() + 10 * NS_PER_SEC, on_stopped, rig);
    assert_true(h2_run_loop(rig->loop, is_stopped, rig, 2000));
    assert_false(rig_is_empty(rig));
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, exporter_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_so_many_and_no_more),
        RIG_TEST(test_a_trickle_is_joined),
        RIG_TEST(test_the_first_leaves_at_once),
        RIG_TEST(test_close_ones_leave_together),
        RIG_TEST(test_bytes_are_bounded),
        RIG_TEST(test_a_burst_of_failures_is_one),
        RIG_TEST(test_the_backend_may_ask_all_to_wait),
        RIG_TEST(test_one_that_is_never_taken),
        RIG_TEST(test_refused_together),
        RIG_TEST(test_closed_in_flight),
        RIG_TEST(test_drain),
        RIG_TEST(test_drain_while_it_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
