/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite writes a row as a whole, so bodies are separate from columns that change: pending_left and
 * outbox are the small rows of pending and outbox_body. Values that would need a scan of the
 * backlog (the sums of outbox) are stored and updated, so a start or a tick does not take longer
 * with a backlog. Rowids that other rows or modules hold are AUTOINCREMENT, so a removed rowid is
 * never reused; the outbox stores its last seq itself, in a row that it writes anyway. BLOB
 * formats: blob.h and the module that owns the table.
 */
#include "store/db/schema.h"

const char *const schema_steps[SCHEMA_VERSION] = {
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"

    "CREATE TABLE executable(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " identity BLOB NOT NULL UNIQUE CHECK(length(identity) = 16),"
    " generation INTEGER NOT NULL, facts BLOB);"
    "CREATE TABLE stack(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " hash BLOB NOT NULL UNIQUE CHECK(length(hash) = 16),"
    " generation INTEGER NOT NULL, public_id BLOB, frames BLOB NOT NULL);"
    "CREATE TABLE frame_name(executable INTEGER NOT NULL, address INTEGER NOT NULL,"
    " line INTEGER NOT NULL, function BLOB NOT NULL, file BLOB NOT NULL,"
    " PRIMARY KEY(executable, address)) WITHOUT ROWID;"
    "CREATE TABLE process(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " hash BLOB NOT NULL UNIQUE CHECK(length(hash) = 16),"
    " generation INTEGER NOT NULL, facts BLOB NOT NULL);"

    "CREATE TABLE pending(seq INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL);"
    "CREATE TABLE pending_left(seq INTEGER PRIMARY KEY, waiting BLOB NOT NULL);"
    "CREATE TABLE tally(id INTEGER PRIMARY KEY, body BLOB NOT NULL);"
    "CREATE TABLE span_resource(id INTEGER PRIMARY KEY, body BLOB NOT NULL);"
    "CREATE TABLE joined_span(id INTEGER PRIMARY KEY, resource INTEGER NOT NULL, body BLOB NOT "
    "NULL);"

    "CREATE TABLE destination(slot INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"
    "CREATE TABLE outbox(seq INTEGER PRIMARY KEY AUTOINCREMENT, signal INTEGER NOT NULL,"
    " items INTEGER NOT NULL, bytes INTEGER NOT NULL, enqueued_unix_ns INTEGER NOT NULL,"
    " waiting INTEGER NOT NULL);"
    "CREATE TABLE outbox_body(seq INTEGER PRIMARY KEY, body BLOB NOT NULL);",

    "ALTER TABLE frame_name ADD COLUMN system_name BLOB NOT NULL DEFAULT x'';",

    "ALTER TABLE stack ADD COLUMN same_as INTEGER;"
    "CREATE INDEX stack_same ON stack(same_as) WHERE same_as IS NOT NULL;",

    "CREATE TABLE code_name(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " hash BLOB NOT NULL UNIQUE CHECK(length(hash) = 16),"
    " generation INTEGER NOT NULL, function BLOB NOT NULL);",

    "ALTER TABLE frame_name ADD COLUMN inlined BLOB NOT NULL DEFAULT x'';",

    "CREATE TABLE held(seq INTEGER PRIMARY KEY AUTOINCREMENT, received_unix_ns INTEGER NOT NULL,"
    " items INTEGER NOT NULL, bytes INTEGER NOT NULL, contexts BLOB NOT NULL);"
    "CREATE TABLE held_body(seq INTEGER PRIMARY KEY, body BLOB NOT NULL, samples BLOB NOT NULL);"
    "CREATE TABLE held_span(seq INTEGER NOT NULL, context INTEGER NOT NULL, facts BLOB NOT NULL,"
    " PRIMARY KEY(seq, context)) WITHOUT ROWID;",

    "CREATE INDEX outbox_signal ON outbox(signal);"
    "CREATE TABLE outbox_total(signal INTEGER PRIMARY KEY, items INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, requests INTEGER NOT NULL);"
    "INSERT INTO outbox_total SELECT signal, total(items), total(bytes), count(*) FROM outbox"
    " GROUP BY signal;",

    "CREATE TABLE history_text(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " hash BLOB NOT NULL UNIQUE CHECK(length(hash) = 16),"
    " generation INTEGER NOT NULL, body BLOB NOT NULL);"
    "CREATE TABLE history_series(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " hash BLOB NOT NULL UNIQUE CHECK(length(hash) = 16),"
    " generation INTEGER NOT NULL, body BLOB NOT NULL);"
    "CREATE TABLE history_block(seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " written_unix_ns INTEGER NOT NULL, samples_from_unix_ns INTEGER NOT NULL,"
    " samples_to_unix_ns INTEGER NOT NULL, spans_from_unix_ns INTEGER NOT NULL,"
    " spans_to_unix_ns INTEGER NOT NULL, samples INTEGER NOT NULL, spans INTEGER NOT NULL,"
    " max_duration_ns INTEGER NOT NULL, bytes INTEGER NOT NULL);"
    "CREATE TABLE history_part(id INTEGER PRIMARY KEY, body BLOB NOT NULL);"
    "CREATE TABLE history_minute(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " minute_unix_ns INTEGER NOT NULL, through INTEGER NOT NULL, written_unix_ns INTEGER NOT NULL,"
    " samples INTEGER NOT NULL, value_ns INTEGER NOT NULL, period_ns INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL);"
    "CREATE TABLE history_minute_entries(id INTEGER PRIMARY KEY, body BLOB NOT NULL);"
    "CREATE TABLE history_minute_stacks(id INTEGER PRIMARY KEY, body BLOB NOT NULL);",

    /* The format of blocks has changed: old blocks are deleted. */
    "DELETE FROM history_block; DELETE FROM history_part; DELETE FROM history_minute;"
    "DELETE FROM history_minute_entries; DELETE FROM history_minute_stacks;",

    /* Requests by signal. seq = 0: sums of the signal; `waiting` is the number of requests, `body`
     * the last assigned seq. seq < 0: a recycled body with id -seq. */
    "ALTER TABLE outbox RENAME TO outbox_9;"
    "DROP INDEX outbox_signal;"
    "ALTER TABLE outbox_body RENAME COLUMN seq TO id;"
    "CREATE TABLE outbox(signal INTEGER NOT NULL, seq INTEGER NOT NULL, items INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, enqueued_unix_ns INTEGER NOT NULL, waiting INTEGER NOT NULL,"
    " body INTEGER NOT NULL, PRIMARY KEY(signal, seq)) WITHOUT ROWID;"
    "INSERT INTO outbox SELECT s.column1, 0, ifnull(t.items, 0), ifnull(t.bytes, 0), 0,"
    " ifnull(t.requests, 0),"
    " (SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'outbox_9')"
    " FROM (VALUES (0), (1), (2), (3)) s LEFT JOIN outbox_total t ON t.signal = s.column1;"
    "INSERT INTO outbox SELECT signal, seq, items, bytes, enqueued_unix_ns, waiting, seq"
    " FROM outbox_9 WHERE seq > 0 ORDER BY signal, seq;"
    "DROP TABLE outbox_9;"
    "DROP TABLE outbox_total;",

    /* Lines have columns, and code in no file has lines. The format of inlined functions has
     * changed: old ones are left out. */
    "UPDATE frame_name SET inlined = x'';"
    "ALTER TABLE code_name RENAME COLUMN function TO body;",
};
