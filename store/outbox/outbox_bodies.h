/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Bodies of requests, a row each. One that is no longer needed is spare for a while: a new one that
 * fits is written over it, page by page in place, which leaves alone what SQLite else writes to
 * free pages and to take them again (header, list of free pages, pointer map). Of the outbox alone.
 * A spare's row of the outbox has the body's id, negative, for its seq; the outbox writes it.
 * Limits: OUTBOX_SPARES_MAX a signal, of 64 KiB each. Errors: negative errno of db.h.
 */
#include "base/bytes.h"
#include "base/buf.h"
#include "proto/otlp/otlp_service.h"
#include <sqlite3.h>

struct db;

#define OUTBOX_SPARES_MAX 8

struct outbox_spare {
    int64_t id;
    size_t size;
};

struct outbox_spares { /* in the order in which they came */
    struct outbox_spare list[OUTBOX_SPARES_MAX];
    size_t n;
};

struct outbox_bodies {
    struct db *db;
    struct outbox_spares of[SIGNAL_COUNT];
    struct buf padded;
    sqlite3_stmt *put, *overwrite, *remove, *spares, *forget;
};

int outbox_bodies_prepare(struct db *db, struct outbox_bodies *bodies);
void outbox_bodies_close(struct outbox_bodies *bodies);
int outbox_bodies_load(struct outbox_bodies *bodies);
/* new_id: of none yet. In *id it is, or a spare's, which is none any more. */
int outbox_bodies_put(struct outbox_bodies *bodies, enum signal signal, int64_t new_id,
                      struct bytes body, int64_t *id);
/* Whether it may become a spare, for which the oldest may have had to go: its row is then the
 * caller's to write. size: as stored. 1, 0 or an error. */
int outbox_bodies_spare(struct outbox_bodies *bodies, enum signal signal, int64_t id, size_t size);
int outbox_bodies_remove(struct outbox_bodies *bodies, int64_t id);
/* All spares go. 1 = there were some. */
int outbox_bodies_give_up(struct outbox_bodies *bodies);
