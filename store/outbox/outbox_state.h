/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Shared by outbox.c (put, done), outbox_room.c (making room), outbox_slots.c (bits of
 * destinations) and outbox_losses.c (loss counters). Private to these files. */
#include "store/db/db.h"
#include "store/outbox/outbox.h"
#include "store/outbox/outbox_bodies.h"
#include "store/outbox/outbox_handoff.h"
#include "store/outbox/outbox_sums.h"

#define OUTBOX_SLOTS_MAX 62 /* bits of an SQLite integer */

struct outbox {
    struct db *db;
    enum outbox_policy policy;
    uint64_t warned_ns;  /* last warning about dropped requests */
    uint64_t left_bytes; /* of the quota, left to other modules */
    uint64_t reserved;   /* bytes reserved for the next puts */
    size_t n;
    char *names[OUTBOX_DESTINATIONS_MAX];
    char *other_names[OUTBOX_DESTINATIONS_MAX];
    uint64_t bits[OUTBOX_DESTINATIONS_MAX]; /* bit of the destination's slot */
    uint64_t live;                          /* slots of configured destinations */
    uint64_t known;                         /* live slots and those that are gone */
    bool has_gone;                          /* some slots must be cleared */
    int64_t gone_signal, gone_seq;          /* progress of clearing */
    uint64_t gone_requests[OUTBOX_SLOTS_MAX];
    uint64_t gone_after_ns, collecting_since_ns;
    struct outbox_sums sums;
    struct outbox_bodies bodies;
    struct outbox_handoffs handoffs;
    sqlite3_stmt *put, *put_over, *get, *clear, *remove, *recycle, *oldest, *gone;
    sqlite3_stmt *slots, *put_slot, *rename_slot, *remove_slots;
};

struct request_row { /* a row without the body */
    int64_t seq;
    enum signal signal;
    int64_t items, bytes;
    uint64_t waiting;
    int64_t body, stored_bytes;
};

/* -ENOENT: there is no such row. */
int outbox_get_row(struct outbox *outbox, int64_t seq, struct request_row *request);
/* Removes row and body, even if destinations wait for the request. */
int outbox_remove_row(struct outbox *outbox, const struct request_row *request);
/* The slots in `bits` no longer wait for the request. Removes the request if no slot waits for
 * it. */
int outbox_clear(struct outbox *outbox, const struct request_row *request, uint64_t bits);
/* The slot bits of a mask of destinations. */
uint64_t outbox_mask_of(const struct outbox *outbox, uint32_t destinations);

struct outbox_oldest {
    int64_t seq;
    uint64_t since_unix_ns, waiting;
    bool has_body;
};
/* 1 = found, 0 = there is none. */
int outbox_find_oldest(struct outbox *outbox, int signal, struct outbox_oldest *oldest);
int outbox_drop_damaged(struct outbox *outbox, int signal); /* a step */
bool outbox_has_room_to_recycle(const struct outbox *outbox);
int outbox_drop_recycled(struct outbox *outbox);
/* Takes the bytes from the reservation, else from the free room. -ENOSPC is counted. */
int outbox_take_room_for(struct outbox *outbox, enum signal signal, uint64_t size);

bool outbox_is_named(const struct outbox *outbox, const char *name);
int outbox_assign_slots(struct outbox *outbox); /* within a transaction */
int outbox_collect_gone(struct outbox *outbox); /* a step */

enum outbox_loss {
    OUTBOX_LOST_FULL,
    OUTBOX_LOST_NO_DESTINATION,
    OUTBOX_LOST_DAMAGED,
    OUTBOX_LOST_CORRUPT, /* with the whole file */
    OUTBOX_LOSSES
};
void outbox_count_lost(enum signal signal, enum outbox_loss reason, int64_t items);
