/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of the outbox that are written over others, and what a request costs the log. */
#include "base/stats.h"
#include "test/support/fixtures/outbox_next.h"
#include "test/support/fixtures/outbox_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static void done(struct test *test, size_t destination, int64_t seq)
{
    fixture_begin(&test->fixture);
    assert_int_equal(outbox_done(store_outbox(test->fixture.store), destination, seq), 0);
    fixture_commit(&test->fixture);
}

static void collect(struct test *test)
{
    fixture_begin(&test->fixture);
    assert_int_equal(outbox_collect(store_outbox(test->fixture.store), FIXTURE_T0), 0);
    fixture_commit(&test->fixture);
}

static int64_t waiting(const char *signal)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "signal=\"%s\"", signal);
    return stats_find("spanprof_outbox_requests", labels);
}

static int64_t number(struct test *test, const char *sql)
{
    sqlite3_stmt *statement;
    struct db *db = store_db(test->fixture.store);
    assert_int_equal(db_prepare(db, sql, &statement), 0);
    assert_int_equal(db_step(db, statement), 1);
    int64_t n = sqlite3_column_int64(statement, 0);
    db_unprepare(db, &statement);
    return n;
}

static int64_t recycled(struct test *test)
{
    return number(test, "SELECT count(*) FROM outbox WHERE seq < 0");
}

/* Each body has a row that names it, and each row one of its own. */
static void expect_no_stray_bodies(struct test *test)
{
    int64_t rows = number(test, "SELECT count(*) FROM outbox WHERE seq <> 0");
    assert_int_equal(number(test, "SELECT count(*) FROM outbox_body"), rows);
    assert_int_equal(number(test, "SELECT count(DISTINCT o.body) FROM outbox o JOIN outbox_body b"
                                  " ON b.id = o.body WHERE o.seq <> 0"),
                     rows);
}

enum { BODY_SIZE_MAX = 80000 };

/* Told from others by its number, in every byte. */
static struct bytes numbered_body(int64_t seq, size_t size)
{
    static uint8_t body[BODY_SIZE_MAX];
    for (size_t i = 0; i < size; i++)
        body[i] = (uint8_t)((size_t)seq * 37 + i * 11 + i / 251);
    return BYTES(body, size);
}

static void put_numbered(struct test *test, enum signal signal, int64_t seq, size_t size)
{
    fixture_begin(&test->fixture);
    assert_int_equal(
        outbox_put(store_outbox(test->fixture.store), signal, 7, 1, numbered_body(seq, size)), 0);
    fixture_commit(&test->fixture);
}

static void expect_numbered(struct test *test, int64_t seq, size_t size)
{
    struct outbox_item item;
    assert_int_equal(outbox_next(test->reader, "first", seq - 1, &item), 0);
    assert_int_equal(item.seq, seq);
    assert_true(bytes_equal(buf_bytes(&item.body), numbered_body(seq, size)));
    buf_close(&item.body);
}

static int pages_written(struct test *test)
{
    int pages, most;
    assert_int_equal(sqlite3_db_status(db_handle(store_db(test->fixture.store)),
                                       SQLITE_DBSTATUS_CACHE_WRITE, &pages, &most, 0),
                     SQLITE_OK);
    return pages;
}

/* A request of 33 KB costs its own 9 pages of the log and one more; a small one two. */
static void test_few_pages(void **state)
{
    enum { N = 50 };
    struct test *test = *state;
    const size_t sizes[] = {1 << 9, 33 << 10};
    const int expected[] = {2, 10};
    int64_t seq = 0;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 4; i++)
            put_numbered(test, SIGNAL_TRACES, ++seq, sizes[k]);
        done(test, 0, seq - 3);
        int before = pages_written(test);
        for (int i = 0; i < N; i++) {
            fixture_begin(&test->fixture);
            assert_int_equal(outbox_put(store_outbox(test->fixture.store), SIGNAL_TRACES, 7, 1,
                                        numbered_body(++seq, sizes[k])),
                             0);
            assert_int_equal(outbox_done(store_outbox(test->fixture.store), 0, seq - 3), 0);
            fixture_commit(&test->fixture);
        }
        assert_in_range(pages_written(test) - before, N * (expected[k] - 1), N * expected[k]);
        for (int i = 2; i >= 0; i--)
            done(test, 0, seq - i);
    }
    expect_no_stray_bodies(test);
}

/* Whatever comes and goes, in whatever order, is what was put; also after a rollback or a restart.
 */
static void test_bodies_stay_apart(void **state)
{
    enum { ROUNDS = 1500, WAITING_MAX = 12 };
    struct test *test = *state;
    struct {
        int64_t seq;
        size_t size;
    } waiting_ones[WAITING_MAX];
    unsigned seed = 5, n = 0;
    for (int64_t seq = 1; seq <= ROUNDS; seq++) {
        size_t size = rand_r(&seed) % 8 ? 28000 + (size_t)rand_r(&seed) % 8000
                                        : (size_t)rand_r(&seed) % BODY_SIZE_MAX;
        put_numbered(test, rand_r(&seed) % 3 ? SIGNAL_TRACES : SIGNAL_LOGS, seq, size);
        waiting_ones[n].seq = seq;
        waiting_ones[n++].size = size;
        if (rand_r(&seed) % 64 == 0)
            fixture_reopen(&test->fixture);
        while (n == WAITING_MAX || (n && rand_r(&seed) % 2)) {
            unsigned index = (unsigned)rand_r(&seed) % n;
            expect_numbered(test, waiting_ones[index].seq, waiting_ones[index].size);
            fixture_begin(&test->fixture);
            outbox_done(store_outbox(test->fixture.store), 0, waiting_ones[index].seq);
            if (rand_r(&seed) % 16 == 0) { /* what came is not there after all */
                outbox_put(store_outbox(test->fixture.store), SIGNAL_TRACES, 7, 1,
                           numbered_body(9, 30000));
                store_fail(test->fixture.store, -EIO);
                assert_int_equal(store_end(test->fixture.store), -EIO);
                continue;
            }
            fixture_commit(&test->fixture);
            waiting_ones[index] = waiting_ones[--n];
        }
    }
    assert_in_range(recycled(test), 4, 2 * 8);
    expect_no_stray_bodies(test);
    for (unsigned i = 0; i < n; i++)
        expect_numbered(test, waiting_ones[i].seq, waiting_ones[i].size);
    assert_int_equal(waiting("traces") + waiting("logs"), n);
}

/* They go before a request is refused, and while room is short. */
static void test_recycled_bodies_make_room(void **state)
{
    static uint8_t body[BODY_SIZE_MAX];
    struct test *test = *state;
    int error = 0;
    fixture_close(&test->fixture);
    fixture_limit(&test->fixture, 8 << 20);
    fixture_open(&test->fixture);
    for (int64_t seq = 1; seq <= 8; seq++)
        put_numbered(test, SIGNAL_TRACES, seq, 60000);
    for (int64_t seq = 1; seq <= 8; seq++)
        done(test, 0, seq);
    assert_int_equal(recycled(test), 8);
    fixture_begin(&test->fixture);
    while (!error)
        error = outbox_put(store_outbox(test->fixture.store), SIGNAL_LOGS, 1, 1,
                           BYTES(body, sizeof(body)));
    assert_int_equal(error, -ENOSPC);
    fixture_commit(&test->fixture);
    assert_int_equal(recycled(test), 0);
    assert_in_range(waiting("logs"), 90, 98);
    for (int64_t i = 1; i <= waiting("logs"); i++)
        done(test, 0, 8 + i);
    expect_no_stray_bodies(test);
}

static void test_recycled_bodies_go_when_short(void **state)
{
    struct test *test = *state;
    put_numbered(test, SIGNAL_TRACES, 1, 60000);
    done(test, 0, 1);
    collect(test);
    assert_int_equal(recycled(test), 1);
    fixture_close(&test->fixture);
    fixture_limit(&test->fixture, 2 << 20); /* less than recycled bodies may take */
    fixture_open(&test->fixture);
    assert_int_equal(recycled(test), 1);
    collect(test);
    assert_int_equal(recycled(test), 0);
    put_numbered(test, SIGNAL_TRACES, 2, 60000);
    done(test, 0, 2);
    assert_int_equal(recycled(test), 0);
    expect_no_stray_bodies(test);
}

/* One that is not as it was is not taken. */
static void test_damaged_recycled_bodies(void **state)
{
    static const char *const damages[] = {
        "DELETE FROM outbox_body",
        "UPDATE outbox_body SET body = x'00'",
        "UPDATE outbox SET body = 77 WHERE seq < 0",
    };
    struct test *test = *state;
    int64_t seq = 0;
    for (size_t i = 0; i < 2 * sizeof(damages) / sizeof(*damages); i++) {
        put_numbered(test, SIGNAL_TRACES, ++seq, 30000);
        done(test, 0, seq);
        assert_true(recycled(test) > 0);
        fixture_begin(&test->fixture);
        assert_int_equal(db_exec(store_db(test->fixture.store), damages[i / 2]), 0);
        fixture_commit(&test->fixture);
        if (i % 2 || i == 4) /* the last is met at the next start */
            fixture_reopen(&test->fixture);
        put_numbered(test, SIGNAL_TRACES, ++seq, 30000);
        expect_numbered(test, seq, 30000);
        done(test, 0, seq);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_few_pages),
        TEST(test_bodies_stay_apart),
        TEST(test_recycled_bodies_make_room),
        TEST(test_recycled_bodies_go_when_short),
        TEST(test_damaged_recycled_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
