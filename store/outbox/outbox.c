/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each destination has a slot (outbox_slots.c). Each request has a mask of the slots that wait for
 * it. Mask and body are in separate rows, so an acknowledgement does not write the body again.
 *
 * SQLite writes a whole page for each change, so the rows that a transaction changes are stored
 * together. In the table of requests, ordered by signal and seq: seq > 0 is a request, seq = 0 the
 * sums of the signal, seq < 0 a recycled body.
 */
#include "store/outbox/outbox.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "store/outbox/outbox_state.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

STAT_GAUGES(age, "spanprof_outbox_oldest_age_seconds",
            "Age of the oldest request that waits for a destination.",
            STAT_LABEL("signal", signal_names, SIGNAL_COUNT));
STAT_COUNTERS(unwanted, "spanprof_outbox_unwanted_items_total",
              "Items that no pipeline takes to a destination.",
              STAT_LABEL("signal", signal_names, SIGNAL_COUNT));

_Static_assert(SIGNAL_COUNT == 4, "the statement that gets a request asks for each signal");

/* Opening */

static int prepare_all(struct outbox *outbox)
{
    const struct {
        const char *sql;
        sqlite3_stmt **statement;
    } all[] = {
        {"INSERT INTO outbox(signal, seq, items, bytes, enqueued_unix_ns, waiting, body)"
         " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
         &outbox->put},
        {"UPDATE outbox SET seq = ?2, items = ?3, bytes = ?4, enqueued_unix_ns = ?5, waiting = ?6"
         " WHERE signal = ?1 AND seq = -?7 AND body = ?7",
         &outbox->put_over},
        {"SELECT o.signal, o.items, o.bytes, o.waiting, o.body, length(b.body) FROM outbox o"
         " LEFT JOIN outbox_body b ON b.id = o.body"
         " WHERE o.signal IN (0, 1, 2, 3) AND o.seq = ?1",
         &outbox->get},
        {"UPDATE outbox SET waiting = ?3 WHERE signal = ?1 AND seq = ?2", &outbox->clear},
        {"DELETE FROM outbox WHERE signal = ?1 AND seq = ?2", &outbox->remove},
        {"UPDATE outbox SET seq = -body, items = 0, bytes = 0, enqueued_unix_ns = 0, waiting = 0"
         " WHERE signal = ?1 AND seq = ?2",
         &outbox->recycle},
        {"SELECT seq, enqueued_unix_ns, waiting,"
         " EXISTS(SELECT 1 FROM outbox_body WHERE id = outbox.body)"
         " FROM outbox WHERE signal = ?1 AND seq > 0 ORDER BY seq LIMIT 1",
         &outbox->oldest},
        {"SELECT signal, seq, waiting FROM outbox WHERE (signal, seq) > (?1, ?2) AND seq > 0"
         " ORDER BY signal, seq LIMIT ?3",
         &outbox->gone},
        {"SELECT slot, name FROM destination", &outbox->slots},
        {"INSERT INTO destination(slot, name) VALUES (?1, ?2)", &outbox->put_slot},
        {"UPDATE destination SET name = ?2 WHERE slot = ?1", &outbox->rename_slot},
        {"DELETE FROM destination WHERE (1 << slot) & ?1 = 0", &outbox->remove_slots},
    };
    int error = outbox_sums_prepare(outbox->db, &outbox->sums);
    if (!error)
        error = outbox_bodies_prepare(outbox->db, &outbox->bodies);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && !error; i++)
        error = db_prepare(outbox->db, all[i].sql, all[i].statement);
    return error;
}

int outbox_reload(struct outbox *outbox)
{
    WRITER_THREAD(outbox->db);
    int error = db_begin(outbox->db);
    if (error)
        return error;
    error = outbox_assign_slots(outbox);
    if (error)
        db_fail(outbox->db, error);
    error = db_commit(outbox->db);
    for (unsigned signal = 0; signal < SIGNAL_COUNT; signal++)
        stat_set_of(&age, signal, 0);
    if (!error)
        error = outbox_bodies_load(&outbox->bodies);
    error = error ? error : outbox_sums_load(&outbox->sums);
    outbox_handoffs_follow(&outbox->handoffs, db_files(outbox->db), outbox->sums.last_seq);
    return error;
}

static int copy_name(const char *name, char **copy)
{
    *copy = name ? strdup(name) : NULL;
    return name && !*copy ? -ENOMEM : 0;
}

static int copy_names(struct outbox *outbox, const struct outbox_settings *settings)
{
    int error = settings->n > OUTBOX_DESTINATIONS_MAX ? -E2BIG : 0;
    for (size_t i = 0; i < settings->n && !error; i++) {
        const char *other = settings->other_names ? settings->other_names[i] : NULL;
        assert(!outbox_is_named(outbox, settings->names[i]));
        error = copy_name(settings->names[i], &outbox->names[i]);
        outbox->n += !error;
        error = error ? error : copy_name(other, &outbox->other_names[i]);
    }
    return error;
}

int outbox_open(struct db *db, const struct outbox_settings *settings, struct outbox **result)
{
    struct outbox *outbox = calloc(1, sizeof(*outbox));
    if (!outbox)
        return -ENOMEM;
    outbox_handoffs_init(&outbox->handoffs);
    outbox->db = db;
    outbox->policy = settings->policy;
    outbox->gone_after_ns = settings->gone_after_ns;
    int error = copy_names(outbox, settings);
    if (!error)
        error = prepare_all(outbox);
    if (!error)
        error = outbox_reload(outbox);
    if (error) {
        outbox_close(outbox);
        return error;
    }
    *result = outbox;
    return 0;
}

void outbox_close(struct outbox *outbox)
{
    if (!outbox)
        return;
    sqlite3_stmt **all[] = {&outbox->put,      &outbox->put_over,    &outbox->get,
                            &outbox->clear,    &outbox->remove,      &outbox->recycle,
                            &outbox->oldest,   &outbox->gone,        &outbox->slots,
                            &outbox->put_slot, &outbox->rename_slot, &outbox->remove_slots};
    outbox_sums_unprepare(&outbox->sums);
    outbox_bodies_close(&outbox->bodies);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        db_unprepare(outbox->db, all[i]);
    for (size_t i = 0; i < outbox->n; i++) {
        free(outbox->names[i]);
        free(outbox->other_names[i]);
    }
    outbox_handoffs_close(&outbox->handoffs);
    free(outbox);
}

/* Writer */

uint64_t outbox_mask_of(const struct outbox *outbox, uint32_t destinations)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < outbox->n; i++)
        if (destinations >> i & 1)
            mask |= outbox->bits[i];
    return mask;
}

static int outbox_put_row(struct outbox *outbox, enum signal signal, uint64_t n_items,
                          uint64_t mask, struct bytes body)
{
    int64_t seq = ++outbox->sums.last_seq, body_id = 0;
    int error = outbox_bodies_put(&outbox->bodies, signal, seq, body, &body_id);
    if (error)
        return error;
    sqlite3_stmt *row = body_id == seq ? outbox->put : outbox->put_over;
    sqlite3_bind_int64(row, 1, signal);
    sqlite3_bind_int64(row, 2, seq);
    sqlite3_bind_int64(row, 3, (int64_t)n_items);
    sqlite3_bind_int64(row, 4, (int64_t)body.len);
    sqlite3_bind_int64(row, 5, (int64_t)clock_unix_ns());
    sqlite3_bind_int64(row, 6, (int64_t)mask);
    sqlite3_bind_int64(row, 7, body_id);
    error = db_run(outbox->db, row);
    if (error)
        return error;
    if (sqlite3_changes(db_handle(outbox->db)) != 1) { /* the recycled body has no row */
        db_fail(outbox->db, -EUCLEAN);
        return -EUCLEAN;
    }
    const struct outbox_sum more = {(int64_t)n_items, (int64_t)body.len, 1};
    outbox_sums_add(&outbox->sums, signal, &more);
    return 0;
}

static int64_t not_negative(int64_t number) /* a damaged row */
{
    return number < 0 ? 0 : number;
}

int outbox_get_row(struct outbox *outbox, int64_t seq, struct request_row *request)
{
    sqlite3_stmt *row _cleanup_reset_ = outbox->get;
    sqlite3_bind_int64(row, 1, seq);
    int outcome = seq > 0 ? db_step(outbox->db, row) : 0;
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    *request = (struct request_row){
        .seq = seq,
        .signal = (enum signal)sqlite3_column_int(row, 0),
        .items = not_negative(sqlite3_column_int64(row, 1)),
        .bytes = not_negative(sqlite3_column_int64(row, 2)),
        .waiting = (uint64_t)sqlite3_column_int64(row, 3),
        .body = sqlite3_column_int64(row, 4),
        .stored_bytes = sqlite3_column_int64(row, 5),
    };
    return 0;
}

static int run_on_row(struct outbox *outbox, sqlite3_stmt *statement,
                      const struct request_row *request)
{
    sqlite3_bind_int64(statement, 1, request->signal);
    sqlite3_bind_int64(statement, 2, request->seq);
    return db_run(outbox->db, statement);
}

static int remove_row(struct outbox *outbox, const struct request_row *request)
{
    int error = run_on_row(outbox, outbox->remove, request);
    return error ? error : outbox_bodies_remove(&outbox->bodies, request->body);
}

static void outbox_subtract(struct outbox *outbox, const struct request_row *request)
{
    const struct outbox_sum less = {request->items, request->bytes, 1};
    outbox_sums_remove(&outbox->sums, request->signal, &less);
}

int outbox_remove_row(struct outbox *outbox, const struct request_row *request)
{
    int error = remove_row(outbox, request);
    if (!error)
        outbox_subtract(outbox, request);
    return error;
}

static int request_recycle_or_remove(struct outbox *outbox, const struct request_row *request)
{
    int outcome = outbox_has_room_to_recycle(outbox)
                      ? outbox_bodies_recycle(&outbox->bodies, request->signal, request->body,
                                              (size_t)request->stored_bytes)
                      : 0;
    if (outcome < 0)
        return outcome;
    return outcome ? run_on_row(outbox, outbox->recycle, request) : remove_row(outbox, request);
}

int outbox_put(struct outbox *outbox, enum signal signal, uint64_t n_items, uint32_t destinations,
               struct bytes body)
{
    WRITER_THREAD(outbox->db);
    uint64_t mask = outbox_mask_of(outbox, destinations);
    assert(signal < SIGNAL_COUNT);
    if (!mask) {
        stat_add_of(&unwanted, signal, (int64_t)n_items);
        return 0;
    }
    int error = outbox_take_room_for(outbox, signal, body.len);
    if (!error)
        error = outbox_put_row(outbox, signal, n_items, mask, body);
    if (!error)
        outbox_handoffs_put(
            &outbox->handoffs, destinations,
            &(struct outbox_row){
                .seq = outbox->sums.last_seq, .signal = signal, .items = n_items, .body = body});
    return error;
}

int outbox_flush(struct outbox *outbox)
{
    WRITER_THREAD(outbox->db);
    return outbox_sums_flush(&outbox->sums);
}

void outbox_committed(struct outbox *outbox)
{
    WRITER_THREAD(outbox->db);
    outbox_handoffs_committed(&outbox->handoffs);
    outbox_sums_committed(&outbox->sums);
}

void outbox_rolled_back(struct outbox *outbox)
{
    WRITER_THREAD(outbox->db);
    outbox_handoffs_void(&outbox->handoffs);
}

struct outbox_handoff *outbox_handoff(struct outbox *outbox, size_t destination, enum signal signal)
{
    assert(destination < outbox->n);
    return &outbox->handoffs.of[destination][signal];
}

int outbox_clear(struct outbox *outbox, const struct request_row *request, uint64_t bits)
{
    uint64_t waiting = request->waiting & ~bits;
    if (!waiting) {
        int error = request_recycle_or_remove(outbox, request);
        if (!error)
            outbox_subtract(outbox, request);
        return error;
    }
    if (waiting == request->waiting)
        return 0;
    sqlite3_bind_int64(outbox->clear, 3, (int64_t)waiting);
    return run_on_row(outbox, outbox->clear, request);
}

int outbox_done(struct outbox *outbox, size_t destination, int64_t seq)
{
    WRITER_THREAD(outbox->db);
    struct request_row request;
    assert(destination < outbox->n);
    int error = outbox_get_row(outbox, seq, &request);
    if (error)
        return error == -ENOENT ? 0 : error;
    return outbox_clear(outbox, &request, outbox->bits[destination]);
}

static int update_age(struct outbox *outbox, int signal, uint64_t now_unix_ns)
{
    struct outbox_oldest oldest = {.since_unix_ns = now_unix_ns};
    int outcome = outbox_sums_requests((enum signal)signal) > 0
                      ? outbox_find_oldest(outbox, signal, &oldest)
                      : 0;
    if (outcome < 0)
        return outcome;
    uint64_t since = oldest.since_unix_ns;
    stat_set_of(&age, (unsigned)signal,
                since < now_unix_ns ? (int64_t)((now_unix_ns - since) / NS_PER_SEC) : 0);
    return 0;
}

int outbox_collect(struct outbox *outbox, uint64_t now_unix_ns)
{
    WRITER_THREAD(outbox->db);
    int error = outbox_has_room_to_recycle(outbox) ? 0 : outbox_drop_recycled(outbox);
    for (int signal = 0; signal < SIGNAL_COUNT && !error; signal++) {
        error = outbox_drop_damaged(outbox, signal);
        error = error ? error : update_age(outbox, signal, now_unix_ns);
    }
    return error ? error : outbox_collect_gone(outbox);
}
