/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stats.h"
#include "store/db/schema.h"
#include "test/support/fixtures/outbox_next.h"
#include "test/support/fixtures/db_fixture.h"
#include "test/support/faults/aborts.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

static void test_settings(void **state)
{
    struct fixture *fixture = *state;
    struct db *db;
    fixture->settings.db.sync = DB_SYNC_FULL;
    fixture_limit(fixture, 1 << 22);
    assert_int_equal(db_open_writer(&fixture->settings.db, &db), 0);
    assert_int_equal(pragma(db, "PRAGMA auto_vacuum"), 2);
    assert_int_equal(pragma(db, "PRAGMA secure_delete"), 0);
    assert_int_equal(pragma(db, "PRAGMA synchronous"), 2);
    assert_int_equal(pragma(db, "PRAGMA trusted_schema"), 0);
    assert_int_equal(pragma(db, "PRAGMA cell_size_check"), 1);
    assert_int_equal(pragma(db, "PRAGMA mmap_size"), 0);
    assert_int_equal(pragma(db, "PRAGMA max_page_count"), 1024);
    assert_int_equal(pragma(db, "PRAGMA busy_timeout"), 1000);
    assert_int_equal(pragma(db, "PRAGMA user_version"), SCHEMA_VERSION);
    assert_int_equal(pragma(db, "PRAGMA application_id"), SCHEMA_APPLICATION_ID);
    assert_true(access(fixture_path(fixture, "spanprof.db-wal"), F_OK) == 0);
    db_close(db);
}

static void test_directory(void **state)
{
    struct fixture *fixture = *state;
    struct db *db;
    char command[600];
    char *deep = strdup(fixture_path(fixture, "a/b"));
    fixture->settings.db.directory = deep;
    assert_int_equal(db_open_writer(&fixture->settings.db, &db), 0);
    db_close(db);
    fixture->settings.db.directory = fixture->directory;
    snprintf(command, sizeof(command), "test $(stat -c %%a %s) = 700 && rm -r %s", deep,
             fixture_path(fixture, "a"));
    assert_int_equal(system(command), 0);
    free(deep);
}

static void test_two_instances(void **state)
{
    struct fixture *fixture = *state;
    struct db *one, *two;
    assert_int_equal(db_open_writer(&fixture->settings.db, &one), 0);
    assert_int_equal(db_open_writer(&fixture->settings.db, &two), -EBUSY);
    db_close(one);
    assert_int_equal(db_open_writer(&fixture->settings.db, &two), 0);
    db_close(two);
}

/* As another account, since root may write anywhere. */
static void test_unwritable(void **state)
{
    struct fixture *fixture = *state;
    struct db *db;
    int status;
    pid_t child = fork();
    if (!child) {
        if (!geteuid() && setresuid(65534, 65534, 65534))
            _exit(1);
        fixture->settings.db.directory = "/proc/no-such";
        int expected = db_open_writer(&fixture->settings.db, &db);
        _exit(expected == -ENOENT || expected == -EACCES ? 0 : 2);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    child = fork();
    if (!child) {
        if (!geteuid() && setresuid(65534, 65534, 65534))
            _exit(1);
        fixture->settings.db.directory = "/usr";
        _exit(db_open_writer(&fixture->settings.db, &db) == -EACCES ? 0 : 2);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

static void run_sql(struct fixture *fixture, const char *sql)
{
    sqlite3 *handle;
    assert_int_equal(sqlite3_open(fixture_path(fixture, "spanprof.db"), &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(handle);
}

static bool is_file(struct fixture *fixture, const char *name)
{
    return access(fixture_path(fixture, name), F_OK) == 0;
}

static void put_request(struct fixture *fixture)
{
    fixture_begin(fixture);
    assert_int_equal(outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1, BYTES_LIT("x")),
                     0);
    fixture_commit(fixture);
}

/* An empty store takes the place of the newer one, which can be taken back. */
static void test_newer_schema(void **state)
{
    struct fixture *fixture = *state;
    int64_t before = stats_find("spanprof_store_newer_total", "");
    fixture_open(fixture);
    put_request(fixture);
    put_request(fixture);
    fixture_close(fixture);
    run_sql(fixture, "PRAGMA user_version = 1000");
    fixture_open(fixture);
    assert_int_equal(stats_find("spanprof_store_newer_total", ""), before + 1);
    assert_int_equal(stats_find("spanprof_outbox_requests", "signal=\"traces\""), 0);
    put_request(fixture);
    fixture_reopen(fixture);
    assert_int_equal(stats_find("spanprof_store_newer_total", ""), before + 1);
    assert_int_equal(stats_find("spanprof_outbox_requests", "signal=\"traces\""), 1);
    fixture_close(fixture);
    char newer[600];
    snprintf(newer, sizeof(newer), "%s", fixture_path(fixture, "spanprof.db.newer"));
    assert_int_equal(rename(newer, fixture_path(fixture, "spanprof.db")), 0);
    char back[64];
    snprintf(back, sizeof(back), "PRAGMA user_version = %d", SCHEMA_VERSION);
    run_sql(fixture, back);
    fixture_open(fixture);
    assert_int_equal(stats_find("spanprof_outbox_requests", "signal=\"traces\""), 2);
}

static void test_not_ours(void **state)
{
    struct fixture *fixture = *state;
    struct db *db;
    run_sql(fixture, "CREATE TABLE theirs(a); INSERT INTO theirs VALUES (1)");
    assert_int_equal(db_open_writer(&fixture->settings.db, &db), -ENOTSUP);
    assert_int_not_equal(access(fixture_path(fixture, "spanprof.db.corrupt"), F_OK), 0);
}

static int64_t corrupt_count(void)
{
    return stats_find("spanprof_store_corrupt_total", "");
}

static void expect_put_aside(struct fixture *fixture)
{
    int64_t before = corrupt_count();
    fixture_open(fixture);
    assert_int_equal(corrupt_count(), before + 1);
    assert_int_equal(access(fixture_path(fixture, "spanprof.db.corrupt"), F_OK), 0);
    fixture_begin(fixture);
    assert_int_equal(outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1, BYTES_LIT("x")),
                     0);
    fixture_commit(fixture);
    fixture_reopen(fixture);
    assert_int_equal(corrupt_count(), before + 1);
}

static void test_garbage(void **state)
{
    struct fixture *fixture = *state;
    char garbage[8192];
    for (size_t i = 0; i < sizeof(garbage); i++)
        garbage[i] = (char)(i * 7);
    write_file(fixture_path(fixture, "spanprof.db"), garbage, sizeof(garbage));
    expect_put_aside(fixture);
}

/* The two latest are kept, and no more. */
static void test_two_are_kept(void **state)
{
    struct fixture *fixture = *state;
    for (char n = 'a'; n <= 'd'; n++) {
        char bytes[2][9];
        memset(bytes[0], n, sizeof(bytes[0]));
        write_file(fixture_path(fixture, "spanprof.db"), bytes[0], sizeof(bytes[0]));
        fixture_open(fixture);
        fixture_close(fixture);
        FILE *file = fopen(fixture_path(fixture, "spanprof.db.corrupt"), "rb");
        assert_non_null(file);
        assert_int_equal(fread(bytes[1], 1, sizeof(bytes[1]), file), sizeof(bytes[1]));
        fclose(file);
        assert_memory_equal(bytes[0], bytes[1], sizeof(bytes[0]));
        file = fopen(fixture_path(fixture, "spanprof.db.corrupt.1"), "rb");
        assert_int_equal(file != NULL, n > 'a');
        if (!file)
            continue;
        assert_int_equal(fgetc(file), n - 1);
        fclose(file);
    }
    assert_false(is_file(fixture, "spanprof.db.corrupt.2"));
}

/* The header is fine, the first page of the schema is not. */
static void test_bad_schema_page(void **state)
{
    struct fixture *fixture = *state;
    fixture_open(fixture);
    fixture_close(fixture);
    FILE *file = fopen(fixture_path(fixture, "spanprof.db"), "r+b");
    assert_non_null(file);
    fseek(file, 100, SEEK_SET);
    for (int i = 100; i < 4096; i++)
        fputc(0x5a, file);
    fclose(file);
    expect_put_aside(fixture);
}

/* The numbers that say which SQLite may write and read the file. */
static void test_bad_format_numbers(void **state)
{
    struct fixture *fixture = *state;
    fixture_open(fixture);
    for (long at = 18; at < 20; at++) {
        fixture_close(fixture);
        FILE *file = fopen(fixture_path(fixture, "spanprof.db"), "r+b");
        assert_non_null(file);
        fseek(file, at, SEEK_SET);
        fputc(0x16, file);
        fclose(file);
        expect_put_aside(fixture);
    }
}

static void test_missing_table(void **state)
{
    struct fixture *fixture = *state;
    fixture_open(fixture);
    fixture_close(fixture);
    run_sql(fixture, "DROP TABLE tally");
    expect_put_aside(fixture);
}

static void test_truncated(void **state)
{
    struct fixture *fixture = *state;
    fixture_open(fixture);
    fixture_stack(fixture, 1);
    fixture_close(fixture);
    assert_int_equal(truncate(fixture_path(fixture, "spanprof.db"), 3 * 4096 + 100), 0);
    expect_put_aside(fixture);
}

static void test_empty_file(void **state)
{
    struct fixture *fixture = *state;
    int64_t before = corrupt_count();
    write_file(fixture_path(fixture, "spanprof.db"), "", 0);
    fixture_open(fixture);
    assert_int_equal(corrupt_count(), before);
}

/* Quota: puts are refused while deletes still have room, and after them there is room again. */
static void test_quota(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t body[32768];
    int64_t n = 0;
    int error = 0;
    fixture_limit(fixture, 8 << 20);
    fixture_open(fixture);
    while (!error && n < 1000) {
        fixture_begin(fixture);
        error = outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1,
                           BYTES(body, sizeof(body)));
        fixture_commit(fixture);
        n += !error;
    }
    assert_int_equal(error, -ENOSPC);
    assert_in_range(n, 150, 256);
    assert_true(db_size_bytes(store_db(fixture->store)) <= 8 << 20);
    assert_int_equal(stats_find("spanprof_outbox_requests", "signal=\"traces\""), n);
    fixture_reopen(fixture); /* the limit holds after a restart as well */
    fixture_begin(fixture);
    assert_false(db_has_room(store_db(fixture->store)));
    assert_int_equal(outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1, BYTES_LIT("x")),
                     -ENOSPC);
    for (int64_t seq = 1; seq <= n; seq++)
        assert_int_equal(outbox_done(store_outbox(fixture->store), 0, seq), 0);
    fixture_commit(fixture);
    fixture_begin(fixture);
    assert_true(db_has_room(store_db(fixture->store)));
    assert_int_equal(outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1, BYTES_LIT("x")),
                     0);
    fixture_commit(fixture);
}

/* Past the reserve SQLite itself says no: nothing of the transaction stays. */
static void test_hard_quota(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t body[1 << 20];
    fixture_limit(fixture, 2 << 20);
    fixture_open(fixture);
    fixture_begin(fixture);
    assert_int_equal(
        outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1, BYTES(body, sizeof(body))),
        0);
    int error = db_exec(store_db(fixture->store),
                        "INSERT INTO outbox_body(id, body) VALUES (1000, zeroblob(1500000))");
    db_fail(store_db(fixture->store), error);
    assert_int_equal(error, -ENOSPC);
    assert_false(db_in_transaction(store_db(fixture->store))); /* and what follows is no other */
    assert_int_equal(outbox_put(store_outbox(fixture->store), SIGNAL_LOGS, 1, 1, BYTES_LIT("x")),
                     -ENOSPC);
    assert_int_equal(store_end(fixture->store), -ENOSPC);
    assert_int_equal(stats_find("spanprof_outbox_requests", "signal=\"traces\""), 0);
    assert_int_equal(pragma(store_db(fixture->store), "SELECT count(*) FROM outbox WHERE seq <> 0"),
                     0);
    fixture_begin(fixture);
    assert_int_equal(outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1, BYTES_LIT("x")),
                     0);
    fixture_commit(fixture);
}

/* The writer puts a corrupt file aside while a reader has it open; the reader follows. */
static void test_renew(void **state)
{
    struct fixture *fixture = *state;
    struct db *reader;
    struct outbox_reader *outbox;
    struct outbox_item item;
    fixture_open(fixture);
    assert_int_equal(db_open_reader(&fixture->settings.db, &reader), 0);
    assert_int_equal(outbox_reader_open(reader, &outbox), 0);
    fixture_begin(fixture);
    outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1, BYTES_LIT("old"));
    fixture_commit(fixture);
    assert_int_equal(outbox_next(outbox, "first", 0, &item), 0);
    buf_close(&item.body);
    uint64_t generation = store_generation(fixture->store);
    fixture_begin(fixture);
    store_fail(fixture->store, -EUCLEAN);
    assert_int_equal(store_end(fixture->store), -EUCLEAN);
    assert_true(store_generation(fixture->store) > generation);
    assert_int_equal(access(fixture_path(fixture, "spanprof.db.corrupt"), F_OK), 0);
    assert_int_equal(outbox_next(outbox, "first", 0, &item), -ENOENT);
    fixture_begin(fixture);
    assert_int_equal(
        outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1, BYTES_LIT("new")), 0);
    fixture_commit(fixture);
    assert_int_equal(outbox_next(outbox, "first", 0, &item), 0);
    assert_true(bytes_is(buf_bytes(&item.body), "new"));
    buf_close(&item.body);
    outbox_reader_close(outbox);
    db_close(reader); /* must not take the newer log with it */
    fixture_begin(fixture);
    outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1, BYTES_LIT("newer"));
    fixture_commit(fixture);
    fixture_reopen(fixture);
    assert_int_equal(stats_find("spanprof_outbox_requests", "signal=\"traces\""), 2);
}

static void test_reader_cannot_write(void **state)
{
    struct fixture *fixture = *state;
    struct db *reader;
    fixture_open(fixture);
    assert_int_equal(db_open_reader(&fixture->settings.db, &reader), 0);
    assert_true(db_exec(reader, "INSERT INTO tally(id, body) VALUES (1, x'00')") < 0);
    db_close(reader);
}

static void test_failed_step(void **state)
{
    struct fixture *fixture = *state;
    struct db *db;
    sqlite3_stmt *put;
    assert_int_equal(db_open_writer(&fixture->settings.db, &db), 0);
    assert_int_equal(db_prepare(db, "INSERT INTO tally(id, body) VALUES (1, x'00')", &put), 0);
    assert_int_equal(db_begin(db), 0);
    assert_int_equal(db_run(db, put), 0);
    assert_int_equal(db_run(db, put), -EBADMSG); /* twice the same rowid */
    assert_int_equal(db_commit(db), -EBADMSG);
    assert_false(db_in_transaction(db));
    assert_true(db_has_refused(db));
    assert_false(db_table_is_damaged(db));
    assert_false(db_has_refused(db));
    assert_int_equal(pragma(db, "SELECT count(*) FROM tally"), 0);
    assert_int_equal(db_begin(db), 0);
    assert_int_equal(db_run(db, put), 0);
    assert_int_equal(db_commit(db), 0);
    db_close(db); /* finalizes what is left */
}

/* An index of another table stands in for the table's own. */
#define WRONG_INDEX                                                                                \
    "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM"       \
    " sqlite_schema WHERE name = 'sqlite_autoindex_stack_1')"                                      \
    " WHERE name = 'sqlite_autoindex_history_text_1'"

static void insert_text(struct fixture *fixture, sqlite3_stmt **put)
{
    assert_int_equal(db_prepare(store_db(fixture->store),
                                "INSERT INTO history_text(hash, generation, body)"
                                " SELECT hash, 1, x'00' FROM stack LIMIT 1",
                                put),
                     0);
}

/* What looks like a request's fault is the file's: the check of the table says so. */
static void test_damaged_index(void **state)
{
    struct fixture *fixture = *state;
    static sqlite3_stmt *put; /* until the store is closed */
    int64_t before = corrupt_count();
    fixture_open(fixture);
    fixture_stack(fixture, 1);
    fixture_close(fixture);
    run_sql(fixture, WRONG_INDEX);
    fixture_open(fixture);
    assert_int_equal(corrupt_count(), before); /* not seen so far */
    insert_text(fixture, &put);
    assert_int_equal(store_begin(fixture->store), 0);
    assert_int_equal(db_run(store_db(fixture->store), put), -EBADMSG);
    assert_int_equal(store_end(fixture->store), -EBADMSG);
    assert_int_equal(corrupt_count(), before + 1);
    put_request(fixture);
}

/* A request that SQLite refuses costs its transaction, not the store, until nothing else passes. */
static void test_refused_statement(void **state)
{
    struct fixture *fixture = *state;
    static sqlite3_stmt *put; /* until the store is closed */
    int64_t before = corrupt_count();
    fixture_open(fixture);
    fixture_stack(fixture, 1);
    put_request(fixture);
    insert_text(fixture, &put);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(store_begin(fixture->store), 0);
        assert_int_equal(db_run(store_db(fixture->store), put), 0);
        assert_int_equal(db_run(store_db(fixture->store), put), -EBADMSG);
        assert_int_equal(store_end(fixture->store), -EBADMSG);
        if (i % 2)
            put_request(fixture);
    }
    assert_int_equal(corrupt_count(), before);
    assert_int_equal(stats_find("spanprof_outbox_requests", "signal=\"traces\""), 5);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(store_begin(fixture->store), 0);
        db_run(store_db(fixture->store), put);
        assert_int_equal(db_run(store_db(fixture->store), put), -EBADMSG);
        assert_int_equal(store_end(fixture->store), -EBADMSG);
    }
    assert_int_equal(corrupt_count(), before + 1);
    put_request(fixture);
}

static void *begin_main(void *context)
{
    return db_begin(context) ? context : NULL;
}

static void begin_elsewhere(void *context)
{
    pthread_t thread;
    void *failed = NULL;
    assert_int_equal(pthread_create(&thread, NULL, begin_main, context), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
}

static void call_writer_thread(void *context)
{
    struct db *db = context;
    WRITER_THREAD(db);
}

/* The first thread that begins owns it; a reader never passes for the writer. */
static void test_threads(void **state)
{
    struct fixture *fixture = *state;
    struct db *db, *reader;
    assert_int_equal(db_open_writer(&fixture->settings.db, &db), 0);
    assert_int_equal(db_open_reader(&fixture->settings.db, &reader), 0);
    assert_int_equal(db_begin(db), 0);
    assert_int_equal(db_rollback(db), 0);
    WRITER_THREAD(db);
    assert_true(aborts(begin_elsewhere, db));
    DB_THREAD(reader);
    assert_true(aborts(call_writer_thread, reader));
    db_release_thread(db);
    begin_elsewhere(db);
    assert_true(aborts(call_writer_thread, db));
    db_release_thread(db);
    assert_int_equal(db_rollback(db), 0);
    db_close(reader);
    db_close(db);
}

struct lock_holder {
    sqlite3 *handle;
    sem_t holds;
};

static void *hold_lock(void *context)
{
    struct lock_holder *holder = context;
    int code = sqlite3_exec(holder->handle, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    sem_post(&holder->holds);
    usleep(20000);
    sqlite3_exec(holder->handle, "ROLLBACK", NULL, NULL, NULL);
    return code == SQLITE_OK ? NULL : holder;
}

/* A reader of SQLite may hold the writer's lock for a moment: the writer waits. */
static void test_lock_held(void **state)
{
    struct fixture *fixture = *state;
    struct lock_holder holder;
    struct db *db;
    pthread_t thread;
    void *failed;
    assert_int_equal(db_open_writer(&fixture->settings.db, &db), 0);
    assert_int_equal(sqlite3_open(fixture_path(fixture, "spanprof.db"), &holder.handle), SQLITE_OK);
    assert_int_equal(sem_init(&holder.holds, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, hold_lock, &holder), 0);
    sem_wait(&holder.holds);
    assert_int_equal(db_begin(db), 0);
    assert_int_equal(db_commit(db), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    sqlite3_close(holder.handle);
    db_close(db);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_settings),
        TEST(test_directory),
        TEST(test_two_instances),
        TEST(test_unwritable),
        TEST(test_newer_schema),
        TEST(test_not_ours),
        TEST(test_garbage),
        TEST(test_bad_schema_page),
        TEST(test_bad_format_numbers),
        TEST(test_missing_table),
        TEST(test_truncated),
        TEST(test_empty_file),
        TEST(test_quota),
        TEST(test_hard_quota),
        TEST(test_renew),
        TEST(test_reader_cannot_write),
        TEST(test_failed_step),
        TEST(test_damaged_index),
        TEST(test_refused_statement),
        TEST(test_two_are_kept),
        TEST(test_threads),
        TEST(test_lock_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
