/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite's codes as errno values. A constraint, a type and a missing column do not prove damage: a
 * request with values that nobody thought of looks the same. So the table is checked before the
 * whole file is put aside for it.
 */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/db/db_state.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CHECK_STEPS 1000 /* instructions of SQLite between two looks at the clock */

static int errno_of_io(sqlite3 *handle, int code)
{
    if (code == SQLITE_IOERR_NOMEM)
        return -ENOMEM;
    if (code == SQLITE_IOERR_CORRUPTFS || code == SQLITE_IOERR_DATA)
        return -EUCLEAN;
    int system = handle ? sqlite3_system_errno(handle) : 0;
    return system == ENOSPC || system == EDQUOT ? -ENOSPC : -EIO;
}

static int errno_of(sqlite3 *handle, int code)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: /* a table is missing or altered */
        return -EUCLEAN;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
        return -EBADMSG;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_AUTH:
        return -EACCES;
    case SQLITE_TOOBIG:
        return -EMSGSIZE;
    default:
        return errno_of_io(handle, code);
    }
}

int db_error(struct db *db, int code, const char *doing)
{
    int error = errno_of(db->handle, code);
    char text[64];
    bytes_sanitize(BYTES_STR(doing), text, sizeof(text));
    log_error("store", "%s: %s (%s)", text, db->handle ? sqlite3_errmsg(db->handle) : "no memory",
              sqlite3_errstr(code));
    return error;
}

/* A statement was prepared, so its table was there. */
int db_step_error(struct db *db, int code, sqlite3_stmt *statement)
{
    int error = db_error(db, code, sqlite3_sql(statement));
    if ((code & 0xff) == SQLITE_ERROR)
        error = -EBADMSG;
    if (error == -EBADMSG)
        db->refused_sql = sqlite3_sql(statement);
    return error;
}

bool db_has_refused(const struct db *db)
{
    return db->refused_sql;
}

/* The first table that one of our statements names. */
static struct bytes table_of(const char *sql)
{
    static const char *const before[] = {"INTO ", "FROM ", "UPDATE "};
    static const char name[] = "abcdefghijklmnopqrstuvwxyz_";
    for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++) {
        const char *at = strstr(sql, before[i]);
        at = at ? at + strlen(before[i]) : NULL;
        if (at && strspn(at, name))
            return BYTES(at, strspn(at, name));
    }
    return BYTES(NULL, 0);
}

static int check_is_late(void *context)
{
    const uint64_t *deadline_ns = context;
    return clock_monotonic_ns() > *deadline_ns;
}

/* The check also compares indices with their table and rows with their constraints. */
static bool check_finds_damage(struct db *db, struct bytes table)
{
    char sql[64];
    sqlite3_stmt *check = NULL;
    uint64_t deadline_ns = clock_monotonic_ns() + DB_CHECK_NS;
    snprintf(sql, sizeof(sql), "PRAGMA integrity_check(%.*s)", (int)table.len,
             (const char *)table.data);
    sqlite3_progress_handler(db->handle, CHECK_STEPS, check_is_late, &deadline_ns);
    int code = sqlite3_prepare_v2(db->handle, sql, -1, &check, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(check);
    const char *found = code == SQLITE_ROW ? (const char *)sqlite3_column_text(check, 0) : NULL;
    bool damaged = found ? strcmp(found, "ok") != 0
                         : code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR;
    if (damaged)
        log_error("store", "%s: %s", sql, found ? found : sqlite3_errmsg(db->handle));
    sqlite3_finalize(check);
    sqlite3_progress_handler(db->handle, 0, NULL, NULL);
    return damaged;
}

bool db_table_is_damaged(struct db *db)
{
    WRITER_THREAD(db);
    assert(!db_in_transaction(db));
    uint64_t now_ns = clock_monotonic_ns();
    struct bytes table = db->refused_sql ? table_of(db->refused_sql) : BYTES(NULL, 0);
    bool due = !db->checked_ns || now_ns - db->checked_ns >= DB_CHECK_EVERY_NS;
    db->refused_sql = NULL;
    if (!table.len || !due || !db->handle)
        return false;
    db->checked_ns = now_ns;
    return check_finds_damage(db, table);
}
