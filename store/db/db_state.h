/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What db.c and db_open.c share; nobody else includes it. */
#include "base/thread_owner.h"
#include "store/db/db.h"
#include <limits.h>
#include <sys/types.h>

struct db_prepared {
    const char *sql;
    sqlite3_stmt **statement;
};

struct db {
    sqlite3 *handle; /* NULL only while it could not be opened anew */
    struct thread_owner owner;
    bool writer;
    bool begun;          /* a transaction, neither committed nor rolled back by us */
    int failed;          /* first error of the transaction at hand */
    uint64_t room_bytes; /* left before the reserve, as of db_begin() */
    uint64_t quota_room_bytes, disk_room_bytes; /* of the one alone */
    uint64_t unused_bytes;                      /* pages to use again */
    uint64_t n_pages;                           /* by the last commit; 0: SQLite is asked */
    bool was_refused; /* since the last upkeep: there was less room than was asked for */
    enum db_sync sync;
    uint64_t max_size_bytes;
    char *directory;
    char *path;
    char *vfs;
    struct wal_vfs *wal_vfs; /* above it; NULL for a reader */
    int lock_fd;             /* -1 for the reader */
    dev_t device;
    ino_t inode;
    uint64_t n_files; /* opened so far */
    struct db_prepared *prepared;
    size_t n_prepared, cap_prepared;
    sqlite3_stmt *begin, *commit, *rollback, *page_count, *free_count, *vacuum;
};

/* Logs what SQLite says and gives the errno. */
int db_error(struct db *db, int code, const char *doing);
int db_prepare_all(struct db *db);
void db_finalize_all(struct db *db);

/* Sets db->handle; the writer makes or checks the schema. */
int db_file_open(struct db *db);
void db_file_close(struct db *db, bool checkpoint);
int db_directory_open(struct db *db);
