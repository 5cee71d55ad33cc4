/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write-ahead log is copied into the database for each LOG_COPY_BYTES that commits have added
 * to it, and LOG_COPY_NS after the latest copy, as far as reads allow; log_limit.h says what
 * follows if they do not. A copy waits for the disk twice, and requests wait for it: so there are
 * few.
 */
#include "base/clock.h"
#include "base/stats.h"
#include "store/db/db_state.h"
#include "store/db/log_limit.h"

#define LOG_FRAME_BYTES 4120 /* a page with its header */
#define LOG_COPY_BYTES  ((uint64_t)1000 * LOG_FRAME_BYTES)
#define LOG_COPY_NS     (5 * NS_PER_SEC)

STAT_COUNTER(restarts, "spanprof_store_log_restarts_total",
             "Times that the writer made new reads wait, so that the write-ahead log could start "
             "again from its beginning.");

/* Without waiting: a read that holds the log may take seconds. */
int db_log_copy(struct db *db, int mode)
{
    int in_log = 0, done = 0;
    sqlite3_busy_timeout(db->handle, 0);
    int code = sqlite3_wal_checkpoint_v2(db->handle, NULL, mode, &in_log, &done);
    sqlite3_busy_timeout(db->handle, DB_BUSY_MS);
    db->copied_bytes = in_log > 0 ? (uint64_t)in_log * LOG_FRAME_BYTES : 0;
    db->copied_ns = clock_monotonic_ns();
    return code;
}

int db_log_copy_in_time(struct db *db)
{
    bool is_time = clock_monotonic_ns() - db->copied_ns >= LOG_COPY_NS;
    return is_time ? db_log_copy(db, SQLITE_CHECKPOINT_PASSIVE) : SQLITE_OK;
}

void db_log_shorten(struct db *db)
{
    if (!log_limit_is_long(db->log_limit) || !log_limit_close(db->log_limit))
        return; /* the reads that are going on come first; the next commit tries again */
    if (db_log_copy(db, SQLITE_CHECKPOINT_RESTART) == SQLITE_OK) {
        stat_add(&restarts, 1);
        log_limit_set(db->log_limit, 0);
    }
    log_limit_open(db->log_limit);
}

static int on_commit(void *context, sqlite3 *handle, const char *name, int n_frames)
{
    struct db *db = context;
    uint64_t bytes = (uint64_t)n_frames * LOG_FRAME_BYTES;
    (void)handle, (void)name;
    log_limit_set(db->log_limit, bytes);
    if (bytes < db->copied_bytes) /* it began again */
        db->copied_bytes = 0;
    if (bytes - db->copied_bytes >= LOG_COPY_BYTES)
        db_log_copy(db, SQLITE_CHECKPOINT_PASSIVE); /* its errors show up in later steps */
    db_log_shorten(db);
    return SQLITE_OK;
}

void db_log_watch(struct db *db)
{
    log_limit_set(db->log_limit, 0);
    sqlite3_wal_hook(db->handle, on_commit, db);
}

int db_read_begin(struct db *db)
{
    assert(!db->thread.is_writer && !db->reading);
    log_limit_read_begin(db->log_limit);
    db->reading = true;
    return db_follow(db);
}

void db_read_end(struct db *db)
{
    if (!db->reading)
        return;
    db->reading = false;
    log_limit_read_end(db->log_limit);
}

bool db_log_is_full(const struct db *db)
{
    return log_limit_is_full(db->log_limit);
}
