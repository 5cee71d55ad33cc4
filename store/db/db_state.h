/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Shared by db.c, db_error.c, db_log.c and db_open.c. Private to these files. */
#include "store/db/db.h"
#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

/* How long the writer waits for its lock. A reader that finds the index of the log half written
 * takes that lock for microseconds, or for longer if it is preempted. */
#define DB_BUSY_MS 1000

struct db_prepared {
    const char *sql;
    sqlite3_stmt **statement;
};

struct db {
    struct db_thread thread;
    sqlite3 *handle;     /* NULL only after reopening failed */
    bool reading;        /* between db_read_begin() and db_read_end() */
    bool begun;          /* a transaction that db.c has neither committed nor rolled back */
    int failed;          /* first error of the current transaction */
    uint64_t room_bytes; /* free before the reserve, as of db_begin() */
    uint64_t quota_room_bytes, disk_room_bytes; /* of quota or disk alone */
    uint64_t unused_bytes;                      /* in free pages */
    uint64_t n_pages;        /* as of the last commit; 0: not known, ask SQLite */
    bool was_refused;        /* since the last db_maintain(): db_take_room() has returned false */
    const char *refused_sql; /* latest statement that SQLite refused; NULL: none */
    uint64_t checked_ns;     /* last check of a table; 0 = never */
    enum db_sync sync;
    uint64_t max_size_bytes;
    char *directory;
    char *path;
    char *vfs;
    struct log_limit *log_limit; /* shared with the other connections to the file */
    uint64_t copied_bytes;       /* length of the log as of its latest copy */
    uint64_t copied_ns;          /* when that was */
    struct wal_vfs *wal_vfs;     /* the VFS in use, on top of `vfs`; NULL for a reader */
    int lock_fd;                 /* -1 for the reader */
    dev_t device;
    ino_t inode;
    uint64_t n_files; /* opened so far */
    struct db_prepared *prepared;
    size_t n_prepared, cap_prepared;
    sqlite3_stmt *begin, *commit, *rollback, *page_count, *free_count, *vacuum;
};

_Static_assert(!offsetof(struct db, thread), "db.h expects it at the beginning");

/* db_error.c: both log SQLite's message and return the negative errno. */
int db_error(struct db *db, int code, const char *doing);
int db_step_error(struct db *db, int code, sqlite3_stmt *statement);
/* db_log.c: checkpoints. The first returns SQLite's code. */
int db_log_copy(struct db *db, int mode);
/* While nothing else makes a copy necessary: SQLITE_OK also if it is not time for one. */
int db_log_copy_in_time(struct db *db);
void db_log_shorten(struct db *db); /* if the log is long, and no read is going on */
void db_log_watch(struct db *db);   /* at opening, by the writer */
int db_prepare_all(struct db *db);
void db_finalize_all(struct db *db);

/* Sets db->handle; the writer makes or checks the schema. */
int db_file_open(struct db *db);
void db_file_close(struct db *db, bool checkpoint);
int db_directory_open(struct db *db);
