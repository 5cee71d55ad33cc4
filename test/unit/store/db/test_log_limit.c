/* SPDX-License-Identifier: Apache-2.0 */
/* The length of the write-ahead log, while reads follow one another without a gap. */
#include "base/stats.h"
#include "store/db/log_limit.h"
#include "store/query/history_reader.h"
#include "test/support/fixtures/store_fixture.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>
#include <cmocka.h>

#define READERS 3
#define MIB     (UINT64_C(1) << 20)

static int64_t log_bytes(void)
{
    return stats_find("spanprof_store_log_bytes", "");
}

/* Puts a request and takes it away, so that the file does not grow. */
static void write_mib(struct fixture *fixture, int64_t *seq)
{
    static uint8_t body[1 << 20];
    fixture_begin(fixture);
    assert_int_equal(
        outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1, BYTES(body, sizeof(body))),
        0);
    fixture_commit(fixture);
    fixture_begin(fixture);
    assert_int_equal(outbox_done(store_outbox(fixture->store), 0, ++*seq), 0);
    fixture_commit(fixture);
}

struct reading {
    struct db *db;
    pthread_t thread;
    atomic_bool stop;
};

static void begin_read(struct db *db)
{
    assert_int_equal(db_read_begin(db), 0);
    assert_int_equal(db_exec(db, "BEGIN; SELECT count(*) FROM outbox"), 0);
}

static void end_read(struct db *db)
{
    assert_int_equal(db_exec(db, "COMMIT"), 0);
    db_read_end(db);
}

/* Each read overlaps the next one of another thread. */
static void *read_on(void *context)
{
    struct reading *reading = context;
    while (!atomic_load(&reading->stop)) {
        begin_read(reading->db);
        usleep(7000);
        end_read(reading->db);
    }
    return NULL;
}

static void test_reads_without_a_gap(void **state)
{
    struct fixture *fixture = *state;
    struct reading readings[READERS] = {{0}};
    int64_t restarts = stats_find("spanprof_store_log_restarts_total", ""), longest = 0;
    int64_t seq = 0;
    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(db_open_reader(&fixture->settings.db, &readings[i].db), 0);
        assert_int_equal(pthread_create(&readings[i].thread, NULL, read_on, &readings[i]), 0);
    }
    for (int i = 0; i < 200; i++) {
        write_mib(fixture, &seq);
        longest = log_bytes() > longest ? log_bytes() : longest;
        usleep(3000);
    }
    for (size_t i = 0; i < READERS; i++) {
        atomic_store(&readings[i].stop, true);
        pthread_join(readings[i].thread, NULL);
        db_close(readings[i].db);
    }
    assert_true(longest > (int64_t)LOG_LIMIT_SOFT_BYTES); /* else nothing was tried */
    assert_true(longest < (int64_t)(LOG_LIMIT_FULL_BYTES / 2));
    assert_true(stats_find("spanprof_store_log_restarts_total", "") > restarts);
}

/* A read that does not end keeps the log. Those after it wait for a while, then go on; questions
 * to the history are refused, until it has ended and the writer is back. */
static void test_a_read_that_does_not_end(void **state)
{
    struct fixture *fixture = *state;
    struct db *slow, *other, *pages;
    struct history_reader *history;
    struct history_filter filter = {.to_unix_ns = UINT64_MAX};
    struct arena arena;
    int64_t refused = stats_find("spanprof_store_log_reads_refused_total", "");
    int64_t ended = stats_find("spanprof_store_log_waits_ended_total", ""), seq = 0;
    assert_int_equal(db_open_reader(&fixture->settings.db, &slow), 0);
    assert_int_equal(db_open_reader(&fixture->settings.db, &other), 0);
    assert_int_equal(db_open_reader(&fixture->settings.db, &pages), 0);
    assert_int_equal(history_reader_open(pages, &history), 0);
    begin_read(slow);
    while (log_bytes() <= (int64_t)LOG_LIMIT_SOFT_BYTES)
        write_mib(fixture, &seq);
    begin_read(other); /* waits as long as a read does: a part of it passed since the commit */
    assert_int_equal(stats_find("spanprof_store_log_waits_ended_total", ""), ended + 1);
    end_read(other);
    assert_false(db_log_is_full(pages));
    while (log_bytes() <= (int64_t)LOG_LIMIT_FULL_BYTES)
        write_mib(fixture, &seq);
    assert_true(db_log_is_full(pages));
    struct history_profile profile;
    arena_init(&arena, 1 << 20);
    assert_int_equal(history_profile(history, &filter, &arena, &profile), -EAGAIN);
    assert_int_equal(stats_find("spanprof_store_log_reads_refused_total", ""), refused + 1);
    end_read(slow);
    assert_int_equal(store_maintain(fixture->store), 0);
    assert_int_equal(log_bytes(), 0);
    assert_int_equal(history_profile(history, &filter, &arena, &profile), 0);
    arena_close(&arena);
    history_reader_close(history);
    db_close(pages);
    db_close(other);
    db_close(slow);
    write_mib(fixture, &seq);
    assert_true(log_bytes() < (int64_t)(2 * MIB + MIB / 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reads_without_a_gap, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(test_a_read_that_does_not_end, fixture_set_up,
                                        fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
