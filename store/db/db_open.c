/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: directory, lock, settings of a connection, schema, and renaming a file that cannot be
 * used.
 *
 * SQLite finds -wal and -shm by name when it first needs them. If the writer renamed the files
 * after a reader opened the database and before it opened the log, the reader would combine an old
 * database with a new log. files_lock prevents this, and opening ends with a read, which opens the
 * log. A reader never checkpoints, and does not remove the log when it closes: the name may then
 * belong to a newer log.
 */
#include "store/db/db_state.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/stats.h"
#include "store/db/log_limit.h"
#include "store/db/schema.h"
#include "store/db/wal_vfs.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

STAT_LOSS(corrupt_files, "spanprof_store_corrupt_total",
          "Databases that were corrupt and put aside.");
STAT_LOSS(newer_files, "spanprof_store_newer_total",
          "Databases of a newer spanprof that were put aside: what waits in them is not sent.");

LIMIT(caches, LIMIT_SERVICE, "SQLite: caches and statements of all connections", .bytes = 8u << 20);
LIMIT(database, LIMIT_DISK, "the store", .key = "sqlite_storage::max_size_mib", .percent = 100);
LIMIT(log, LIMIT_DISK, "its write-ahead log, with one transaction of 64 MiB",
      .bytes = LOG_LIMIT_FULL_BYTES + (64u << 20));
LIMIT(aside, LIMIT_DISK, "stores put aside: two corrupt, two of a newer spanprof",
      .key = "sqlite_storage::max_size_mib", .percent = 400);

#define PAGE_SIZE_BYTES 4096 /* SQLite's default; every file made here has it */
#define LENGTH_MAX      (128 << 20)

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

static int make_directory(const char *directory)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof(path), "%s", directory) >= sizeof(path))
        return -ENAMETOOLONG;
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(path, 0755) && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
}

static int complain_directory(const char *directory, int error)
{
    log_error(
        "store",
        "store directory %s cannot be used (%s): give it to the account that spanprof runs as "
        "(user id %u), or name another in extensions::sqlite_storage::directory",
        directory, strerror(-error), (unsigned)geteuid());
    return error == -EROFS || error == -EPERM ? -EACCES : error;
}

static int complain_lock(const char *directory, int lock_fd)
{
    char owner[32] = "";
    ssize_t n = pread(lock_fd, owner, sizeof(owner) - 1, 0);
    owner[n > 0 ? strspn(owner, "0123456789") : 0] = '\0';
    log_error(
        "store",
        "store directory %s is in use by another spanprof (process %s): stop it, or give each its "
        "own extensions::sqlite_storage::directory",
        directory, *owner ? owner : "unknown");
    return -EBUSY;
}

static int take_lock(struct db *db)
{
    char path[PATH_MAX], pid[32];
    if ((size_t)snprintf(path, sizeof(path), "%s/lock", db->directory) >= sizeof(path))
        return -ENAMETOOLONG;
    db->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (db->lock_fd < 0)
        return complain_directory(db->directory, -errno);
    if (flock(db->lock_fd, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK ? complain_lock(db->directory, db->lock_fd) : -errno;
    int n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    /* The pid is for human readers only; the lock is what counts. */
    if (ftruncate(db->lock_fd, 0) || pwrite(db->lock_fd, pid, (size_t)n, 0) != n)
        log_debug("store", "%s: %s", path, strerror(errno));
    return 0;
}

int db_directory_open(struct db *db)
{
    int error = make_directory(db->directory);
    if (!error && access(db->directory, R_OK | W_OK | X_OK))
        error = -errno;
    return error ? complain_directory(db->directory, error) : take_lock(db);
}

static int get_pragma(struct db *db, const char *sql, int64_t *value)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        *value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return code == SQLITE_ROW ? 0 : db_error(db, code, sql);
}

static void set_limits(sqlite3 *handle, bool writer)
{
    sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !writer, NULL);
    sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, LENGTH_MAX);
    sqlite3_busy_timeout(handle, writer ? DB_BUSY_MS : 0);
}

enum { FILE_IS_NEWER = 1 };

/* 0; FILE_IS_NEWER; negative errno. */
static int check_schema(struct db *db, int64_t *version)
{
    int64_t application = 0, tables = 0;
    int error = get_pragma(db, "PRAGMA user_version", version);
    if (!error)
        error = get_pragma(db, "PRAGMA application_id", &application);
    if (!error)
        error = get_pragma(db, "SELECT count(*) FROM sqlite_schema", &tables);
    if (error)
        return error;
    if (application != SCHEMA_APPLICATION_ID && (application || tables)) {
        log_error("store",
                  "%s is not a store of spanprof: move it away, or name another directory in "
                  "extensions::sqlite_storage::directory",
                  db->path);
        return -ENOTSUP;
    }
    if (*version > SCHEMA_VERSION) {
        log_error("store", "%s was written by a newer spanprof (schema %lld, this one knows %d)",
                  db->path, (long long)*version, SCHEMA_VERSION);
        return FILE_IS_NEWER;
    }
    return *version < 0 || (application && !*version) ? -EUCLEAN : 0;
}

static int run_schema_step(struct db *db, int64_t version)
{
    char number[128];
    snprintf(number, sizeof(number), "PRAGMA user_version=%lld; PRAGMA application_id=%d",
             (long long)version + 1, SCHEMA_APPLICATION_ID);
    int error = db_exec(db, "BEGIN IMMEDIATE");
    if (error)
        return error;
    error = db_exec(db, schema_steps[version]);
    if (!error)
        error = db_exec(db, number);
    if (!error)
        error = db_exec(db, "COMMIT");
    if (error && !sqlite3_get_autocommit(db->handle))
        sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return error;
}

static int require_wal(struct db *db)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->handle, "PRAGMA journal_mode=WAL", -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    const char *mode = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : "";
    bool is_wal = mode && !strcmp(mode, "wal");
    sqlite3_finalize(statement);
    if (code != SQLITE_ROW)
        return db_error(db, code, "journal_mode");
    if (is_wal)
        return 0;
    log_error("store",
              "the file system of %s cannot share memory between processes: put the store "
              "on a local disk",
              db->directory);
    return -ENOTSUP;
}

/* True: the header has a write version that this SQLite may read but not write. No SQLite uses such
 * a version, and the application id marks the file as ours, so the file is damaged. */
static bool forbids_writing(const struct db *db)
{
    return sqlite3_db_readonly(db->handle, "main") == 1 && access(db->path, W_OK) == 0;
}

static int set_up_writer(struct db *db)
{
    char sql[256];
    int64_t version = 0;
    int error = check_schema(db, &version);
    if (!error && forbids_writing(db))
        error = -EUCLEAN;
    db_log_watch(db);
    if (!error) /* has an effect only before the first table and before WAL */
        error = db_exec(db, "PRAGMA auto_vacuum=INCREMENTAL");
    if (!error)
        error = require_wal(db);
    if (!error)
        error = db_exec(db, "PRAGMA secure_delete=OFF; PRAGMA cache_size=-2048;"
                            "PRAGMA journal_size_limit=16777216");
    snprintf(sql, sizeof(sql), "PRAGMA synchronous=%s",
             db->sync == DB_SYNC_FULL ? "FULL" : "NORMAL");
    if (!error)
        error = db_exec(db, sql);
    while (!error && version < SCHEMA_VERSION)
        error = run_schema_step(db, version++);
    /* Set after the schema: a step of it may temporarily need more than a full quota allows. */
    snprintf(sql, sizeof(sql), "PRAGMA max_page_count=%llu",
             (unsigned long long)(db->max_size_bytes / PAGE_SIZE_BYTES));
    if (!error && db->max_size_bytes)
        error = db_exec(db, sql);
    return error;
}

static int set_up(struct db *db)
{
    int64_t tables;
    set_limits(db->handle, db->thread.is_writer);
    int error =
        db_exec(db, "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;"
                    "PRAGMA temp_store=MEMORY");
    if (!error)
        error = db->thread.is_writer ? set_up_writer(db)
                                     : db_exec(db, "PRAGMA query_only=ON; PRAGMA cache_size=-512");
    if (!error) /* a read opens the log, see above */
        error = get_pragma(db, "SELECT count(*) FROM sqlite_schema", &tables);
    return error;
}

static int open_handle(struct db *db)
{
    struct stat status;
    int flags =
        db->thread.is_writer ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    flags |= SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    const char *vfs = db->wal_vfs ? wal_vfs_name(db->wal_vfs) : db->vfs;
    int code = sqlite3_open_v2(db->path, &db->handle, flags, vfs);
    int error = code == SQLITE_OK ? set_up(db) : db_error(db, code, "open");
    if (!error && stat(db->path, &status))
        error = -errno;
    if (error) {
        db_file_close(db, false);
        return error;
    }
    db->device = status.st_dev;
    db->inode = status.st_ino;
    db->n_files++;
    db->n_pages = 0;
    return 0;
}

static int rename_files(const char *from, const char *to)
{
    static const char *const endings[] = {"", "-wal"};
    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        char old[PATH_MAX + 32], new[PATH_MAX + 32];
        snprintf(old, sizeof(old), "%s%s", from, endings[i]);
        snprintf(new, sizeof(new), "%s%s", to, endings[i]);
        unlink(new); /* also if there is nothing to rename: it belongs to an older database */
        if (rename(old, new) && errno != ENOENT)
            return -errno;
    }
    return 0;
}

/* Renames the closed file. The one of that name before it stays, the one before that goes. */
static int put_aside(const struct db *db, const char *kind)
{
    char aside[PATH_MAX + 16], before[PATH_MAX + 16], index[PATH_MAX + 16];
    snprintf(aside, sizeof(aside), "%s.%s", db->path, kind);
    snprintf(before, sizeof(before), "%s.%s.1", db->path, kind);
    snprintf(index, sizeof(index), "%s-shm", db->path);
    int error = access(aside, F_OK) ? 0 : rename_files(aside, before);
    if (!error)
        error = rename_files(db->path, aside);
    if (error)
        log_error("store", "%s cannot be renamed to %s: %s", db->path, aside, strerror(-error));
    else
        unlink(index);
    return error;
}

static int put_corrupt_aside(const struct db *db)
{
    int error = put_aside(db, "corrupt");
    if (error)
        return error;
    stat_add(&corrupt_files, 1);
    log_error("store", "%s was corrupt: it is now %s.corrupt, and an empty store takes its place",
              db->path, db->path);
    return 0;
}

static int put_newer_aside(const struct db *db)
{
    int error = put_aside(db, "newer");
    if (error)
        return error;
    stat_add(&newer_files, 1);
    log_error("store",
              "%s is now %s.newer, and an empty store takes its place: what waits in it is not "
              "sent. To send it, start the newer spanprof with that file under its old name",
              db->path, db->path);
    return 0;
}

static int open_writer_file(struct db *db)
{
    int error = open_handle(db);
    if (error == FILE_IS_NEWER)
        error = put_newer_aside(db);
    else if (error == -EUCLEAN)
        error = put_corrupt_aside(db);
    else
        return error;
    return error ? error : open_handle(db);
}

int db_file_open(struct db *db)
{
    pthread_mutex_lock(&files_lock);
    int error = db->thread.is_writer ? open_writer_file(db) : open_handle(db);
    pthread_mutex_unlock(&files_lock);
    return error == -EACCES ? complain_directory(db->directory, error) : error;
}

void db_file_close(struct db *db, bool checkpoint)
{
    if (!db->handle)
        return;
    if (!checkpoint)
        sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    int code = sqlite3_close(db->handle);
    if (code != SQLITE_OK)
        log_error("store", "close: %s", sqlite3_errstr(code));
    db->handle = NULL;
}

/* True if the path no longer names the open file. */
static bool db_file_replaced(const struct db *db)
{
    struct stat status;
    if (!db->handle)
        return true;
    return !stat(db->path, &status) && (status.st_dev != db->device || status.st_ino != db->inode);
}

int db_renew(struct db *db)
{
    WRITER_THREAD(db);
    db_finalize_all(db);
    pthread_mutex_lock(&files_lock);
    db_file_close(db, false);
    int error = put_corrupt_aside(db);
    if (!error)
        error = open_handle(db);
    pthread_mutex_unlock(&files_lock);
    db->begun = false;
    db->failed = 0;
    return error ? error : db_prepare_all(db);
}

int db_follow(struct db *db)
{
    DB_THREAD(db);
    if (!db_file_replaced(db))
        return 0;
    db_finalize_all(db);
    pthread_mutex_lock(&files_lock);
    db_file_close(db, false);
    int error = open_handle(db);
    pthread_mutex_unlock(&files_lock);
    return error ? error : db_prepare_all(db);
}
