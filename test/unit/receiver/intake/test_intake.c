/* SPDX-License-Identifier: Apache-2.0 */
/* The door: what is taken, what is refused, and that every request gets one answer in its time. */
#include "base/stats.h"
#include "test/support/faults/fail_vfs.h"
#include "test/support/rigs/intake_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

struct test {
    struct intake_rig rig;
    struct buf body; /* a request of one span: trace 1, span 2 */
    struct outgoing outgoing;
};

static int open_with(void **state, struct intake_rig_options options)
{
    static struct test test;
    test = (struct test){.body = BUF_INIT(0)};
    intake_rig_open(&test.rig, &options);
    struct trace_span span = {.trace = 1,
                              .id = 2,
                              .start_unix_ns = FIXTURE_T0,
                              .end_unix_ns = FIXTURE_T0 + FIXTURE_SECOND};
    trace_request(&test.body, &span, 1);
    *state = &test;
    return 0;
}

static int set_up(void **state)
{
    return open_with(state, (struct intake_rig_options){0});
}

static int set_up_failing(void **state)
{
    fail_vfs_register();
    return open_with(state, (struct intake_rig_options){.vfs = FAIL_VFS_NAME});
}

static int set_up_no_traces(void **state)
{
    return open_with(state, (struct intake_rig_options){.no_traces = true});
}

static int set_up_quota(void **state)
{
    return open_with(state, (struct intake_rig_options){.max_store_bytes = 1 << 20});
}

static int tear_down(void **state)
{
    struct test *test = *state;
    outgoing_close(&test->outgoing);
    intake_rig_close(&test->rig);
    buf_close(&test->body);
    return 0;
}

static size_t n_outgoing(struct test *test)
{
    outgoing_close(&test->outgoing);
    outgoing_read(&test->outgoing, &test->rig.fixture.settings.db, SIGNAL_TRACES);
    return test->outgoing.n;
}

static int64_t queued_bytes(void)
{
    return stats_find("spanprof_intake_queued_bytes", "");
}

/* ---- accepted ---- */

static void test_accepted(void **state)
{
    struct test *test = *state;
    assert_true(intake_has_pipeline(test->rig.intake, SIGNAL_TRACES));
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&test->body)), INTAKE_ACCEPTED);
    assert_int_equal(test->rig.n_committed, 1);
    assert_int_equal(n_outgoing(test), 1); /* committed: another connection sees it */
    assert_int_equal(rig_request_run(&test->rig, BYTES(NULL, 0)), INTAKE_ACCEPTED);
    assert_int_equal(n_outgoing(test), 1);
    assert_int_equal(queued_bytes(), 0);
}

static void test_malformed(void **state)
{
    struct test *test = *state;
    assert_int_equal(rig_request_run(&test->rig, BYTES_LIT("\xff")), INTAKE_MALFORMED);
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&test->body)), INTAKE_ACCEPTED);
}

/* In one batch of the writer, a bad request harms no other. */
static void test_bad_among_good(void **state)
{
    struct test *test = *state;
    struct rig_request requests[9];
    intake_rig_hold(&test->rig);
    for (int i = 0; i < 9; i++)
        rig_request_submit(&test->rig, &requests[i],
                           i == 4 ? BYTES_LIT("\xff") : buf_bytes(&test->body));
    intake_rig_turn(&test->rig, 20);
    for (int i = 0; i < 9; i++)
        assert_false(requests[i].done); /* not before the commit */
    intake_rig_release(&test->rig);
    for (int i = 0; i < 9; i++) {
        intake_rig_until(&test->rig, &requests[i].done);
        assert_int_equal(requests[i].request.outcome, i == 4 ? INTAKE_MALFORMED : INTAKE_ACCEPTED);
    }
    assert_int_equal(n_outgoing(test), 8);
}

/* ---- refused ---- */

static void test_no_pipeline(void **state)
{
    struct test *test = *state;
    assert_false(intake_has_pipeline(test->rig.intake, SIGNAL_TRACES));
    assert_false(intake_has_pipeline(test->rig.intake, SIGNAL_METRICS));
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&test->body)), INTAKE_NO_PIPELINE);
}

static void test_bytes_full(void **state)
{
    struct test *test = *state;
    static struct rig_request requests[20];
    uint8_t *large = calloc(1, 100000); /* malformed, which is found out late */
    int64_t before =
        stats_find("spanprof_requests_refused_total", "signal=\"traces\",reason=\"busy\"");
    intake_rig_hold(&test->rig);
    for (int i = 0; i < 20; i++)
        rig_request_submit(&test->rig, &requests[i], BYTES(large, 100000));
    free(large);
    assert_int_equal(queued_bytes(), 1000000); /* of 1 MiB */
    intake_rig_turn(&test->rig, 20);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(requests[i].done, i >= 10); /* refused at once, though not within */
        if (i >= 10)
            assert_int_equal(requests[i].request.outcome, INTAKE_BUSY);
    }
    assert_int_equal(
        stats_find("spanprof_requests_refused_total", "signal=\"traces\",reason=\"busy\"") - before,
        10);
    intake_rig_release(&test->rig);
    for (int i = 0; i < 10; i++) {
        intake_rig_until(&test->rig, &requests[i].done);
        assert_int_equal(requests[i].request.outcome, INTAKE_MALFORMED);
    }
    assert_int_equal(queued_bytes(), 0);
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&test->body)), INTAKE_ACCEPTED);
}

static void test_queue_full(void **state)
{
    struct test *test = *state;
    enum { ROOM = TURNS_PEER_NS / TURNS_REQUEST_NS + TURNS_PEER_MAX, N = ROOM + 3 };
    struct rig_request *requests = calloc(N, sizeof(*requests));
    intake_rig_hold(&test->rig);
    for (int i = 0; i < N; i++)
        rig_request_submit(&test->rig, &requests[i], BYTES(NULL, 0));
    intake_rig_turn(&test->rig, 20);
    for (int i = 0; i < N; i++)
        assert_int_equal(requests[i].done, i >= ROOM);
    intake_rig_release(&test->rig);
    for (int i = 0; i < N; i++) {
        intake_rig_until(&test->rig, &requests[i].done);
        assert_int_equal(requests[i].n_done, 1);
        assert_int_equal(requests[i].request.outcome, i >= ROOM ? INTAKE_BUSY : INTAKE_ACCEPTED);
    }
    free(requests);
}

static void test_stopping(void **state)
{
    struct test *test = *state;
    struct rig_request before;
    intake_rig_start(&test->rig);
    intake_rig_until(&test->rig, &test->rig.ready); /* without a sampler: soon */
    intake_rig_hold(&test->rig);
    rig_request_submit(&test->rig, &before, buf_bytes(&test->body));
    intake_rig_stop(&test->rig);
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&test->body)), INTAKE_BUSY);
    assert_false(test->rig.stopped);
    intake_rig_release(&test->rig);
    intake_rig_until(&test->rig, &test->rig.stopped);
    assert_true(before.done); /* what was taken is finished first */
    assert_int_equal(before.request.outcome, INTAKE_ACCEPTED);
}

/* The writer closes: each request still gets its one answer. */
static void test_closed_under_load(void **state)
{
    static struct intake_rig rig;
    static struct rig_request requests[50];
    struct test *test = *state;
    intake_rig_open(&rig, &(struct intake_rig_options){.max_queued_bytes = 1000});
    intake_rig_hold(&rig);
    for (int i = 0; i < 50; i++)
        rig_request_submit(&rig, &requests[i], buf_bytes(&test->body));
    intake_rig_close(&rig);
    for (int i = 0; i < 50; i++)
        assert_int_equal(requests[i].n_done, 1);
    assert_int_equal(requests[0].request.outcome, INTAKE_ACCEPTED);
    assert_int_equal(requests[49].request.outcome, INTAKE_BUSY); /* of a kilobyte */
}

/* ---- a store that fails ---- */

static void test_store_failing(void **state)
{
    struct test *test = *state;
    int64_t before =
        stats_find("spanprof_requests_refused_total", "signal=\"traces\",reason=\"store\"");
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&test->body)), INTAKE_ACCEPTED);
    for (enum fail_vfs_kind kind = FAIL_VFS_IO; kind <= FAIL_VFS_FULL; kind++) {
        fail_vfs_from(1, kind);
        assert_int_equal(rig_request_run(&test->rig, buf_bytes(&test->body)), INTAKE_BUSY);
        assert_true(fail_vfs_hit());
        assert_int_equal(rig_request_run(&test->rig, buf_bytes(&test->body)), INTAKE_ACCEPTED);
    }
    assert_int_equal(n_outgoing(test), 4);
    assert_int_equal(
        stats_find("spanprof_requests_refused_total", "signal=\"traces\",reason=\"store\"") -
            before,
        3);
}

static void test_store_full(void **state)
{
    struct test *test = *state;
    struct buf large _cleanup_buf_ = BUF_INIT(0);
    struct trace_span span = {.trace = 1, .id = 3, .padding = 100000};
    enum intake_outcome outcome = INTAKE_ACCEPTED;
    unsigned n = 0;
    trace_request(&large, &span, 1);
    while (outcome == INTAKE_ACCEPTED && n++ < 20)
        outcome = rig_request_run(&test->rig, buf_bytes(&large));
    assert_int_equal(outcome, INTAKE_BUSY);
    assert_int_equal(n_outgoing(test), n - 1);
    assert_int_equal(rig_request_run(&test->rig, BYTES_LIT("\xff")), INTAKE_MALFORMED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* An interrupted INSERT makes SQLite roll the whole transaction back. */
static int count_down(void *context)
{
    unsigned *left = context;
    return *left && !--*left;
}

/* One request that breaks the transaction fails alone: those before and behind it are committed. */
static void test_one_breaks(void **state)
{
    struct test *test = *state;
    enum { N = 20 };
    struct rig_request requests[N] = {0};
    sqlite3 *handle = db_handle(store_db(test->rig.fixture.store));
    int64_t repeated = stats_find("spanprof_worker_batches_repeated_total", "");
    unsigned left = 500; /* in the middle of the batch */
    unsigned n_accepted = 0;
    intake_rig_hold(&test->rig);
    for (unsigned i = 0; i < N; i++)
        rig_request_submit(&test->rig, &requests[i], buf_bytes(&test->body));
    sqlite3_progress_handler(handle, 1, count_down, &left);
    intake_rig_release(&test->rig);
    for (unsigned i = 0; i < N; i++)
        intake_rig_until(&test->rig, &requests[i].done);
    sqlite3_progress_handler(handle, 0, NULL, NULL);
    assert_int_equal(left, 0);
    assert_int_equal(stats_find("spanprof_worker_batches_repeated_total", "") - repeated, 1);
    for (unsigned i = 0; i < N; i++)
        n_accepted += requests[i].request.outcome == INTAKE_ACCEPTED;
    assert_int_equal(n_accepted, N - 1);
    assert_int_equal(requests[0].request.outcome, INTAKE_ACCEPTED);
    assert_int_equal(requests[N - 1].request.outcome, INTAKE_ACCEPTED);
    outgoing_read(&test->outgoing, &test->rig.fixture.settings.db, SIGNAL_TRACES);
    assert_int_equal(test->outgoing.n, N - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_accepted),
        TEST(test_malformed),
        TEST(test_bad_among_good),
        cmocka_unit_test_setup_teardown(test_one_breaks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_pipeline, set_up_no_traces, tear_down),
        TEST(test_bytes_full),
        TEST(test_queue_full),
        TEST(test_stopping),
        TEST(test_closed_under_load),
        cmocka_unit_test_setup_teardown(test_store_failing, set_up_failing, tear_down),
        cmocka_unit_test_setup_teardown(test_store_full, set_up_quota, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
