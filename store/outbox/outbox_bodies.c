/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite overwrites a row in place if the new row has exactly the old size, so bodies are padded
 * with zeros. The row of the request has the length of the body.
 */
#include "store/outbox/outbox_bodies.h"
#include "store/db/db.h"
#include <errno.h>
#include <string.h>

#define STEP_BYTES  1024 /* stored sizes are multiples of it */
#define SMALL_BYTES 4096 /* a smaller body has no pages of its own */
#define LARGE_BYTES (64u << 10)
#define WASTE_BYTES 4096 /* limit of unused bytes in a recycled body: a page */

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
         &bodies->recycled},
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
    sqlite3_stmt **all[] = {&bodies->put, &bodies->overwrite, &bodies->remove, &bodies->recycled,
                            &bodies->forget};
    if (!bodies->db) /* never prepared */
        return;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        db_unprepare(bodies->db, all[i]);
    buf_close(&bodies->padded);
}

static int recycled_load(struct outbox_bodies *bodies, int signal)
{
    struct outbox_recycled_bodies *recycled = &bodies->of[signal];
    sqlite3_stmt *row _cleanup_reset_ = bodies->recycled;
    int outcome = 0;
    recycled->n = 0;
    sqlite3_bind_int64(row, 1, signal);
    sqlite3_bind_int64(row, 2, OUTBOX_RECYCLED_MAX);
    while (recycled->n < OUTBOX_RECYCLED_MAX && (outcome = db_step(bodies->db, row)) == 1)
        recycled->list[recycled->n++] = (struct outbox_recycled_body){
            .id = sqlite3_column_int64(row, 0), .size = (size_t)sqlite3_column_int64(row, 1)};
    return outcome < 0 ? outcome : 0;
}

int outbox_bodies_load(struct outbox_bodies *bodies)
{
    int error = 0;
    for (int signal = 0; signal < SIGNAL_COUNT && !error; signal++)
        error = recycled_load(bodies, signal);
    return error;
}

/* ---- writing ---- */

static bool is_recyclable(size_t size)
{
    return size >= SMALL_BYTES && size <= LARGE_BYTES;
}

static struct outbox_recycled_body recycled_take(struct outbox_recycled_bodies *recycled,
                                                 size_t index)
{
    struct outbox_recycled_body old = recycled->list[index];
    recycled->n--;
    memmove(&recycled->list[index], &recycled->list[index + 1],
            (recycled->n - index) * sizeof(*recycled->list));
    return old;
}

/* Takes the smallest recycled body that fits; id 0: none fits. */
static struct outbox_recycled_body recycled_take_fitting(struct outbox_recycled_bodies *recycled,
                                                         size_t size)
{
    size_t best = recycled->n;
    for (size_t i = 0; i < recycled->n; i++) {
        size_t has = recycled->list[i].size;
        if (has >= size && has - size < WASTE_BYTES &&
            (best == recycled->n || has < recycled->list[best].size))
            best = i;
    }
    return best < recycled->n ? recycled_take(recycled, best) : (struct outbox_recycled_body){0};
}

static int outbox_bodies_pad(struct outbox_bodies *bodies, struct bytes body, size_t size,
                             struct bytes *padded)
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

static int outbox_bodies_forget(struct outbox_bodies *bodies, enum signal signal, int64_t id)
{
    sqlite3_bind_int64(bodies->forget, 1, signal);
    sqlite3_bind_int64(bodies->forget, 2, -id);
    return db_run(bodies->db, bodies->forget);
}

/* 1; 0: the row is damaged. */
static int outbox_bodies_overwrite(struct outbox_bodies *bodies,
                                   const struct outbox_recycled_body *old, struct bytes body)
{
    struct bytes padded;
    int error = outbox_bodies_pad(bodies, body, old->size, &padded);
    error = error ? error : write_body(bodies, bodies->overwrite, old->id, padded);
    return error ? error : sqlite3_changes(db_handle(bodies->db)) == 1;
}

int outbox_bodies_put(struct outbox_bodies *bodies, enum signal signal, int64_t new_id,
                      struct bytes body, int64_t *id)
{
    size_t size = body.len;
    struct outbox_recycled_body old = {0};
    if (is_recyclable(size)) {
        size += (STEP_BYTES - size % STEP_BYTES) % STEP_BYTES;
        old = recycled_take_fitting(&bodies->of[signal], size);
    }
    *id = old.id;
    int error = old.id ? outbox_bodies_overwrite(bodies, &old, body) : 0;
    if (error)
        return error < 0 ? error : 0;
    *id = new_id;
    error = old.id ? outbox_bodies_forget(bodies, signal, old.id) : 0;
    error = error ? error : outbox_bodies_pad(bodies, body, size, &body);
    return error ? error : write_body(bodies, bodies->put, new_id, body);
}

int outbox_bodies_remove(struct outbox_bodies *bodies, int64_t id)
{
    sqlite3_bind_int64(bodies->remove, 1, id);
    return db_run(bodies->db, bodies->remove);
}

/* ---- recycled bodies ---- */

static int recycled_drop_first(struct outbox_bodies *bodies, enum signal signal)
{
    struct outbox_recycled_body old = recycled_take(&bodies->of[signal], 0);
    int error = outbox_bodies_forget(bodies, signal, old.id);
    return error ? error : outbox_bodies_remove(bodies, old.id);
}

int outbox_bodies_recycle(struct outbox_bodies *bodies, enum signal signal, int64_t id, size_t size)
{
    struct outbox_recycled_bodies *recycled = &bodies->of[signal];
    if (!is_recyclable(size) || id <= 0)
        return 0;
    int error = recycled->n == OUTBOX_RECYCLED_MAX ? recycled_drop_first(bodies, signal) : 0;
    if (error)
        return error;
    recycled->list[recycled->n++] = (struct outbox_recycled_body){id, size};
    return 1;
}

int outbox_bodies_drop_recycled(struct outbox_bodies *bodies)
{
    int error = 0, any = 0;
    for (int signal = 0; signal < SIGNAL_COUNT; signal++)
        while (!error && bodies->of[signal].n) {
            error = recycled_drop_first(bodies, (enum signal)signal);
            any = 1;
        }
    return error ? error : any;
}
