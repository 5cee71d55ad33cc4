/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Bodies of requests, one row each. The body of a deleted request is kept as a recycled body: a new
 * body that fits overwrites it in place, page by page. SQLite then does not write the pages that
 * track free pages (header, freelist, pointer map). The row of a recycled body in the table of
 * requests has seq = -id of the body; outbox.c writes it. Private to outbox.c and outbox_room.c.
 * Limits: OUTBOX_RECYCLED_MAX per signal, 64 KiB each. Errors: negative errno of db.h.
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

struct outbox_recycled_bodies { /* oldest first */
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
/* new_id: not used yet. *id: new_id, or the id of the recycled body that was overwritten. */
int outbox_bodies_put(struct outbox_bodies *bodies, enum signal signal, int64_t new_id,
                      struct bytes body, int64_t *id);
/* 1: the body is now a recycled body, and the caller writes its row; the oldest recycled body may
 * have been deleted. 0: the body cannot be recycled. size: as stored. */
int outbox_bodies_recycle(struct outbox_bodies *bodies, enum signal signal, int64_t id,
                          size_t size);
int outbox_bodies_remove(struct outbox_bodies *bodies, int64_t id);
/* Deletes all recycled bodies. 1 = at least one was deleted. */
int outbox_bodies_drop_recycled(struct outbox_bodies *bodies);
