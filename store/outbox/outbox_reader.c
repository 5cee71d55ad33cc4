/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's side of the outbox. Every read ends before the function returns: an open read blocks
 * checkpoints of the log, and sending a request may take minutes.
 */
#include "store/outbox/outbox.h"
#include "store/db/db.h"
#include <errno.h>
#include <stdlib.h>

struct outbox_reader {
    struct db *db;
    sqlite3_stmt *each;
};

int outbox_reader_open(struct db *reader_db, struct outbox_reader **result)
{
    struct outbox_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return -ENOMEM;
    reader->db = reader_db;
    int error = db_prepare(reader_db,
                           "SELECT o.seq, o.items, o.enqueued_unix_ns, o.bytes, b.body"
                           " FROM outbox o CROSS JOIN outbox_body b ON b.id = o.body"
                           " WHERE o.signal = ?3 AND o.seq > max(?2, 0) AND o.waiting"
                           " & (1 << (SELECT slot FROM destination WHERE name = ?1))"
                           " ORDER BY o.seq LIMIT ?4",
                           &reader->each);
    if (error) {
        outbox_reader_close(reader);
        return error;
    }
    *result = reader;
    return 0;
}

void outbox_reader_close(struct outbox_reader *reader)
{
    if (!reader)
        return;
    db_unprepare(reader->db, &reader->each);
    free(reader);
}

/* A stored body may be padded with zeros. */
static struct bytes read_body(sqlite3_stmt *row)
{
    struct bytes stored = BYTES(sqlite3_column_blob(row, 4), (size_t)sqlite3_column_bytes(row, 4));
    uint64_t len = (uint64_t)sqlite3_column_int64(row, 3);
    return len < stored.len ? BYTES(stored.data, (size_t)len) : stored;
}

static int visit_rows(struct outbox_reader *reader, const struct outbox_query *query,
                      int (*visit)(void *context, const struct outbox_row *row), void *context)
{
    struct outbox_row found;
    int error = 0, outcome = 0;
    sqlite3_stmt *row _cleanup_reset_ = reader->each;
    sqlite3_bind_text(row, 1, query->destination, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(row, 2, query->after_seq);
    sqlite3_bind_int64(row, 3, query->signal);
    sqlite3_bind_int64(row, 4, query->limit);
    while (!error && (outcome = db_step(reader->db, row)) == 1) {
        found = (struct outbox_row){.seq = sqlite3_column_int64(row, 0),
                                    .signal = query->signal,
                                    .items = (uint64_t)sqlite3_column_int64(row, 1),
                                    .enqueued_unix_ns = (uint64_t)sqlite3_column_int64(row, 2),
                                    .body = read_body(row)};
        error = visit(context, &found);
    }
    return error ? error : outcome;
}

int outbox_each(struct outbox_reader *reader, const struct outbox_query *query,
                int (*visit)(void *context, const struct outbox_row *row), void *context)
{
    DB_THREAD(reader->db);
    int error = db_read_begin(reader->db);
    if (!error)
        error = visit_rows(reader, query, visit, context);
    db_read_end(reader->db);
    return error;
}
