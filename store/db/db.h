/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * SQLite as this service uses it: one file, one writing connection (which alone checkpoints), one
 * read-only connection. WAL, synchronous by setting, secure_delete off, no mmap.
 *
 * Thread: a struct db belongs to the first thread that begins a transaction or makes a step with it
 * (writer or reader), until db_release_thread(). DB_THREAD() and WRITER_THREAD() assert it.
 * Limits: max_size_bytes. Short of it, and short of a full disk, lies a reserve in which only
 * deletes should go on: db_has_room() tells. Errors: 0 or negative errno: -ENOSPC (disk or quota
 * full), -EUCLEAN (corrupt: see db_renew()), -EBUSY (at open: another spanprof has the store),
 * -EACCES (not allowed), -ENOTSUP (the file is a newer spanprof's or another program's), -ENOMEM,
 * -EIO. What SQLite said was logged. A failed step within a transaction breaks it: db_commit() then
 * rolls back and returns that error; if SQLite has rolled it back by itself, no further step is
 * made. A corrupt file is met when it is met: db_open_writer() renames it to spanprof.db.corrupt
 * (replacing an older one), counts and starts empty; later the owner does so with db_renew().
 */
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
void db_close(struct db *db); /* finalizes what is still prepared; NULL is fine */

/* The next thread that uses db owns it: call it when one thread has opened what another is to use,
 * and before closing what belonged to a thread that has ended. */
void db_release_thread(struct db *db);
/* True on the thread that owns db, and on any while none does. */
bool db_is_current(const struct db *db);
bool db_is_writer(const struct db *db);

/* First line of a function that works on db: aborts on a thread that does not own it. */
#define DB_THREAD(db) assert(db_is_current(db))
/* First line of a function of the store's writing half: db is the writing connection, and this is
 * its thread. For modules below the store, which know no worker: WRITER_THREAD(stacks->db). */
#define WRITER_THREAD(db) assert(db_is_writer(db) && db_is_current(db))

/* Writer: puts the corrupt file aside and goes on with an empty one; every prepared statement is
 * prepared anew in place. What modules have in memory is for their owner to reload. */
int db_renew(struct db *db);
/* Reader: the writer has renewed the file: opens it, and prepares every statement anew. 0 also if
 * there was nothing to do. Call it outside of a read. */
int db_follow(struct db *db);

/* How many files this was so far: rowids of an earlier one are void. */
uint64_t db_files(const struct db *db);

int db_begin(struct db *db);
int db_commit(struct db *db); /* on failure, also an earlier one, it is rolled back */
int db_rollback(struct db *db);
bool db_in_transaction(const struct db *db);
/* Breaks the transaction at hand: memory could not follow (-ENOMEM). The first error counts. */
void db_fail(struct db *db, int error);

/* False within the reserve of quota or disk. Looked up anew at each db_begin(). */
bool db_has_room(const struct db *db);
/* What is left before the reserve, as of the last look. */
uint64_t db_room_bytes(const struct db *db);
/* Likewise, of the quota alone. UINT64_MAX: there is none. */
uint64_t db_quota_room_bytes(const struct db *db);
/* Whether the disk alone has room for so many bytes, whatever the quota says. As of the last look.
 */
bool db_disk_has_room(const struct db *db, uint64_t size);
/* False if the quota has no room for so many bytes even when nothing else is there. */
bool db_could_hold(const struct db *db, uint64_t size);
/* Within a transaction: takes room for so many bytes, or says that they would reach into the
 * reserve. */
bool db_take_room(struct db *db, uint64_t size);
/* Within a transaction that has deleted something: looks anew. What it has put since counts by what
 * it takes by now. */
int db_look_for_room(struct db *db);
/* As of the last look: pages of the file that are free to be used again, in bytes. */
uint64_t db_unused_bytes(const struct db *db);
/* A damaged row can claim the largest rowid, after which SQLite says "full" to each insert. */
bool db_rowids_spent(struct db *db);
/* Checkpoint and incremental vacuum, a bounded step; called by the writer when idle. */
int db_maintain(struct db *db);
uint64_t db_size_bytes(struct db *db);

sqlite3 *db_handle(struct db *db);
/* Prepared once, kept by the caller in *statement, which must stay where it is until db_unprepare()
 * or db_close(). sql must be static. */
int db_prepare(struct db *db, const char *sql, sqlite3_stmt **statement);
void db_unprepare(struct db *db, sqlite3_stmt **statement); /* also when not prepared */
int db_exec(struct db *db, const char *sql);
/* 0 = SQLITE_DONE, 1 = a row is there, negative errno. Resets on DONE and on error. After a row
 * that is not followed by DONE the caller resets, or lets _cleanup_reset_ do it. */
int db_step(struct db *db, sqlite3_stmt *statement);
/* One step of a statement that returns no rows. */
int db_run(struct db *db, sqlite3_stmt *statement);

void db_resetp(sqlite3_stmt **statement);
#define _cleanup_reset_ __attribute__((cleanup(db_resetp)))

/* A row could not be read, and was removed: spanprof_store_damaged_rows_total. Thread: any. */
enum db_table {
    DB_TABLE_PENDING,
    DB_TABLE_SPAN_TOTAL,
    DB_TABLE_MATCHED_SPAN,
    DB_TABLE_PENDING_PROFILES,
    DB_TABLES
};
void db_count_damaged(enum db_table table);
