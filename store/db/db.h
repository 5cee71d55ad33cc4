/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * SQLite as this service uses it: one file, one writing connection (which alone checkpoints), and
 * read-only connections. WAL (its length is bounded by log_limit.h), synchronous by setting,
 * secure_delete off, no mmap.
 *
 * Thread: a struct db belongs to the first thread that begins a transaction or makes a step with it
 * (writer or reader), until db_release_thread(). DB_THREAD() and WRITER_THREAD() assert it. Limits:
 * max_size_bytes. Below the quota, and below a full disk, lies a reserve for deletes only;
 * db_has_room() is false within the reserve. Errors: 0 or negative errno: -ENOSPC (disk or quota
 * full), -EUCLEAN (corrupt: see db_renew()), -EBADMSG (SQLite refused a statement: a constraint, a
 * type; either its values are at fault or its table is damaged, see db_table_is_damaged()), -EBUSY
 * (at open: another spanprof has the store), -EACCES (not allowed), -ENOTSUP (the file is another
 * program's), -ENOMEM, -EIO. SQLite's message has been logged. A failed step within a transaction
 * breaks it: db_commit() then rolls back and returns that error; if SQLite has already rolled the
 * transaction back, no further step is made. Corruption may show up at any time. At open,
 * db_open_writer() renames the file to spanprof.db.corrupt, counts it and starts with an empty
 * file; after that the owner calls db_renew(). A file of a newer schema is renamed to
 * spanprof.db.newer. Of each kind the two latest files are kept; the older one ends with .1.
 */
#include "base/thread_owner.h"
#include <assert.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

struct db;

enum db_sync { DB_SYNC_NORMAL, DB_SYNC_FULL };

struct db_settings {
    const char *directory; /* made if missing, mode 0700 */
    enum db_sync sync;
    uint64_t max_size_bytes; /* quota of the file; 0 = none */
    const char *vfs;         /* NULL = SQLite's default; tests put a failing one here */
};

/* The writer holds a lock on the directory until it is closed. The settings' strings are copied. */
int db_open_writer(const struct db_settings *settings, struct db **db);
int db_open_reader(const struct db_settings *settings, struct db **db); /* after the writer */
void db_close(struct db *db); /* finalizes all prepared statements; NULL is fine */

/* The next thread that uses db owns it. Call it after opening db on one thread for use on another,
 * and before closing db if its owner thread has ended. */
void db_release_thread(struct db *db);

/* The beginning of every struct db, here so that the assertions below need no call. */
struct db_thread {
    struct thread_owner owner;
    bool is_writer;
};

/* True on the thread that owns db, and on every thread while db has no owner. */
static inline bool db_is_current(const struct db *db)
{
    return thread_owner_is_current(&((const struct db_thread *)(const void *)db)->owner);
}

/* The same, for the writing connection alone. */
static inline bool db_is_current_writer(const struct db *db)
{
    return ((const struct db_thread *)(const void *)db)->is_writer && db_is_current(db);
}

/* First line of a function that works on db: aborts on a thread that does not own it. */
#define DB_THREAD(db) assert(db_is_current(db))
/* First line of a function of the store's writing half: db is the writing connection, and this is
 * its thread. For modules below the store, which know no worker: WRITER_THREAD(stacks->db). */
#define WRITER_THREAD(db) assert(db_is_current_writer(db))

/* Writer: renames the corrupt file and continues with an empty one. Every prepared statement is
 * prepared again in place. The caller must reload the in-memory state of all modules. */
int db_renew(struct db *db);
/* Reader: if the writer has renewed the file, opens the new file and prepares every statement
 * again; else returns 0. Call it outside of a read. */
int db_follow(struct db *db);
/* Reader: all steps of a read are between these two. The begin calls db_follow(). While the log is
 * long it waits, at most LOG_LIMIT_WAIT_NS. Call db_read_end() also after a failed begin. */
int db_read_begin(struct db *db);
void db_read_end(struct db *db); /* nothing if no read has begun */
/* True: a read that is not urgent should be refused, or end. Any thread. */
bool db_log_is_full(const struct db *db);

/* Writer, outside of a transaction, after -EBADMSG: looks for damage in the table of the refused
 * statement, and forgets the statement. At most DB_CHECK_NS long and once in DB_CHECK_EVERY_NS: a
 * check that is not made or not finished finds none. */
#define DB_CHECK_NS       UINT64_C(1000000000)
#define DB_CHECK_EVERY_NS (60 * UINT64_C(1000000000))
bool db_table_is_damaged(struct db *db);
/* Whether a statement was refused since the last db_table_is_damaged(). */
bool db_has_refused(const struct db *db);

/* How many files have been opened so far. Rowids of an earlier file are invalid. */
uint64_t db_files(const struct db *db);

int db_begin(struct db *db);
int db_commit(struct db *db); /* on failure, or after an earlier failed step: rolls back */
int db_rollback(struct db *db);
bool db_in_transaction(const struct db *db);
/* Marks the current transaction as failed, because in-memory state no longer matches the database
 * (-ENOMEM): db_commit() rolls back. The first error is kept. */
void db_fail(struct db *db, int error);

/* False within the reserve of quota or disk. Each db_begin() updates it. */
bool db_has_room(const struct db *db);
/* Free bytes before the reserve begins, as of the last update. */
uint64_t db_room_bytes(const struct db *db);
/* As db_room_bytes(), for the quota alone. UINT64_MAX: there is no quota. */
uint64_t db_quota_room_bytes(const struct db *db);
/* Whether the disk alone, without the quota, has room for `size` bytes, as of the last update. */
bool db_disk_has_room(const struct db *db, uint64_t size);
/* False if `size` bytes exceed the quota even in an empty file. */
bool db_could_hold(const struct db *db, uint64_t size);
/* Within a transaction: reserves `size` bytes. False: they would reach into the reserve of quota or
 * disk, and nothing is reserved. */
bool db_take_room(struct db *db, uint64_t size);
/* Within a transaction that has deleted rows: updates the room. Rows that the transaction has
 * written count with the pages that they use now. */
int db_look_for_room(struct db *db);
/* Bytes in free pages of the file, which SQLite uses again; as of the last update. */
uint64_t db_unused_bytes(const struct db *db);
/* A damaged row can claim the largest rowid, after which SQLite says "full" to each insert. */
bool db_rowids_spent(struct db *db);
/* Checkpoint and incremental vacuum, a bounded step; called by the writer when idle. */
int db_maintain(struct db *db);
uint64_t db_size_bytes(struct db *db);

sqlite3 *db_handle(struct db *db);
/* Prepares once; the caller keeps *statement. The address `statement` must stay valid until
 * db_unprepare() or db_close(). sql must be static. */
int db_prepare(struct db *db, const char *sql, sqlite3_stmt **statement);
void db_unprepare(struct db *db, sqlite3_stmt **statement); /* also when not prepared */
int db_exec(struct db *db, const char *sql);
/* 0 = SQLITE_DONE, 1 = a row, negative errno. Resets the statement on DONE and on error. A caller
 * that stops after a row resets the statement, or uses _cleanup_reset_. */
int db_step(struct db *db, sqlite3_stmt *statement);
/* One step of a statement that returns no rows. */
int db_run(struct db *db, sqlite3_stmt *statement);

void db_resetp(sqlite3_stmt **statement);
#define _cleanup_reset_ __attribute__((cleanup(db_resetp)))

/* Counts a row that could not be read and was removed: spanprof_store_damaged_rows_total. Thread:
 * any. */
enum db_table {
    DB_TABLE_PENDING,
    DB_TABLE_SPAN_TOTAL,
    DB_TABLE_MATCHED_SPAN,
    DB_TABLE_PENDING_PROFILES,
    DB_TABLES
};
void db_count_damaged(enum db_table table);
