/* SPDX-License-Identifier: Apache-2.0 */
/* What is committed is handed to a sender that has all before it; else, and once, it is read. */
#include "base/clock.h"
#include "base/stats.h"
#include "exporter/sender.h"
#include "store/outbox/outbox_handoff.h"
#include "test/support/rigs/exporter_rig.h"
#include "test/support/net/h2_end.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

enum { CONSUMERS = 4 };

static const struct backend_answer silent = {.manner = BACKEND_SILENT};
static const struct backend_answer unavailable = {.status = GRPC_UNAVAILABLE, .message = "busy"};
static const struct backend_answer bad = {.status = GRPC_INVALID_ARGUMENT, .message = "no"};

static void stop(struct rig *rig)
{
    exporter_close(rig->exporter);
    rig->exporter = NULL;
    while (worker_queued(rig->writer) || worker_queued(rig->reader))
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

static int64_t handed_over(void)
{
    return stats_find("spanprof_exporter_handoff_requests_total", "");
}

static void put(struct rig *rig, enum signal signal, int i)
{
    char body[16];
    snprintf(body, sizeof(body), "[%d]", i);
    rig_put(rig, signal, body);
}

static size_t count(const struct rig *rig, int i)
{
    char text[16];
    size_t n = 0;
    struct backend_request *request;
    snprintf(text, sizeof(text), "[%d]", i);
    for (size_t k = 0; (request = backend_request(&rig->backend, "", k)); k++)
        n += memmem(request->reader.message.data, request->reader.message.len, text,
                    strlen(text)) != NULL;
    return n;
}

static void assert_each_came_once(const struct rig *rig, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(count(rig, i), 1);
}

/* It has read that nothing is there. */
static void start_idle(struct rig *rig)
{
    exporter_rig_start(rig);
    while (worker_queued(rig->reader))
        rig_pause(rig, 5);
}

/* ---- handed over ---- */

struct nap {
    struct job job;
    atomic_bool *over;
};

static int sleep_on(struct job *job)
{
    while (!atomic_load(container_of(job, struct nap, job)->over))
        usleep(1000);
    return 0;
}

static void slept(struct job *job, int error)
{
    (void)error;
    free(container_of(job, struct nap, job));
}

/* The reader has no part in it. */
static void test_without_the_reader(void **state)
{
    struct rig *rig = *state;
    atomic_bool over = false;
    int64_t before = handed_over();
    start_idle(rig);
    struct nap *nap = calloc(1, sizeof(*nap));
    assert_non_null(nap);
    *nap = (struct nap){.job = {.run = sleep_on, .done = slept}, .over = &over};
    assert_int_equal(worker_submit(rig->reader, &nap->job), 0);
    for (int i = 0; i < 20; i++) {
        put(rig, SIGNAL_TRACES, i);
        rig_pause(rig, 10);
    }
    for (int i = 20; i < 25; i++)
        put(rig, SIGNAL_PROFILES, i);
    rig_await(rig, PROFILES, 4);
    rig_pause(rig, 100);
    assert_each_came_once(rig, 25);
    assert_int_equal(handed_over() - before, 25);
    atomic_store(&over, true);
    rig_await_empty(rig);
    assert_each_came_once(rig, 25);
}

/* By the reader, but what it compresses was not read. */
static void test_compressed(void **state)
{
    struct rig *rig = *state;
    int64_t before = handed_over();
    rig->config.otlp.compression = CONFIG_GZIP;
    start_idle(rig);
    put(rig, SIGNAL_TRACES, 0);
    rig_await_empty(rig);
    assert_each_came_once(rig, 1);
    assert_int_equal(handed_over() - before, 1);
}

/* ---- read ---- */

static void test_not_in_a_backlog(void **state)
{
    enum { N = 30 };
    struct rig *rig = *state;
    int64_t before = handed_over();
    for (int i = 0; i < N; i++)
        put(rig, SIGNAL_PROFILES, i);
    backend_rule(&rig->backend, PROFILES, CONSUMERS, silent);
    rig->config.otlp.timeout_ns = 500 * NS_PER_MS;
    exporter_rig_start(rig);
    rig_await(rig, PROFILES, CONSUMERS - 1);
    put(rig, SIGNAL_PROFILES, N);
    assert_int_equal(handed_over(), before);
    rig_await_empty(rig);
    rig_pause(rig, 100);
    before = handed_over();
    put(rig, SIGNAL_PROFILES, N + 1);
    rig_await_empty(rig);
    put(rig, SIGNAL_PROFILES, N + 2);
    rig_await_empty(rig);
    assert_in_range(handed_over() - before, 1, 2);
    for (int i = 0; i < N + 3; i++)
        assert_in_range(count(rig, i), 1, 2);
}

static void test_not_while_it_fails(void **state)
{
    struct rig *rig = *state;
    rig->config.otlp.retry.max_interval_ns = 10 * NS_PER_SEC;
    rig->config.otlp.retry.initial_interval_ns = 300 * NS_PER_MS;
    start_idle(rig);
    backend_rule(&rig->backend, TRACES, 1, unavailable);
    put(rig, SIGNAL_TRACES, 0);
    rig_await(rig, TRACES, 0);
    rig_pause(rig, 50);
    int64_t before = handed_over();
    for (int i = 1; i < 10; i++)
        put(rig, SIGNAL_TRACES, i);
    struct outbox_handoff *handoff =
        outbox_handoff(store_outbox(rig->fixture.store), 0, SIGNAL_TRACES);
    assert_int_equal(handoff->bytes, 0);
    rig_await_empty(rig);
    assert_int_equal(handed_over(), before);
    assert_int_equal(count(rig, 0), 2);
    for (int i = 1; i < 10; i++)
        assert_int_equal(count(rig, i), 1);
}

static void test_memory_is_bounded(void **state)
{
    enum { SIZE = SENDER_HANDOFF_MAX / 4 };
    static uint8_t large[SIZE];
    struct rig *rig = *state;
    rig->config.otlp.timeout_ns = NS_PER_SEC;
    start_idle(rig);
    backend_rule(&rig->backend, TRACES, 1, silent);
    struct outbox_handoff *handoff =
        outbox_handoff(store_outbox(rig->fixture.store), 0, SIGNAL_TRACES);
    for (int i = 0; i < 12; i++) {
        rig_put_bytes(rig, SIGNAL_TRACES, BYTES(large, SIZE));
        assert_in_range(handoff->bytes, 0, SENDER_HANDOFF_MAX);
    }
    rig_await_empty(rig);
    size_t n_bytes = 0;
    struct backend_request *request;
    for (size_t i = 0; (request = backend_request(&rig->backend, TRACES, i)); i++)
        n_bytes += request->reader.message.len;
    assert_int_equal(n_bytes, 13 * SIZE); /* the first one twice */
}

/* ---- what was not committed, what was not marked ---- */

struct failing {
    struct job job;
    struct rig *rig;
    int error;
    bool done;
};

static int put_and_fail(struct job *job)
{
    struct failing *failing = container_of(job, struct failing, job);
    struct store *store = failing->rig->fixture.store;
    int error = outbox_put(store_outbox(store), SIGNAL_TRACES, 3, 1, BYTES_LIT("[99]"));
    store_fail(store, failing->error);
    return error;
}

static void failed(struct job *job, int error)
{
    struct failing *failing = container_of(job, struct failing, job);
    assert_int_equal(error, failing->error);
    failing->done = true;
}

static bool has_failed(void *context)
{
    return ((struct failing *)context)->done;
}

static void fail_a_transaction(struct rig *rig, int error)
{
    struct failing failing = {
        .job = {.run = put_and_fail, .done = failed}, .rig = rig, .error = error};
    assert_int_equal(worker_submit(rig->writer, &failing.job), 0);
    assert_true(h2_run_loop(rig->loop, has_failed, &failing, 5000));
}

/* What has to be found again is looked for when others come. */
static int put_until_empty(struct rig *rig, int i)
{
    do {
        put(rig, SIGNAL_TRACES, i++);
        rig_pause(rig, 120);
    } while (!rig_is_empty(rig) && i < 90);
    rig_await_empty(rig);
    return i;
}

static void test_rolled_back(void **state)
{
    struct rig *rig = *state;
    start_idle(rig);
    put(rig, SIGNAL_TRACES, 0);
    fail_a_transaction(rig, -EIO);
    int n = put_until_empty(rig, 1);
    int64_t before = handed_over();
    put(rig, SIGNAL_TRACES, n);
    rig_await_empty(rig);
    assert_int_equal(handed_over() - before, 1);
    assert_in_range(count(rig, 0), 1, 2); /* its mark may have been rolled back */
    for (int i = 1; i <= n; i++)
        assert_int_equal(count(rig, i), 1);
    assert_int_equal(count(rig, 99), 0);
}

/* One after the other, until one's mark is seen to wait for a transaction: on a busy machine it may
 * have been committed before one looks. Which one that is. */
static int send_until_a_mark_waits(struct rig *rig)
{
    for (int i = 0; i < 20; i++) {
        put(rig, SIGNAL_TRACES, i);
        rig_await(rig, TRACES, (size_t)i);
        for (int step = 0; step < 200 && !worker_queued(rig->writer); step++)
            loop_once(rig->loop, 1);
        if (worker_queued(rig->writer))
            return i;
    }
    fail_msg("no mark was seen to wait");
    return -1;
}

/* The mark of what was sent is rolled back: it is found again, though others are handed over. */
static void test_a_mark_is_lost(void **state)
{
    struct rig *rig = *state;
    start_idle(rig);
    int lost = send_until_a_mark_waits(rig);
    fail_a_transaction(rig, -EIO);
    int n = put_until_empty(rig, lost + 1);
    for (int i = 0; i < n; i++)
        assert_int_equal(count(rig, i), i == lost ? 2 : 1);
}

static void test_the_file_is_renewed(void **state)
{
    struct rig *rig = *state;
    start_idle(rig);
    for (int i = 0; i < 5; i++)
        put(rig, SIGNAL_TRACES, i);
    rig_await_empty(rig);
    fail_a_transaction(rig, -EUCLEAN); /* seqs begin at 1 again */
    for (int i = 5; i < 10; i++) {
        put(rig, SIGNAL_TRACES, i);
        rig_pause(rig, 80);
    }
    rig_await_empty(rig);
    assert_each_came_once(rig, 10);
}

/* ---- the rest of a sender's life ---- */

static void test_refused_in_parts(void **state)
{
    struct rig *rig = *state;
    int64_t dropped = rig_dropped("refused");
    start_idle(rig);
    backend_rule(&rig->backend, TRACES, 0, bad);
    rig->backend.rules[0].body = "[3]";
    for (int i = 0; i < 10; i++)
        put(rig, SIGNAL_TRACES, i);
    rig_await_empty(rig);
    assert_int_equal(rig_dropped("refused") - dropped, 3);
    for (int i = 0; i < 10; i++)
        assert_in_range(count(rig, i), 1, 2);
}

static void test_closed_in_flight(void **state)
{
    struct rig *rig = *state;
    start_idle(rig);
    backend_rule(&rig->backend, TRACES, 1, silent);
    put(rig, SIGNAL_TRACES, 0);
    rig_await(rig, TRACES, 0);
    for (int i = 1; i < 5; i++) /* in the handoff */
        put(rig, SIGNAL_TRACES, i);
    stop(rig);
    put(rig, SIGNAL_TRACES, 5);
    exporter_rig_start(rig);
    rig_await_empty(rig);
    assert_int_equal(count(rig, 0), 2);
    for (int i = 1; i < 6; i++)
        assert_int_equal(count(rig, i), 1);
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
    start_idle(rig);
    for (int i = 0; i < 10; i++)
        put(rig, SIGNAL_TRACES, i);
    exporter_drain(rig->exporter, clock_monotonic_ns() + 10 * NS_PER_SEC, on_stopped, rig);
    assert_true(h2_run_loop(rig->loop, is_stopped, rig, 8000));
    assert_true(rig_is_empty(rig));
    assert_each_came_once(rig, 10);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, exporter_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_without_the_reader),
        RIG_TEST(test_compressed),
        RIG_TEST(test_not_in_a_backlog),
        RIG_TEST(test_not_while_it_fails),
        RIG_TEST(test_memory_is_bounded),
        RIG_TEST(test_rolled_back),
        RIG_TEST(test_a_mark_is_lost),
        RIG_TEST(test_the_file_is_renewed),
        RIG_TEST(test_refused_in_parts),
        RIG_TEST(test_closed_in_flight),
        RIG_TEST(test_drain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
