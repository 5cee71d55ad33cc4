/* SPDX-License-Identifier: Apache-2.0 */
#include "store/outbox/outbox_sums.h"
#include "base/stats.h"
#include "store/db/db.h"
#include <errno.h>
#include <string.h>

STAT_GAUGES(bytes, "spanprof_outbox_size_bytes", "Bytes of requests that wait for a destination.",
            STAT_LABEL("signal", signal_names, SIGNAL_COUNT));
STAT_GAUGES(items, "spanprof_outbox_items",
            "Items (spans, samples, data points, log records) in requests that wait for a "
            "destination.",
            STAT_LABEL("signal", signal_names, SIGNAL_COUNT));
STAT_GAUGES(requests, "spanprof_outbox_requests", "Requests that wait for a destination.",
            STAT_LABEL("signal", signal_names, SIGNAL_COUNT));

int outbox_sums_prepare(struct db *db, struct outbox_sums *sums)
{
    sums->db = db;
    int error = db_prepare(db,
                           "SELECT items, bytes, waiting, body FROM outbox"
                           " WHERE signal = ?1 AND seq = 0",
                           &sums->get);
    if (!error)
        error = db_prepare(db,
                           "SELECT max(ifnull((SELECT max(seq) FROM outbox WHERE signal = ?1), 0),"
                           " ifnull((SELECT max(id) FROM outbox_body), 0))",
                           &sums->newest);
    if (!error)
        error = db_prepare(
            db,
            "INSERT INTO outbox(signal, seq, items, bytes, enqueued_unix_ns, waiting, body)"
            " VALUES (?1, 0, ?2, ?3, 0, ?4, ?5) ON CONFLICT(signal, seq)"
            " DO UPDATE SET items = ?2, bytes = ?3, waiting = ?4, body = ?5",
            &sums->put);
    return error;
}

void outbox_sums_unprepare(struct outbox_sums *sums)
{
    if (!sums->db) /* never prepared */
        return;
    db_unprepare(sums->db, &sums->get);
    db_unprepare(sums->db, &sums->newest);
    db_unprepare(sums->db, &sums->put);
}

static int64_t not_negative(int64_t number) /* a damaged row */
{
    return number < 0 ? 0 : number;
}

static void note_seq(struct outbox_sums *sums, int64_t seq)
{
    if (seq > sums->last_seq)
        sums->last_seq = seq;
}

static int load_sum(struct outbox_sums *sums, int signal)
{
    sqlite3_stmt *row _cleanup_reset_ = sums->get;
    sqlite3_bind_int64(row, 1, signal);
    int outcome = db_step(sums->db, row);
    if (outcome <= 0)
        return outcome;
    sums->of[signal] = (struct outbox_sum){.items = not_negative(sqlite3_column_int64(row, 0)),
                                           .bytes = not_negative(sqlite3_column_int64(row, 1)),
                                           .requests = not_negative(sqlite3_column_int64(row, 2))};
    note_seq(sums, sqlite3_column_int64(row, 3));
    return 0;
}

/* Reads the newest seq, so that a damaged sum does not make an existing seq be assigned again. */
static int load_newest(struct outbox_sums *sums, int signal)
{
    sqlite3_stmt *row _cleanup_reset_ = sums->newest;
    sqlite3_bind_int64(row, 1, signal);
    int outcome = db_step(sums->db, row);
    if (outcome == 1)
        note_seq(sums, sqlite3_column_int64(row, 0));
    return outcome < 0 ? outcome : 0;
}

/* Sets each gauge exactly once: other threads read it, and a nonempty outbox must never look
 * empty. */
static void set_gauges(const struct outbox_sums *sums)
{
    for (unsigned signal = 0; signal < SIGNAL_COUNT; signal++) {
        stat_set_of(&items, signal, sums->of[signal].items);
        stat_set_of(&bytes, signal, sums->of[signal].bytes);
        stat_set_of(&requests, signal, sums->of[signal].requests);
    }
}

int outbox_sums_load(struct outbox_sums *sums)
{
    int error = 0;
    sums->last_seq = 0;
    for (int signal = 0; signal < SIGNAL_COUNT && !error; signal++) {
        sums->of[signal] = (struct outbox_sum){0};
        sums->changed[signal] = false;
        error = load_sum(sums, signal);
        error = error ? error : load_newest(sums, signal);
    }
    if (!error && sums->last_seq > INT64_MAX / 2) /* damaged: the next seqs would overflow */
        error = -EUCLEAN;
    if (error)
        return error;
    set_gauges(sums);
    outbox_sums_committed(sums);
    return 0;
}

void outbox_sums_add(struct outbox_sums *sums, enum signal signal, const struct outbox_sum *more)
{
    struct outbox_sum *sum = &sums->of[signal];
    sums->changed[signal] = true;
    sum->items += more->items;
    sum->bytes += more->bytes;
    sum->requests += more->requests;
    stat_add_of(&items, signal, more->items);
    stat_add_of(&bytes, signal, more->bytes);
    stat_add_of(&requests, signal, more->requests);
}

void outbox_sums_remove(struct outbox_sums *sums, enum signal signal, const struct outbox_sum *less)
{
    const struct outbox_sum more = {-less->items, -less->bytes, -less->requests};
    outbox_sums_add(sums, signal, &more);
}

int outbox_sums_flush(struct outbox_sums *sums)
{
    int error = 0;
    for (int signal = 0; signal < SIGNAL_COUNT && !error; signal++) {
        const struct outbox_sum *sum = &sums->of[signal];
        if (!sums->changed[signal])
            continue;
        sqlite3_bind_int64(sums->put, 1, signal);
        sqlite3_bind_int64(sums->put, 2, sum->items);
        sqlite3_bind_int64(sums->put, 3, sum->bytes);
        sqlite3_bind_int64(sums->put, 4, sum->requests);
        sqlite3_bind_int64(sums->put, 5, sums->last_seq);
        error = db_run(sums->db, sums->put);
        sums->changed[signal] = error != 0;
    }
    return error;
}

void outbox_sums_committed(struct outbox_sums *sums)
{
    memcpy(sums->committed, sums->of, sizeof(sums->of));
}

int64_t outbox_sums_requests(enum signal signal)
{
    return stat_get_of(&requests, signal);
}
