/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store promises when things fail: the n-th write, the n-th allocation, kill -9. A
 * scenario of transactions is run while something fails; whatever was acknowledged must be there
 * afterwards, in memory as in the file, and whatever was not must have left no trace.
 */
#include "base/stats.h"
#include "store/stacks/stacks_unfinished.h"
#include "test/support/fixtures/outbox_next.h"
#include "test/support/faults/fail_alloc.h"
#include "test/support/faults/fail_vfs.h"
#include "test/support/fixtures/history_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { N_STEPS = 12 };

struct outcome {
    unsigned samples;  /* acknowledged, of trace 1, span 1 */
    unsigned requests; /* acknowledged, of traces */
    unsigned failed;   /* transactions */
    unsigned next_sample;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture_make(&fixture);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    fixture_remove(*state);
    return 0;
}

/* Whatever goes wrong is the transaction's; like a job of the writer. The last sample's stack is
 * promised. */
static int put_samples(struct store *store, unsigned step, int64_t *promised)
{
    struct process_facts facts = {.start_ns = 1, .pid = 10, .executable_name = BYTES_LIT("shop")};
    uint8_t identity[16] = {1};
    int64_t executable, stack, process;
    bool is_new;
    int error = stacks_executable(store_stacks(store), identity, &executable);
    if (error)
        return error;
    struct frame frame = {STACK_FRAME_NATIVE, executable, step};
    error = stacks_intern(store_stacks(store), &frame, 1, &stack, &is_new);
    if (!error)
        error = stacks_open_frames(store_stacks(store), &frame, 1, 0, promised);
    if (!error)
        error = processes_put(store_processes(store), &facts, &process);
    if (error)
        return error;
    join_batch_begin(store_join(store));
    for (unsigned i = 0; i < 3 && !error; i++) {
        struct sample sample =
            fixture_sample(FIXTURE_T0 + step * FIXTURE_SECOND + i, (struct fixture_ids){1, 1, 0},
                           i == 2 ? *promised : stack, process);
        error = join_add_sample(store_join(store), &sample);
    }
    return error ? error : join_batch_commit(store_join(store));
}

/* The end of the promised stack has been found. */
static int fulfil(struct store *store, int64_t promised)
{
    const struct frame frame = {STACK_FRAME_NATIVE, 0, 1};
    int64_t stack;
    bool is_new;
    if (!stacks_has_open_frames(store_stacks(store), promised))
        return 0; /* rolled back */
    int error = stacks_intern(store_stacks(store), &frame, 1, &stack, &is_new);
    return error ? error : stacks_finish_frames(store_stacks(store), promised, stack);
}

static int put_span(struct store *store, unsigned step, struct join_result *result)
{
    struct fixture_span span;
    fixture_span(&span, 1, 1, 0, 100, 10);
    int outcome = join_span(store_join(store), &span.span, &fixture_forwarder, result);
    if (outcome >= 0)
        outcome = history_span(store_history(store), 0, &span.span, result);
    fixture_span_close(&span);
    (void)step;
    return outcome < 0 ? outcome : 0;
}

static int run_job(struct store *store, unsigned step, int64_t *promised, bool *is_request)
{
    static uint8_t body[20000];
    static const struct window_settings window = {
        .max_request_bytes = 1 << 20, .destinations = 1, .scope_version = "0"};
    struct join_result result;
    size_t n;
    *is_request = step % 3 == 1;
    if (step % 3 == 0)
        return put_samples(store, step, promised);
    if (step % 3 == 2)
        return store_window(store, &window, FIXTURE_T0 + step * FIXTURE_SECOND, &n);
    int error = put_span(store, step, &result);
    if (!error)
        error = fulfil(store, *promised);
    if (!error)
        error = outbox_put(store_outbox(store), SIGNAL_TRACES, 1, 1, BYTES(body, sizeof(body)));
    return error;
}

static void run_scenario(struct fixture *fixture, struct outcome *outcome)
{
    int64_t promised = 0;
    *outcome = (struct outcome){0};
    for (unsigned step = 0; step < N_STEPS; step++) {
        bool is_request;
        int error = store_begin(fixture->store);
        if (!error) {
            int job = run_job(fixture->store, step, &promised, &is_request);
            if (job)
                store_fail(fixture->store, job);
            error = store_end(fixture->store);
            assert_true(!job || error);
        }
        if (error) {
            outcome->failed++;
            continue;
        }
        outcome->samples += step % 3 ? 0 : 3;
        outcome->requests += is_request;
    }
    store_maintain(fixture->store);
}

static unsigned count_rows(struct fixture *fixture, const char *sql)
{
    sqlite3_stmt *statement;
    assert_int_equal(db_prepare(store_db(fixture->store), sql, &statement), 0);
    assert_int_equal(db_step(store_db(fixture->store), statement), 1);
    unsigned n = (unsigned)sqlite3_column_int64(statement, 0);
    db_unprepare(store_db(fixture->store), &statement);
    return n;
}

/* The history is what left, exactly. */
static void check_history(struct fixture *fixture, unsigned exported)
{
    const struct told_history *told = history_told(fixture);
    assert_int_equal(told->n_samples, exported);
    assert_int_equal(told->summed_samples, exported);
    assert_int_equal(told->summed_value_ns, exported * FIXTURE_TICK);
    for (size_t i = 0; i < told->n_samples; i++)
        assert_true(told->samples[i].context.matched && told->n_spans);
}

static void check(struct fixture *fixture, const struct outcome *outcome)
{
    struct fixture_span span;
    struct join_result result;
    struct fixture_left left;
    fixture_span(&span, 1, 1, 0, 100, 10);
    fixture_join(fixture, &span, &result);
    fixture_span_close(&span);
    assert_int_equal(result.samples, outcome->samples);
    assert_int_equal(result.cpu_ns, outcome->samples * FIXTURE_TICK);
    assert_int_equal(stats_find("spanprof_outbox_requests", "signal=\"traces\""),
                     outcome->requests);
    assert_int_equal(
        count_rows(fixture, "SELECT count(*) FROM outbox WHERE signal = 0 AND seq > 0"),
        outcome->requests);
    assert_int_equal(count_rows(fixture, "SELECT count(*) FROM outbox_body"),
                     count_rows(fixture, "SELECT count(*) FROM outbox WHERE seq <> 0"));
    unsigned exported = count_rows(
        fixture, "SELECT ifnull(sum(items), 0) FROM outbox WHERE signal = 1 AND seq > 0");
    assert_int_equal(exported + join_pending_samples(store_join(fixture->store)), outcome->samples);
    check_history(fixture, exported);
    fixture_leave(fixture, FIXTURE_T0 + 1000 * FIXTURE_SECOND + FIXTURE_WAIT, &left);
    assert_int_equal(left.n, outcome->samples - exported); /* once each */
    assert_int_equal(count_rows(fixture, "SELECT count(*) FROM pending"), 0);
}

static void check_all(struct fixture *fixture, const struct outcome *outcome)
{
    size_t pending = join_pending_samples(store_join(fixture->store));
    fixture_reopen(fixture);
    assert_int_equal(join_pending_samples(store_join(fixture->store)), pending);
    check(fixture, outcome);
}

static void test_scenario(void **state)
{
    struct fixture *fixture = *state;
    struct outcome outcome;
    fixture_open(fixture);
    run_scenario(fixture, &outcome);
    assert_int_equal(outcome.failed, 0);
    assert_int_equal(outcome.samples, 12);
    check_all(fixture, &outcome);
}

static void fail_each_write(struct fixture *fixture, enum fail_vfs_kind kind)
{
    fixture->settings.db.vfs = FAIL_VFS_NAME;
    unsigned n = 1, n_failed = 0;
    for (bool hit = true; hit; n += n < 40 ? 1 : 7) {
        struct outcome outcome;
        struct fixture fresh;
        fixture_make(&fresh);
        fresh.settings.db.vfs = FAIL_VFS_NAME;
        fresh.settings.db.sync = n % 2 ? DB_SYNC_FULL : DB_SYNC_NORMAL;
        fixture_open(&fresh);
        fail_vfs_at(n, kind);
        run_scenario(&fresh, &outcome);
        hit = fail_vfs_hit();
        n_failed += outcome.failed;
        assert_true(outcome.failed <= 1); /* the next one is fine again */
        check_all(&fresh, &outcome);
        fixture_remove(&fresh);
    }
    assert_true(n > 30);
    assert_true(n_failed > 20);
}

static void test_write_io(void **state)
{
    fail_each_write(*state, FAIL_VFS_IO);
}

static void test_write_short(void **state)
{
    fail_each_write(*state, FAIL_VFS_SHORT);
}

static void test_write_full(void **state)
{
    fail_each_write(*state, FAIL_VFS_FULL);
}

/* The disk stays full for a while: all fails meanwhile, nothing afterwards, and nothing was lost.
 */
static void test_disk_full(void **state)
{
    struct fixture *fixture = *state;
    struct outcome before, during, after;
    int64_t rollbacks = stats_find("spanprof_store_rollbacks_total", "reason=\"full\"");
    fixture->settings.db.vfs = FAIL_VFS_NAME;
    fixture_open(fixture);
    run_scenario(fixture, &before);
    fail_vfs_from(1, FAIL_VFS_FULL);
    run_scenario(fixture, &during);
    assert_true(fail_vfs_hit());
    assert_true(during.failed >= 8); /* all but windows that had nothing to do */
    assert_int_equal(during.samples, 0);
    assert_true(stats_find("spanprof_store_rollbacks_total", "reason=\"full\"") > rollbacks);
    run_scenario(fixture, &after);
    assert_int_equal(after.failed, 0);
    after.samples += before.samples;
    after.requests += before.requests;
    check_all(fixture, &after);
}

/* The n-th write is torn, and with it the machine is gone: nothing after it is written. What was
 * committed is there; what was being committed may be, whole. */
static void test_torn_and_gone(void **state)
{
    int64_t corrupt = stats_find("spanprof_store_corrupt_total", "");
    unsigned n = 1;
    (void)state;
    for (bool hit = true; hit; n += n < 40 ? 1 : 7) {
        struct outcome outcome;
        struct fixture fresh;
        fixture_make(&fresh);
        fresh.settings.db.vfs = FAIL_VFS_NAME;
        fresh.settings.db.sync = n % 2 ? DB_SYNC_FULL : DB_SYNC_NORMAL;
        fixture_open(&fresh);
        fail_vfs_from(n, FAIL_VFS_SHORT);
        run_scenario(&fresh, &outcome);
        fixture_close(&fresh); /* cannot tidy up either */
        hit = fail_vfs_hit();
        fixture_open(&fresh);
        unsigned requests =
            count_rows(&fresh, "SELECT count(*) FROM outbox WHERE signal = 0 AND seq > 0");
        assert_in_range(requests, outcome.requests, outcome.requests + 1);
        assert_int_equal(count_rows(&fresh, "SELECT count(*) FROM outbox_body"),
                         count_rows(&fresh, "SELECT count(*) FROM outbox WHERE seq <> 0"));
        check_history(&fresh, count_rows(&fresh, "SELECT ifnull(sum(items), 0) FROM outbox"
                                                 " WHERE signal = 1 AND seq > 0"));
        unsigned samples =
            (unsigned)join_pending_samples(store_join(fresh.store)) +
            count_rows(&fresh,
                       "SELECT ifnull(sum(items), 0) FROM outbox WHERE signal = 1 AND seq > 0");
        assert_in_range(samples, outcome.samples, outcome.samples + 3);
        run_scenario(&fresh, &outcome);
        assert_int_equal(outcome.failed, 0);
        fixture_remove(&fresh);
    }
    assert_true(n > 30);
    assert_int_equal(stats_find("spanprof_store_corrupt_total", ""), corrupt);
}

/* Opening while writes fail ends with an error or in a store that works. */
static void test_open_fails(void **state)
{
    (void)state;
    for (unsigned n = 1, hit = true; hit; n++) {
        struct fixture fresh;
        struct outcome outcome;
        fixture_make(&fresh);
        fresh.settings.db.vfs = FAIL_VFS_NAME;
        fail_vfs_at(n, n % 2 ? FAIL_VFS_IO : FAIL_VFS_SHORT);
        int error = store_open(&fresh.settings, &fresh.store);
        hit = fail_vfs_hit();
        if (error)
            fixture_open(&fresh);
        run_scenario(&fresh, &outcome);
        assert_int_equal(outcome.failed, 0);
        check_all(&fresh, &outcome);
        fixture_remove(&fresh);
    }
}

static void test_alloc(void **state)
{
    unsigned n = 1;
    (void)state;
    for (bool hit = true; hit; n += n < 300 ? 1 : 13) {
        struct fixture fresh;
        struct outcome outcome;
        fixture_make(&fresh);
        fixture_open(&fresh);
        fail_alloc_at(n);
        run_scenario(&fresh, &outcome);
        hit = fail_alloc_hit();
        check_all(&fresh, &outcome);
        fixture_remove(&fresh);
    }
    assert_true(n > 100);
}

static void test_open_alloc(void **state)
{
    (void)state;
    for (unsigned n = 1, hit = true; hit; n++) {
        struct fixture fresh;
        struct outcome outcome;
        fixture_make(&fresh);
        fail_alloc_at(n);
        int error = store_open(&fresh.settings, &fresh.store);
        hit = fail_alloc_hit();
        assert_int_equal(error, hit ? -ENOMEM : 0);
        if (error)
            fixture_open(&fresh);
        run_scenario(&fresh, &outcome);
        assert_int_equal(outcome.failed, 0);
        fixture_remove(&fresh);
    }
}

/* Corruption that is only met in the middle of work. */
static void test_corrupt_later(void **state)
{
    struct fixture *fixture = *state;
    struct outcome outcome;
    int64_t before = stats_find("spanprof_store_corrupt_total", "");
    fixture_open(fixture);
    run_scenario(fixture, &outcome);
    fixture_close(fixture);
    FILE *file = fopen(fixture_path(fixture, "spanprof.db"), "r+b");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    assert_true(size > 8 * 4096);
    fseek(file, 5 * 4096, SEEK_SET); /* all but the schema and what opening reads first */
    for (long at = 5 * 4096; at < size; at++)
        fputc(0x77, file);
    fclose(file);
    fixture_open(fixture);
    run_scenario(fixture, &outcome);
    run_scenario(fixture, &outcome);
    assert_int_equal(outcome.failed, 0);
    assert_true(stats_find("spanprof_store_corrupt_total", "") > before);
}

/* kill -9 */

struct ack {
    uint32_t number; /* of the transaction, from 1 */
};

static void work_until_killed(struct fixture *fixture, int pipe_fd, uint32_t first)
{
    if (store_open(&fixture->settings, &fixture->store))
        _exit(1);
    for (struct ack ack = {first};; ack.number++) {
        uint8_t body[3000];
        int64_t promised; /* and not fulfilled */
        memset(body, 0, sizeof(body));
        memcpy(body, &ack, sizeof(ack));
        if (store_begin(fixture->store) ||
            put_samples(fixture->store, ack.number % 50, &promised) ||
            outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1,
                       BYTES(body, sizeof(body))) ||
            store_end(fixture->store))
            _exit(2);
        if (write(pipe_fd, &ack, sizeof(ack)) != sizeof(ack))
            _exit(3);
        if (ack.number % 20 == 0)
            store_maintain(fixture->store);
    }
}

/* after_us: behind the first at_least transactions. */
static uint32_t run_and_kill(struct fixture *fixture, uint32_t first, uint32_t at_least,
                             useconds_t after_us)
{
    int ends[2], status;
    struct ack ack = {first - 1};
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child)
        work_until_killed(fixture, ends[1], first);
    close(ends[1]);
    while (ack.number < first - 1 + at_least)
        assert_int_equal(read(ends[0], &ack, sizeof(ack)), sizeof(ack));
    usleep(after_us);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (read(ends[0], &ack, sizeof(ack)) == sizeof(ack))
        ;
    close(ends[0]);
    return ack.number;
}

/* All that was acknowledged is there, once, and at most one transaction more. */
static uint32_t count_and_check(struct fixture *fixture, uint32_t acknowledged)
{
    struct db *reader_db;
    struct outbox_reader *reader;
    struct outbox_item item = {0};
    uint32_t expected = 1;
    assert_int_equal(db_open_reader(&fixture->settings.db, &reader_db), 0);
    assert_int_equal(outbox_reader_open(reader_db, &reader), 0);
    while (!outbox_next(reader, "first", item.seq, &item)) {
        struct ack ack;
        memcpy(&ack, item.body.data, sizeof(ack));
        assert_int_equal(ack.number, expected++);
        buf_close(&item.body);
    }
    outbox_reader_close(reader);
    db_close(reader_db);
    assert_in_range(expected - 1, acknowledged, acknowledged + 1);
    struct fixture_span span;
    struct join_result result;
    fixture_span(&span, 1, 1, 0, 100, 10);
    fixture_join(fixture, &span, &result);
    fixture_span_close(&span);
    assert_int_equal(result.samples, 3 * (expected - 1));
    return expected - 1;
}

static void test_kill(void **state)
{
    struct fixture *fixture = *state;
    uint32_t committed = 0;
    fixture->settings.join.max_pending_bytes = 64 << 20;
    for (unsigned round = 0; round < 12; round++) {
        uint32_t at_least = round % 2 ? 10 : 0; /* one that is being opened is killed as well */
        uint32_t acknowledged =
            run_and_kill(fixture, committed + 1, at_least, 20000 + round * 7000);
        if (acknowledged < committed)
            acknowledged = committed;
        fixture_open(fixture);
        assert_int_equal(count_rows(fixture, "PRAGMA quick_check"), 0); /* "ok" */
        committed = count_and_check(fixture, acknowledged);
        fixture_close(fixture);
    }
    assert_true(committed > 50);
    assert_int_equal(stats_find("spanprof_store_corrupt_total", "") >= 0, 1);
}

static void test_collect(void **state)
{
    struct fixture *fixture = *state;
    struct outcome outcome;
    fixture_open(fixture);
    run_scenario(fixture, &outcome);
    for (unsigned i = 0; i < 20; i++) { /* generations pass; the total keeps what it names */
        fixture_begin(fixture);
        assert_int_equal(store_collect(fixture->store, FIXTURE_T0 + i * STACKS_GENERATION_NS), 0);
        fixture_commit(fixture);
        assert_int_equal(store_maintain(fixture->store), 0);
    }
    /* Those of the samples, that which promised ones are the same as, and the last of these: it was
     * counted and has not been asked for since. */
    assert_int_equal(count_rows(fixture, "SELECT count(*) FROM stack"), 4 + 1 + 1);
    assert_int_equal(count_rows(fixture, "SELECT count(*) FROM process"), 1);
    assert_int_equal(count_rows(fixture, "SELECT count(*) FROM executable"), 1);
    struct fixture_left left; /* an hour later the total goes, and with it the rest */
    fixture_leave(fixture, FIXTURE_T0 + 4000 * FIXTURE_SECOND, &left);
    for (unsigned i = 20; i < 40; i++) {
        fixture_begin(fixture);
        assert_int_equal(store_collect(fixture->store, FIXTURE_T0 + i * STACKS_GENERATION_NS), 0);
        fixture_commit(fixture);
    }
    assert_int_equal(count_rows(fixture, "SELECT count(*) FROM stack"), 0);
    assert_int_equal(count_rows(fixture, "SELECT count(*) FROM process"), 0);
    assert_int_equal(count_rows(fixture, "SELECT count(*) FROM executable"), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_scenario),      TEST(test_write_io),  TEST(test_write_short),
        TEST(test_write_full),    TEST(test_disk_full), TEST(test_torn_and_gone),
        TEST(test_open_fails),    TEST(test_alloc),     TEST(test_open_alloc),
        TEST(test_corrupt_later), TEST(test_kill),      TEST(test_collect),
    };
    fail_vfs_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
