/* SPDX-License-Identifier: Apache-2.0 */
/* Files of earlier versions are read, and the numbers of requests go on. */
#include "base/stats.h"
#include "store/db/schema.h"
#include "test/support/fixtures/outbox_next.h"
#include "test/support/fixtures/db_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void run_sql(struct fixture *fixture, const char *sql)
{
    sqlite3 *handle;
    assert_int_equal(sqlite3_open(fixture_path(fixture, "spanprof.db"), &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(handle);
}

/* A file of an earlier version, as that one made it. */
static void make_version(struct fixture *fixture, int version)
{
    char number[96];
    run_sql(fixture, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL");
    for (int i = 0; i < version; i++)
        run_sql(fixture, schema_steps[i]);
    snprintf(number, sizeof(number), "PRAGMA user_version = %d; PRAGMA application_id = %d",
             version, SCHEMA_APPLICATION_ID);
    run_sql(fixture, number);
}

/* What version 1 held is read by this one. */
static void test_older_schema(void **state)
{
    struct fixture *fixture = *state;
    struct db *db;
    make_version(fixture, 1);
    run_sql(fixture, "INSERT INTO outbox VALUES (1, 0, 7, 11, 1, 1), (2, 0, 5, 13, 1, 1);"
                     "INSERT INTO outbox_body VALUES (1, 'hello world'), (2, 'hello reader.');"
                     "INSERT INTO stack(hash, generation, frames)"
                     " VALUES (x'000102030405060708090a0b0c0d0e0f', 1, x'0102');"
                     "INSERT INTO frame_name VALUES (1, 2, 3, 'f', 'f.c')");
    assert_int_equal(db_open_writer(&fixture->settings.db, &db), 0);
    assert_int_equal(pragma(db, "PRAGMA user_version"), SCHEMA_VERSION);
    assert_int_equal(pragma(db, "SELECT count(*) FROM frame_name"
                                " WHERE line = 3 AND system_name = x'' AND inlined = x''"),
                     1);
    assert_int_equal(
        pragma(db, "SELECT count(*) FROM stack WHERE frames = x'0102' AND same_as IS NULL"), 1);
    assert_int_equal(pragma(db, "SELECT count(*) FROM code_name"), 0);
    assert_int_equal(pragma(db, "SELECT count(*) FROM outbox WHERE signal = 0 AND seq = 0 AND"
                                " items = 12 AND bytes = 24 AND waiting = 2 AND body = 2"),
                     1);
    db_close(db);
}

/* The history of version 8 had another form: it is forgotten, and blocks are counted on. */
static void test_older_history(void **state)
{
    struct fixture *fixture = *state;
    struct db *db;
    make_version(fixture, 8);
    run_sql(fixture, "INSERT INTO history_block VALUES (7, 1, 1, 1, 1, 1, 1, 1, 1, 1);"
                     "INSERT INTO history_part VALUES (21, x'00'), (22, x'01'), (23, x'02');"
                     "INSERT INTO history_minute VALUES (3, 1, 7, 1, 1, 1, 1, 1);"
                     "INSERT INTO history_minute_entries VALUES (3, x'00');"
                     "INSERT INTO history_minute_stacks VALUES (3, x'00');"
                     "INSERT INTO history_text(hash, generation, body)"
                     " VALUES (x'000102030405060708090a0b0c0d0e0f', 1, x'61')");
    assert_int_equal(db_open_writer(&fixture->settings.db, &db), 0);
    assert_int_equal(pragma(db, "PRAGMA user_version"), SCHEMA_VERSION);
    assert_int_equal(pragma(db, "SELECT (SELECT count(*) FROM history_block)"
                                " + (SELECT count(*) FROM history_part)"
                                " + (SELECT count(*) FROM history_minute)"
                                " + (SELECT count(*) FROM history_minute_entries)"
                                " + (SELECT count(*) FROM history_minute_stacks)"),
                     0);
    assert_int_equal(pragma(db, "SELECT seq FROM sqlite_sequence WHERE name = 'history_block'"), 7);
    assert_int_equal(pragma(db, "SELECT count(*) FROM history_text WHERE body = x'61'"), 1);
    db_close(db);
}

static int64_t put_one(struct fixture *fixture, enum signal signal, struct bytes body)
{
    fixture_begin(fixture);
    assert_int_equal(outbox_put(store_outbox(fixture->store), signal, 3, 1, body), 0);
    fixture_commit(fixture);
    return pragma(store_db(fixture->store), "SELECT max(seq) FROM outbox");
}

static void done_one(struct fixture *fixture, int64_t seq)
{
    fixture_begin(fixture);
    assert_int_equal(outbox_done(store_outbox(fixture->store), 0, seq), 0);
    fixture_commit(fixture);
}

static void expect_next(struct fixture *fixture, int64_t seq, struct bytes body)
{
    struct db *db;
    struct outbox_reader *reader;
    struct outbox_item item;
    assert_int_equal(db_open_reader(&fixture->settings.db, &db), 0);
    assert_int_equal(outbox_reader_open(db, &reader), 0);
    assert_int_equal(outbox_next(reader, "first", 0, &item), 0);
    assert_int_equal(item.seq, seq);
    assert_true(bytes_equal(buf_bytes(&item.body), body));
    buf_close(&item.body);
    outbox_reader_close(reader);
    db_close(db);
}

/* The outbox of version 9: what waits is sent and marked as before, seqs go on. */
static void test_older_outbox(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t body[20000];
    make_version(fixture, 9);
    run_sql(fixture, "INSERT INTO destination VALUES (0, 'first'), (1, 'second');"
                     "INSERT INTO outbox VALUES (5, 3, 7, 1, 1, 1), (8, 0, 5, 20000, 1, 1),"
                     " (9, 0, 4, 2, 1, 3), (40, 0, 1, 1, 1, 1);"
                     "INSERT INTO outbox_body VALUES (5, 'a'), (8, zeroblob(20000)), (9, 'hi');"
                     "INSERT INTO outbox_total VALUES (0, 9, 20002, 2), (3, 7, 1, 1), (1, 0, 0, 0);"
                     "DELETE FROM outbox WHERE seq = 40");
    fixture_open(fixture);
    struct db *db = store_db(fixture->store);
    assert_int_equal(pragma(db, "PRAGMA user_version"), SCHEMA_VERSION);
    assert_int_equal(pragma(db, "SELECT count(*) FROM sqlite_sequence WHERE name LIKE 'outbox%'"),
                     0);
    assert_int_equal(stats_find("spanprof_outbox_items", "signal=\"traces\""), 9);
    assert_int_equal(stats_find("spanprof_outbox_size_bytes", "signal=\"traces\""), 20002);
    assert_int_equal(stats_find("spanprof_outbox_requests", "signal=\"traces\""), 2);
    assert_int_equal(stats_find("spanprof_outbox_requests", "signal=\"logs\""), 1);
    expect_next(fixture, 5, BYTES_LIT("a"));
    done_one(fixture, 5);
    expect_next(fixture, 8, BYTES(body, sizeof(body)));
    done_one(fixture, 8);
    expect_next(fixture, 9, BYTES_LIT("hi"));
    done_one(fixture, 9);
    assert_int_equal(stats_find("spanprof_outbox_requests", "signal=\"traces\""), 1);
    assert_int_equal(put_one(fixture, SIGNAL_TRACES, BYTES(body, 19000)), 41);
    expect_next(fixture, 41, BYTES(body, 19000));
}

/* Small requests up to the quota: rows need room twice, while they are copied. */
static void test_older_outbox_full(void **state)
{
    struct fixture *fixture = *state;
    make_version(fixture, 9);
    run_sql(fixture, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE"
                     " i < 20000) INSERT INTO outbox SELECT i, 0, 1, 1, 1700000000000000000, 1"
                     " FROM n;"
                     "INSERT INTO outbox_body SELECT seq, 'x' FROM outbox;"
                     "INSERT INTO outbox_total VALUES (0, 20000, 20000, 20000);"
                     "INSERT INTO destination VALUES (0, 'first'), (1, 'second')");
    fixture_limit(fixture, 1 << 20);
    fixture_open(fixture);
    assert_int_equal(stats_find("spanprof_outbox_requests", "signal=\"traces\""), 20000);
    fixture_begin(fixture);
    for (int64_t seq = 1; seq <= 20000; seq++)
        assert_int_equal(outbox_done(store_outbox(fixture->store), 0, seq), 0);
    fixture_commit(fixture);
    assert_int_equal(put_one(fixture, SIGNAL_TRACES, BYTES_LIT("x")), 20001);
}

/* Of a file in which none ever waited since the sums are kept, too. */
static void test_older_outbox_empty(void **state)
{
    struct fixture *fixture = *state;
    make_version(fixture, 6);
    run_sql(fixture, "INSERT INTO outbox VALUES (70, 0, 7, 11, 1, 1); DELETE FROM outbox");
    fixture_open(fixture);
    assert_int_equal(stats_find("spanprof_outbox_requests", "signal=\"traces\""), 0);
    assert_int_equal(put_one(fixture, SIGNAL_LOGS, BYTES_LIT("x")), 71);
}

/* A seq is given once, also when all requests are gone, and the process that gave it. */
static void test_seqs_go_on(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t body[20000];
    fixture_open(fixture);
    for (int64_t seq = 1; seq < 20; seq++) {
        assert_int_equal(put_one(fixture, seq % 3 ? SIGNAL_TRACES : SIGNAL_LOGS,
                                 BYTES(body, seq % 2 ? 1 : sizeof(body))),
                         seq);
        done_one(fixture, seq);
        if (seq % 4 == 0)
            fixture_reopen(fixture);
    }
    run_sql(fixture, "UPDATE outbox SET body = 3 WHERE seq = 0"); /* a damaged sum */
    assert_int_equal(put_one(fixture, SIGNAL_LOGS, BYTES_LIT("x")), 20);
    run_sql(fixture, "UPDATE outbox SET body = 3 WHERE seq = 0");
    fixture_reopen(fixture);
    assert_int_equal(put_one(fixture, SIGNAL_TRACES, BYTES_LIT("x")), 21);
}

/* A damaged sum that leaves none to be given. */
static void test_seqs_spent(void **state)
{
    struct fixture *fixture = *state;
    fixture_open(fixture);
    fixture_close(fixture);
    int64_t before = stats_find("spanprof_store_corrupt_total", "");
    run_sql(fixture, "UPDATE outbox SET body = 9223372036854775807 WHERE seq = 0 AND signal = 2");
    fixture_open(fixture);
    assert_int_equal(stats_find("spanprof_store_corrupt_total", ""), before + 1);
    assert_int_equal(put_one(fixture, SIGNAL_TRACES, BYTES_LIT("x")), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_older_schema),       TEST(test_older_history),     TEST(test_older_outbox),
        TEST(test_older_outbox_empty), TEST(test_older_outbox_full), TEST(test_seqs_go_on),
        TEST(test_seqs_spent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
