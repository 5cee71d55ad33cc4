/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's side of the outbox. A read is over before this returns: an open one would keep the
 * log from being checkpointed, and a request may take minutes to send.
 */
#include "store/outbox.h"
#include "store/db.h"
#include <errno.h>
#include <stdlib.h>

struct outbox_reader {
    struct db *db;
    sqlite3_stmt *next, *next_signal;
};

#define SELECT_NEXT                                                                                \
    "SELECT o.seq, o.signal, o.items, o.enqueued_unix_ns, b.body FROM outbox o"                    \
    " JOIN outbox_body b ON b.seq = o.seq WHERE o.seq > ?2"                                        \
    " AND o.waiting & (1 << (SELECT slot FROM destination WHERE name = ?1))"

int outbox_reader_open(struct db *reader_db, struct outbox_reader **result)
{
    struct outbox_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return -ENOMEM;
    reader->db = reader_db;
    int error = db_prepare(reader_db, SELECT_NEXT " ORDER BY o.seq LIMIT 1", &reader->next);
    if (!error)
        error = db_prepare(reader_db, SELECT_NEXT " AND o.signal = ?3 ORDER BY o.seq LIMIT 1",
                           &reader->next_signal);
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
    db_unprepare(reader->db, &reader->next);
    db_unprepare(reader->db, &reader->next_signal);
    free(reader);
}

static int copy_item(sqlite3_stmt *row, struct outbox_item *item)
{
    int64_t signal = sqlite3_column_int64(row, 1);
    if (signal < 0 || signal >= SIGNAL_COUNT)
        return -EUCLEAN;
    *item = (struct outbox_item){
        .seq = sqlite3_column_int64(row, 0),
        .signal = (enum signal)signal,
        .items = (uint64_t)sqlite3_column_int64(row, 2),
        .enqueued_unix_ns = (uint64_t)sqlite3_column_int64(row, 3),
    };
    return buf_append(&item->body, sqlite3_column_blob(row, 4),
                      (size_t)sqlite3_column_bytes(row, 4));
}

/* signal: -1 = any */
static int next(struct outbox_reader *reader, const char *destination, int signal,
                int64_t after_seq, struct outbox_item *item)
{
    int error = db_follow(reader->db);
    if (error)
        return error;
    sqlite3_stmt *row _cleanup_reset_ = signal < 0 ? reader->next : reader->next_signal;
    sqlite3_bind_text(row, 1, destination, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(row, 2, after_seq);
    if (signal >= 0)
        sqlite3_bind_int64(row, 3, signal);
    int outcome = db_step(reader->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    return copy_item(row, item);
}

int outbox_next(struct outbox_reader *reader, const char *destination, int64_t after_seq,
                struct outbox_item *item)
{
    return next(reader, destination, -1, after_seq, item);
}

int outbox_next_signal(struct outbox_reader *reader, const char *destination, enum signal signal,
                       int64_t after_seq, struct outbox_item *item)
{
    return next(reader, destination, (int)signal, after_seq, item);
}
