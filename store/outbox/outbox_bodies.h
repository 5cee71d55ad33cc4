/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Bodies of requests, a row each. One whose request has left is kept as a recycled body: a new body
 * that fits is written over it in place, page by page. The pages that SQLite writes to free and to
 * allocate pages (header, list of free pages, pointer map) then stay as they are.
 * The row of a recycled body in the table of requests has the negative id of the body as its seq;
 * outbox.c writes it. For outbox.c and outbox_room.c alone.
 * Limits: OUTBOX_RECYCLED_MAX a signal, of 64 KiB each. Errors: negative errno of db.h.
 */
#include "base/bytes.h"
#include "base/buf.h"
#include "proto/otlp/otlp_service.h"
#include <sqlite3.h>

struct db;

#define OUTBOX_RECYCLED_MAX 8

struct outbox_recycled_body {
    int64_t id;
    size_t size;
};

struct outbox_recycled_bodies { /* in the order in which they came */
    struct outbox_recycled_body list[OUTBOX_RECYCLED_MAX];
    size_t n;
};

struct outbox_bodies {
    struct db *db;
    struct outbox_recycled_bodies of[SIGNAL_COUNT];
    struct buf padded;
    sqlite3_stmt *put, *overwrite, *remove, *recycled, *forget;
};

int outbox_bodies_prepare(struct db *db, struct outbox_bodies *bodies);
void outbox_bodies_close(struct outbox_bodies *bodies);
int outbox_bodies_load(struct outbox_bodies *bodies);
/* new_id: not used yet. *id: new_id, or that of the recycled body that was written over. */
int outbox_bodies_put(struct outbox_bodies *bodies, enum signal signal, int64_t new_id,
                      struct bytes body, int64_t *id);
/* 1: it is a recycled body now, for which the oldest one may have been deleted; the caller writes
 * its row. 0: it cannot be one. size: as stored. */
int outbox_bodies_recycle(struct outbox_bodies *bodies, enum signal signal, int64_t id,
                          size_t size);
int outbox_bodies_remove(struct outbox_bodies *bodies, int64_t id);
/* Deletes all recycled bodies. 1 = there were some. */
int outbox_bodies_drop_recycled(struct outbox_bodies *bodies);
