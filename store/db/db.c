/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db keeps the address of each caller's statement pointer. When a new file replaces a corrupt one,
 * each statement is prepared again in place, and the modules need not know.
 */
#include "store/db/db_state.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/stats.h"
#include "store/db/log_limit.h"
#include "store/db/wal_vfs.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ROOM_LEAST         (64 << 10)  /* less room counts as none: rows need extra pages */
#define EMPTY_PAGES        64          /* pages of empty tables and indices, with slack */
#define ROOM_PAGES_MIN     64          /* quota: pages kept for deletes */
#define ROOM_QUOTA_PART    16          /* and a part of the quota */
#define ROOM_DISK_MAX      (256 << 20) /* disk: 5 % or this, the smaller */
#define ROOM_DISK_PART     20
#define VACUUM_SLACK_PAGES 2048 /* free pages kept for later writes */
#define VACUUM_STEP_PAGES  512

enum rollback { ROLLBACK_FULL, ROLLBACK_CORRUPT, ROLLBACK_STATEMENT, ROLLBACK_OTHER, ROLLBACKS };

static const char *const rollback_names[] = {[ROLLBACK_FULL] = "full",
                                             [ROLLBACK_CORRUPT] = "corrupt",
                                             [ROLLBACK_STATEMENT] = "statement",
                                             [ROLLBACK_OTHER] = "other"};
STAT_LOSSES(rollbacks, "spanprof_store_rollbacks_total",
            "Transactions of the store that failed and were rolled back, by reason.",
            STAT_LABEL("reason", rollback_names, ROLLBACKS));
static const char *const table_names[] = {[DB_TABLE_PENDING] = "pending",
                                          [DB_TABLE_SPAN_TOTAL] = "span_total",
                                          [DB_TABLE_MATCHED_SPAN] = "matched_span",
                                          [DB_TABLE_PENDING_PROFILES] = "pending_profiles"};
STAT_LOSSES(damaged_rows, "spanprof_store_damaged_rows_total",
            "Rows that could not be read and were removed.",
            STAT_LABEL("table", table_names, DB_TABLES));
STAT_GAUGE(store_bytes, "spanprof_store_size_bytes", "Size of the store's database file.");

void db_count_damaged(enum db_table table)
{
    stat_add_of(&damaged_rows, table, 1);
}

static char *file_path(const char *directory)
{
    size_t size = strlen(directory) + sizeof("/spanprof.db");
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/spanprof.db", directory);
    return path;
}

static struct db *db_new(const struct db_settings *settings, bool writer)
{
    struct db *db = calloc(1, sizeof(*db));
    if (!db)
        return NULL;
    db->thread.is_writer = writer;
    db->lock_fd = -1;
    db->sync = settings->sync;
    db->max_size_bytes = settings->max_size_bytes;
    db->directory = strdup(settings->directory);
    db->vfs = settings->vfs ? strdup(settings->vfs) : NULL;
    db->path = file_path(settings->directory);
    if (db->directory && db->path && (!settings->vfs || db->vfs))
        return db;
    db_close(db);
    return NULL;
}

static int open_vfs(struct db *db)
{
    int error = db->thread.is_writer ? wal_vfs_open(db->vfs, &db->wal_vfs) : 0;
    if (error == -ENOENT)
        log_error("store", "SQLite has no VFS %s", db->vfs ? db->vfs : "at all");
    return error;
}

static int prepare_own(struct db *db)
{
    int error = db_prepare(db, "BEGIN IMMEDIATE", &db->begin);
    if (!error)
        error = db_prepare(db, "COMMIT", &db->commit);
    if (!error)
        error = db_prepare(db, "ROLLBACK", &db->rollback);
    if (!error)
        error = db_prepare(db, "PRAGMA page_count", &db->page_count);
    if (!error)
        error = db_prepare(db, "PRAGMA freelist_count", &db->free_count);
    if (!error)
        error = db_prepare(db, "PRAGMA incremental_vacuum(512)", &db->vacuum);
    return error;
}

static int open_db(const struct db_settings *settings, bool writer, struct db **result)
{
    struct db *db = db_new(settings, writer);
    if (!db)
        return -ENOMEM;
    int error = strlen(db->path) + 16 < PATH_MAX ? 0 : -ENAMETOOLONG;
    db->log_limit = log_limit_hold(db->path);
    if (!error && !db->log_limit)
        error = -ENOMEM;
    if (!error && writer)
        error = db_directory_open(db);
    if (!error)
        error = open_vfs(db);
    if (!error)
        error = db_file_open(db);
    if (!error)
        error = prepare_own(db);
    if (error) {
        db_close(db);
        return error;
    }
    db->room_bytes = UINT64_MAX;
    db->quota_room_bytes = UINT64_MAX;
    db->disk_room_bytes = UINT64_MAX;
    *result = db;
    return 0;
}

int db_open_writer(const struct db_settings *settings, struct db **db)
{
    return open_db(settings, true, db);
}

int db_open_reader(const struct db_settings *settings, struct db **db)
{
    return open_db(settings, false, db);
}

void db_close(struct db *db)
{
    if (!db)
        return;
    db_finalize_all(db);
    db_file_close(db, db->thread.is_writer);
    wal_vfs_close(db->wal_vfs);
    log_limit_release(db->log_limit);
    if (db->lock_fd >= 0)
        close(db->lock_fd);
    free(db->prepared);
    free(db->directory);
    free(db->path);
    free(db->vfs);
    free(db);
}

void db_release_thread(struct db *db)
{
    thread_owner_release(&db->thread.owner);
}

/* Statements */

static int db_do_prepare(struct db *db, const struct db_prepared *prepared)
{
    int code = db->handle ? sqlite3_prepare_v3(db->handle, prepared->sql, -1,
                                               SQLITE_PREPARE_PERSISTENT, prepared->statement, NULL)
                          : SQLITE_MISUSE;
    return code == SQLITE_OK ? 0 : db_error(db, code, prepared->sql);
}

int db_prepare_all(struct db *db)
{
    int error = 0;
    for (size_t i = 0; i < db->n_prepared && !error; i++)
        error = db_do_prepare(db, &db->prepared[i]);
    return error;
}

void db_finalize_all(struct db *db)
{
    db->refused_sql = NULL; /* a text of one of them */
    for (size_t i = 0; i < db->n_prepared; i++) {
        sqlite3_finalize(*db->prepared[i].statement);
        *db->prepared[i].statement = NULL;
    }
}

static int grow_prepared(struct db *db)
{
    if (db->n_prepared < db->cap_prepared)
        return 0;
    size_t cap = db->cap_prepared ? db->cap_prepared * 2 : 32;
    struct db_prepared *prepared = realloc(db->prepared, cap * sizeof(*prepared));
    if (!prepared)
        return -ENOMEM;
    db->prepared = prepared;
    db->cap_prepared = cap;
    return 0;
}

int db_prepare(struct db *db, const char *sql, sqlite3_stmt **statement)
{
    struct db_prepared prepared = {sql, statement};
    *statement = NULL;
    int error = grow_prepared(db);
    if (!error)
        error = db_do_prepare(db, &prepared);
    if (error)
        return error;
    db->prepared[db->n_prepared++] = prepared;
    return 0;
}

void db_unprepare(struct db *db, sqlite3_stmt **statement)
{
    for (size_t i = 0; i < db->n_prepared; i++) {
        if (db->prepared[i].statement != statement)
            continue;
        sqlite3_finalize(*statement);
        *statement = NULL;
        db->prepared[i] = db->prepared[--db->n_prepared];
        return;
    }
}

uint64_t db_files(const struct db *db)
{
    return db->n_files;
}

sqlite3 *db_handle(struct db *db)
{
    return db->handle;
}

int db_exec(struct db *db, const char *sql)
{
    int code = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : db_error(db, code, sql);
}

int db_step(struct db *db, sqlite3_stmt *statement)
{
    CLAIM_THREAD(&db->thread.owner);
    if (!statement) /* preparing it again failed */
        return -EIO;
    if (db->begun && !db_in_transaction(db)) /* else the step would be a transaction of its own */
        return db->failed ? db->failed : -EIO;
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        return 1;
    int error = code == SQLITE_DONE ? 0 : db_step_error(db, code, statement);
    sqlite3_reset(statement);
    if (error)
        db_fail(db, error);
    return error;
}

int db_run(struct db *db, sqlite3_stmt *statement)
{
    int outcome = db_step(db, statement);
    if (outcome == 1)
        sqlite3_reset(statement);
    return outcome < 0 ? outcome : 0;
}

void db_resetp(sqlite3_stmt **statement)
{
    if (*statement)
        sqlite3_reset(*statement);
}

/* Transactions */

static int get_count(struct db *db, sqlite3_stmt *statement, uint64_t *count)
{
    int outcome = db_step(db, statement);
    if (outcome < 0)
        return outcome;
    *count = outcome ? (uint64_t)sqlite3_column_int64(statement, 0) : 0;
    sqlite3_reset(statement);
    return 0;
}

static uint64_t quota_room(const struct db *db, uint64_t used_pages)
{
    uint64_t pages = db->max_size_bytes / 4096;
    uint64_t reserve = pages / ROOM_QUOTA_PART;
    if (reserve < ROOM_PAGES_MIN)
        reserve = ROOM_PAGES_MIN;
    if (!db->max_size_bytes)
        return UINT64_MAX;
    return used_pages + reserve < pages ? (pages - reserve - used_pages) * 4096 : 0;
}

/* Bytes that the file will grow by when the log is copied into it. */
static uint64_t pending_growth(const struct db *db, uint64_t pages)
{
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;
    sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (!file || !file->pMethods || file->pMethods->xFileSize(file, &size) != SQLITE_OK ||
        (uint64_t)size >= pages * 4096)
        return 0;
    return pages * 4096 - (uint64_t)size;
}

/* A row is written twice: to the log, and from the log to the file, which may have free pages. */
static uint64_t disk_room(const struct db *db, uint64_t pages, uint64_t unused)
{
    uint64_t spare_bytes = unused * 4096;
    struct statvfs status;
    if (fstatvfs(db->lock_fd, &status))
        return UINT64_MAX; /* unknown: a write will fail if the disk is full */
    uint64_t reserve = (uint64_t)status.f_blocks * status.f_frsize / ROOM_DISK_PART;
    uint64_t available = (uint64_t)status.f_bavail * status.f_frsize;
    if (reserve > ROOM_DISK_MAX)
        reserve = ROOM_DISK_MAX;
    reserve += pending_growth(db, pages);
    if (available <= reserve)
        return 0;
    available -= reserve;
    return available <= spare_bytes ? available : (available + spare_bytes) / 2;
}

static uint32_t take_pages(const struct db *db)
{
    return db->wal_vfs ? wal_vfs_take_pages(db->wal_vfs) : 0;
}

/* The pragma for the file's size is parsed on every call. The page count of the last commit is
 * equally good, because there is only one writer. */
static int look_for_room(struct db *db, uint64_t pages)
{
    uint64_t unused = 0;
    int error = get_count(db, db->free_count, &unused);
    if (!error && (!pages || unused > pages))
        error = get_count(db, db->page_count, &pages);
    if (!error && unused > pages) /* a damaged header */
        error = -EUCLEAN;
    if (error)
        return error;
    stat_set(&store_bytes, (int64_t)(pages * 4096));
    uint64_t quota = quota_room(db, pages - unused), disk = disk_room(db, pages, unused);
    db->room_bytes = quota < disk ? quota : disk;
    db->quota_room_bytes = quota;
    db->disk_room_bytes = disk;
    db->unused_bytes = unused * 4096;
    return 0;
}

int db_look_for_room(struct db *db)
{
    WRITER_THREAD(db);
    return look_for_room(db, 0);
}

bool db_has_room(const struct db *db)
{
    return db->room_bytes >= ROOM_LEAST;
}

uint64_t db_room_bytes(const struct db *db)
{
    return db->room_bytes;
}

uint64_t db_quota_room_bytes(const struct db *db)
{
    return db->quota_room_bytes;
}

bool db_disk_has_room(const struct db *db, uint64_t size)
{
    return db->disk_room_bytes >= ROOM_LEAST && db->disk_room_bytes >= size;
}

bool db_could_hold(const struct db *db, uint64_t size)
{
    return size <= quota_room(db, EMPTY_PAGES);
}

uint64_t db_unused_bytes(const struct db *db)
{
    return db->unused_bytes;
}

bool db_take_room(struct db *db, uint64_t size)
{
    WRITER_THREAD(db);
    if (!db_has_room(db) || size > db->room_bytes) {
        db->was_refused = true;
        return false;
    }
    db->room_bytes -= size;
    if (db->quota_room_bytes != UINT64_MAX)
        db->quota_room_bytes -= size;
    return true;
}

int db_begin(struct db *db)
{
    CLAIM_THREAD(&db->thread.owner);
    assert(!db_in_transaction(db));
    db->failed = 0;
    if (take_pages(db)) /* from a commit outside of db_commit() */
        db->n_pages = 0;
    int error = db_run(db, db->begin);
    db->begun = !error;
    if (!error)
        error = look_for_room(db, db->n_pages);
    if (error && db->begun)
        db_rollback(db);
    return error;
}

static void count_rollback(int error)
{
    stat_add_of(&rollbacks,
                error == -ENOSPC    ? ROLLBACK_FULL
                : error == -EUCLEAN ? ROLLBACK_CORRUPT
                : error == -EBADMSG ? ROLLBACK_STATEMENT
                                    : ROLLBACK_OTHER,
                1);
}

int db_commit(struct db *db)
{
    WRITER_THREAD(db);
    int error = db->failed;
    if (!error && !db_in_transaction(db))
        error = -EIO;
    if (!error)
        error = db_run(db, db->commit);
    db->begun &= error != 0;
    if (!error) {
        uint32_t pages = take_pages(db);
        db->n_pages = pages ? pages : db->n_pages;
        return 0;
    }
    count_rollback(error);
    db_rollback(db);
    return error;
}

int db_rollback(struct db *db)
{
    DB_THREAD(db);
    int error = 0;
    if (db_in_transaction(db)) /* SQLite may have rolled back by itself */
        error = db_run(db, db->rollback);
    db->begun = false;
    db->failed = 0;
    db->n_pages = 0;
    take_pages(db);
    return error;
}

bool db_in_transaction(const struct db *db)
{
    return db->handle && !sqlite3_get_autocommit(db->handle);
}

void db_fail(struct db *db, int error)
{
    DB_THREAD(db);
    assert(error < 0);
    if (!db->failed)
        db->failed = error;
}

bool db_rowids_spent(struct db *db)
{
    WRITER_THREAD(db);
    static const char sql[] = "SELECT max((SELECT ifnull(max(seq), 0) FROM sqlite_sequence),"
                              " (SELECT ifnull(max(id), 0) FROM stack),"
                              " (SELECT ifnull(max(id), 0) FROM executable),"
                              " (SELECT ifnull(max(id), 0) FROM process),"
                              " (SELECT ifnull(max(seq), 0) FROM pending))";
    sqlite3_stmt *statement = NULL;
    bool spent = false;
    if (db->handle && sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        spent = sqlite3_column_int64(statement, 0) > INT64_MAX / 2;
    sqlite3_finalize(statement);
    return spent;
}

/* Upkeep */

static bool is_short(const struct db *db)
{
    return db->was_refused || !db_has_room(db);
}

static int db_vacuum(struct db *db, uint64_t unused)
{
    if (unused < (is_short(db) ? 1 : VACUUM_SLACK_PAGES + VACUUM_STEP_PAGES))
        return 0;
    int outcome = 1; /* each step frees one page; step to the end */
    while (outcome == 1)
        outcome = db_step(db, db->vacuum);
    return outcome;
}

int db_maintain(struct db *db)
{
    WRITER_THREAD(db);
    uint64_t unused = 0;
    assert(!db_in_transaction(db));
    int error = get_count(db, db->free_count, &unused);
    if (!error)
        error = db_vacuum(db, unused);
    if (error || !db->handle)
        return error ? error : -EIO;
    /* If room is short, the checkpoint also truncates the log. It does not wait for readers. */
    int code = is_short(db) ? db_log_copy(db, SQLITE_CHECKPOINT_TRUNCATE) : db_log_copy_in_time(db);
    db_log_shorten(db);
    db->failed = 0;
    db->was_refused = false;
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return 0; /* a reader uses the log: try again next time */
    return code == SQLITE_OK ? 0 : db_error(db, code, "checkpoint");
}

uint64_t db_size_bytes(struct db *db)
{
    uint64_t pages = 0;
    return get_count(db, db->page_count, &pages) ? 0 : pages * 4096;
}
