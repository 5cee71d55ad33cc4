/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite overwrites a row in place if the new one has exactly the old one's size, so bodies are
 * stored with zeros behind them; how long one is stands in its request's row.
 */
#include "store/outbox/outbox_bodies.h"
#include "store/db/db.h"
#include <errno.h>
#include <string.h>

#define STEP_BYTES  1024 /* stored sizes are multiples */
#define SMALL_BYTES 4096 /* less has no pages of its own */
#define LARGE_BYTES (64u << 10)
#define WASTE_BYTES 4096 /* a spare may be larger by less: a page */

int outbox_bodies_prepare(struct db *db, struct outbox_bodies *bodies)
{
    const struct {
        const char *sql;
        sqlite3_stmt **statement;
    } all[] = {
        {"INSERT INTO outbox_body(id, body) VALUES (?1, ?2)", &bodies->put},
        {"UPDATE outbox_body SET body = ?2 WHERE id = ?1 AND length(body) = ?3",
         &bodies->overwrite},
        {"DELETE FROM outbox_body WHERE id = ?1", &bodies->remove},
        {"SELECT b.id, length(b.body) FROM outbox o CROSS JOIN outbox_body b ON b.id = o.body"
         " WHERE o.signal = ?1 AND o.seq < 0 AND o.seq = -o.body LIMIT ?2",
         &bodies->spares},
        {"DELETE FROM outbox WHERE signal = ?1 AND seq = ?2", &bodies->forget},
    };
    int error = 0;
    bodies->db = db;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && !error; i++)
        error = db_prepare(db, all[i].sql, all[i].statement);
    return error;
}

void outbox_bodies_close(struct outbox_bodies *bodies)
{
    sqlite3_stmt **all[] = {&bodies->put, &bodies->overwrite, &bodies->remove, &bodies->spares,
                            &bodies->forget};
    if (!bodies->db) /* never prepared */
        return;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        db_unprepare(bodies->db, all[i]);
    buf_close(&bodies->padded);
}

static int load_spares(struct outbox_bodies *bodies, int signal)
{
    struct outbox_spares *spares = &bodies->of[signal];
    sqlite3_stmt *row _cleanup_reset_ = bodies->spares;
    int outcome = 0;
    spares->n = 0;
    sqlite3_bind_int64(row, 1, signal);
    sqlite3_bind_int64(row, 2, OUTBOX_SPARES_MAX);
    while (spares->n < OUTBOX_SPARES_MAX && (outcome = db_step(bodies->db, row)) == 1)
        spares->list[spares->n++] = (struct outbox_spare){
            .id = sqlite3_column_int64(row, 0), .size = (size_t)sqlite3_column_int64(row, 1)};
    return outcome < 0 ? outcome : 0;
}

int outbox_bodies_load(struct outbox_bodies *bodies)
{
    int error = 0;
    for (int signal = 0; signal < SIGNAL_COUNT && !error; signal++)
        error = load_spares(bodies, signal);
    return error;
}

/* ---- writing ---- */

static bool may_be_spare(size_t size)
{
    return size >= SMALL_BYTES && size <= LARGE_BYTES;
}

static struct outbox_spare take(struct outbox_spares *spares, size_t index)
{
    struct outbox_spare spare = spares->list[index];
    spares->n--;
    memmove(&spares->list[index], &spares->list[index + 1],
            (spares->n - index) * sizeof(*spares->list));
    return spare;
}

/* The smallest that fits, or none: id 0. */
static struct outbox_spare take_fitting(struct outbox_spares *spares, size_t size)
{
    size_t best = spares->n;
    for (size_t i = 0; i < spares->n; i++) {
        size_t has = spares->list[i].size;
        if (has >= size && has - size < WASTE_BYTES &&
            (best == spares->n || has < spares->list[best].size))
            best = i;
    }
    return best < spares->n ? take(spares, best) : (struct outbox_spare){0};
}

static int pad(struct outbox_bodies *bodies, struct bytes body, size_t size, struct bytes *padded)
{
    static const uint8_t zeros[WASTE_BYTES + STEP_BYTES];
    *padded = body;
    if (body.len == size)
        return 0;
    buf_clear(&bodies->padded);
    int error = buf_append_bytes(&bodies->padded, body);
    error = error ? error : buf_append_bytes(&bodies->padded, BYTES(zeros, size - body.len));
    *padded = buf_bytes(&bodies->padded);
    if (error)
        db_fail(bodies->db, -ENOMEM);
    return error ? -ENOMEM : 0;
}

static int write_body(struct outbox_bodies *bodies, sqlite3_stmt *statement, int64_t id,
                      struct bytes body)
{
    sqlite3_bind_int64(statement, 1, id);
    sqlite3_bind_blob64(statement, 2, body.len ? (const void *)body.data : "", body.len,
                        SQLITE_STATIC);
    if (statement == bodies->overwrite)
        sqlite3_bind_int64(statement, 3, (int64_t)body.len);
    int error = db_run(bodies->db, statement);
    sqlite3_clear_bindings(statement);
    return error;
}

static int forget(struct outbox_bodies *bodies, enum signal signal, int64_t id)
{
    sqlite3_bind_int64(bodies->forget, 1, signal);
    sqlite3_bind_int64(bodies->forget, 2, -id);
    return db_run(bodies->db, bodies->forget);
}

/* 1, or 0 if it is not as it was: a damaged row. */
static int overwrite(struct outbox_bodies *bodies, const struct outbox_spare *spare,
                     struct bytes body)
{
    struct bytes padded;
    int error = pad(bodies, body, spare->size, &padded);
    error = error ? error : write_body(bodies, bodies->overwrite, spare->id, padded);
    return error ? error : sqlite3_changes(db_handle(bodies->db)) == 1;
}

int outbox_bodies_put(struct outbox_bodies *bodies, enum signal signal, int64_t new_id,
                      struct bytes body, int64_t *id)
{
    size_t size = body.len;
    struct outbox_spare spare = {0};
    if (may_be_spare(size)) {
        size += (STEP_BYTES - size % STEP_BYTES) % STEP_BYTES;
        spare = take_fitting(&bodies->of[signal], size);
    }
    *id = spare.id;
    int error = spare.id ? overwrite(bodies, &spare, body) : 0;
    if (error)
        return error < 0 ? error : 0;
    *id = new_id;
    error = spare.id ? forget(bodies, signal, spare.id) : 0;
    error = error ? error : pad(bodies, body, size, &body);
    return error ? error : write_body(bodies, bodies->put, new_id, body);
}

int outbox_bodies_remove(struct outbox_bodies *bodies, int64_t id)
{
    sqlite3_bind_int64(bodies->remove, 1, id);
    return db_run(bodies->db, bodies->remove);
}

/* ---- spares ---- */

static int give_up_first(struct outbox_bodies *bodies, enum signal signal)
{
    struct outbox_spare spare = take(&bodies->of[signal], 0);
    int error = forget(bodies, signal, spare.id);
    return error ? error : outbox_bodies_remove(bodies, spare.id);
}

int outbox_bodies_spare(struct outbox_bodies *bodies, enum signal signal, int64_t id, size_t size)
{
    struct outbox_spares *spares = &bodies->of[signal];
    if (!may_be_spare(size) || id <= 0)
        return 0;
    int error = spares->n == OUTBOX_SPARES_MAX ? give_up_first(bodies, signal) : 0;
    if (error)
        return error;
    spares->list[spares->n++] = (struct outbox_spare){id, size};
    return 1;
}

int outbox_bodies_give_up(struct outbox_bodies *bodies)
{
    int error = 0, any = 0;
    for (int signal = 0; signal < SIGNAL_COUNT; signal++)
        while (!error && bodies->of[signal].n) {
            error = give_up_first(bodies, (enum signal)signal);
            any = 1;
        }
    return error ? error : any;
}
