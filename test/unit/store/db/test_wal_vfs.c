/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection with the VFS writes is what a plain one reads, and takes fewer calls. */
#include "store/db/wal_vfs.h"
#include "test/support/fixtures/skip.h"
#include <errno.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { COMMITS = 50, BODY_BYTES = 33000 };

struct test {
    char directory[32], path[48];
    struct wal_vfs *vfs;
    sqlite3 *writer, *reader; /* the reader knows nothing of the VFS */
};

static void run(sqlite3 *db, const char *sql)
{
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return n;
}

static void open_pair(struct test *test, const char *page_size)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    strcpy(test->directory, "/tmp/spanprof-wal-XXXXXX");
    assert_non_null(mkdtemp(test->directory));
    snprintf(test->path, sizeof(test->path), "%s/db", test->directory);
    assert_int_equal(wal_vfs_open(NULL, &test->vfs), 0);
    assert_int_equal(sqlite3_open_v2(test->path, &test->writer, flags, wal_vfs_name(test->vfs)),
                     SQLITE_OK);
    run(test->writer, page_size);
    run(test->writer, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=20;"
                      "PRAGMA wal_autocheckpoint=0;"
                      "CREATE TABLE t(id INTEGER PRIMARY KEY, body BLOB)");
    assert_int_equal(sqlite3_open_v2(test->path, &test->reader, SQLITE_OPEN_READWRITE, "unix"),
                     SQLITE_OK);
}

static void close_pair(struct test *test)
{
    char command[64];
    sqlite3_stmt *check;
    assert_int_equal(sqlite3_prepare_v2(test->reader, "PRAGMA integrity_check", -1, &check, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(check), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(check, 0), "ok");
    sqlite3_finalize(check);
    assert_int_equal(sqlite3_close(test->reader), SQLITE_OK);
    assert_int_equal(sqlite3_close(test->writer), SQLITE_OK);
    wal_vfs_close(test->vfs);
    snprintf(command, sizeof(command), "rm -r %s", test->directory);
    assert_int_equal(system(command), 0);
}

static void put(struct test *test, int n_rows)
{
    char sql[160];
    snprintf(sql, sizeof(sql),
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
             " INSERT INTO t(body) SELECT randomblob(%d) FROM n",
             n_rows, BODY_BYTES);
    run(test->writer, sql);
}

/* Calls of the system that write, of this process. */
static int64_t n_writes(void)
{
    char text[512] = "";
    long long n = 0;
    FILE *file = fopen("/proc/self/io", "re");
    if (!file)
        skip_because("no /proc/self/io");
    size_t len = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[len] = 0;
    const char *at = strstr(text, "syscw: ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "syscw: %lld", &n), 1);
    return n;
}

static void test_a_commit_is_one_write(void **state)
{
    struct test test;
    (void)state;
    open_pair(&test, "PRAGMA page_size=4096");
    put(&test, 1);
    int64_t before = n_writes();
    for (int i = 0; i < COMMITS; i++)
        put(&test, 1);
    assert_in_range(n_writes() - before, COMMITS, COMMITS + 5); /* 22 each without */
    close_pair(&test);
}

/* Also more than is gathered, and more than the cache holds: pages are written before the commit.
 */
static void check_commits(const char *page_size)
{
    struct test test;
    int64_t rows = 0;
    open_pair(&test, page_size);
    for (int n = 1; n < COMMITS; n += n) {
        put(&test, n);
        rows += n;
        assert_int_equal(number(test.reader, "SELECT count(*) FROM t"), rows);
        assert_int_equal(number(test.reader, "SELECT sum(length(body)) FROM t"), rows * BODY_BYTES);
    }
    close_pair(&test);
}

static void test_others_see_each_commit(void **state)
{
    (void)state;
    check_commits("PRAGMA page_size=4096");
}

static void test_other_page_sizes(void **state)
{
    (void)state;
    check_commits("PRAGMA page_size=1024");
    check_commits("PRAGMA page_size=16384");
}

/* Nothing of it is seen; within one that goes on pages are written twice, and read back. */
static void test_rolled_back(void **state)
{
    struct test test;
    (void)state;
    open_pair(&test, "PRAGMA page_size=4096");
    put(&test, 3);
    run(test.writer, "BEGIN");
    put(&test, 20);
    assert_int_equal(number(test.writer, "SELECT sum(length(body)) FROM t"), 23 * BODY_BYTES);
    assert_int_equal(number(test.reader, "SELECT count(*) FROM t"), 3);
    run(test.writer, "ROLLBACK");
    run(test.writer, "BEGIN; SAVEPOINT s");
    put(&test, 20);
    run(test.writer, "ROLLBACK TO s");
    put(&test, 9);
    run(test.writer, "UPDATE t SET body = randomblob(7) WHERE id % 2");
    put(&test, 9);
    run(test.writer, "UPDATE t SET body = randomblob(7)");
    assert_int_equal(number(test.reader, "SELECT sum(length(body)) FROM t"), 3 * BODY_BYTES);
    run(test.writer, "COMMIT");
    assert_int_equal(number(test.reader, "SELECT sum(length(body)) FROM t"), 21 * 7);
    close_pair(&test);
}

/* The log is begun anew behind a checkpoint, cut, and synced at each commit. */
static void test_checkpoints(void **state)
{
    struct test test;
    (void)state;
    open_pair(&test, "PRAGMA page_size=4096");
    for (int i = 1; i <= 12; i++) {
        put(&test, 5);
        if (i % 3 == 0)
            run(test.writer, i % 2 ? "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous=FULL"
                                   : "PRAGMA wal_checkpoint(PASSIVE)");
        assert_int_equal(number(test.reader, "SELECT count(*) FROM t"), i * 5);
    }
    close_pair(&test);
}

/* What a crash leaves: the files as they are, without what other processes share in memory. */
static int64_t rows_after_crash(const struct test *test)
{
    char command[200], path[64];
    sqlite3 *db;
    snprintf(command, sizeof(command), "mkdir -p %s/crash && cp %s %s-wal %s/crash/",
             test->directory, test->path, test->path, test->directory);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof(path), "%s/crash/db", test->directory);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, "unix"), SQLITE_OK);
    int64_t n = number(db, "SELECT count(*) FROM t WHERE length(body) = 7");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return n;
}

/* Pages that were written before the commit, and changed since, are written again in their places;
 * then the checksums of all frames behind them. */
static void test_rewritten_before_commit(void **state)
{
    struct test test;
    (void)state;
    open_pair(&test, "PRAGMA page_size=4096");
    for (int i = 1; i <= 6; i++) {
        run(test.writer, "BEGIN");
        put(&test, 10);
        run(test.writer, "UPDATE t SET body = randomblob(7)");
        run(test.writer, "COMMIT");
        assert_int_equal(rows_after_crash(&test), i * 10);
        if (i % 3 == 0)
            run(test.writer, "PRAGMA wal_checkpoint(PASSIVE)");
    }
    close_pair(&test);
}

static void assert_pages(struct test *test)
{
    assert_int_equal(wal_vfs_take_pages(test->vfs), number(test->writer, "PRAGMA page_count"));
    assert_int_equal(wal_vfs_take_pages(test->vfs), 0);
}

/* As large as SQLite says, after what makes it larger, smaller or neither. */
static void test_pages_by_the_commit(void **state)
{
    struct test test;
    (void)state;
    open_pair(&test, "PRAGMA page_size=4096; PRAGMA auto_vacuum=INCREMENTAL");
    assert_pages(&test);
    for (int n = 1; n < COMMITS; n += n) {
        put(&test, n);
        assert_pages(&test);
        run(test.writer, "BEGIN");
        put(&test, n);
        run(test.writer, "UPDATE t SET body = randomblob(7) WHERE id % 2; COMMIT");
        assert_pages(&test);
        run(test.writer, n % 3 ? "PRAGMA wal_checkpoint(TRUNCATE)" : "PRAGMA wal_checkpoint");
        run(test.writer, "BEGIN");
        put(&test, 1);
        run(test.writer, "ROLLBACK; BEGIN; COMMIT");
        assert_int_equal(wal_vfs_take_pages(test.vfs), 0);
        run(test.writer, "DELETE FROM t WHERE id % 2 = 0; PRAGMA incremental_vacuum");
        assert_pages(&test);
    }
    close_pair(&test);
}

static void test_nothing_below(void **state)
{
    struct wal_vfs *vfs = NULL;
    (void)state;
    assert_int_equal(wal_vfs_open("there is none such", &vfs), -ENOENT);
    assert_null(vfs);
    wal_vfs_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_commit_is_one_write),
        cmocka_unit_test(test_others_see_each_commit),
        cmocka_unit_test(test_other_page_sizes),
        cmocka_unit_test(test_rolled_back),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_rewritten_before_commit),
        cmocka_unit_test(test_pages_by_the_commit),
        cmocka_unit_test(test_nothing_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
