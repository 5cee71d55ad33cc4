/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Requests on their way out: one opaque body, a cursor for each destination; FIFO; deleted when the
 * last destination has it. Writer: put, done. Reader: next.
 * What waits for a destination that left the configuration is kept for a while, then given up and
 * counted.
 * Limits: the store's quota without what is left to others (outbox_leave()), and the disk;
 * OUTBOX_DESTINATIONS_MAX. At the first either nothing more is put (OUTBOX_REFUSES), or the oldest
 * requests make room, also one that is being sent; what they held is counted. Where the disk is
 * short, what was given up becomes room only with db_maintain(), so the newest is refused
 * meanwhile.
 * Errors: negative errno of db.h.
 */
#include "base/bytes.h"
#include "base/buf.h"
#include "proto/otlp/otlp_service.h"

struct db;
struct outbox;
struct outbox_handoff;

#define OUTBOX_DESTINATIONS_MAX 16

struct outbox_row {
    int64_t seq;
    enum signal signal;
    uint64_t items;
    uint64_t enqueued_unix_ns;
    struct bytes body; /* the reader's, until the next one */
};

struct outbox_item { /* a row of one's own */
    int64_t seq;
    enum signal signal;
    uint64_t items; /* spans, samples, ... */
    uint64_t enqueued_unix_ns;
    struct buf body; /* owned by the item's holder */
};

enum outbox_policy { OUTBOX_REFUSES, OUTBOX_DROPS_OLDEST };

struct outbox_settings {
    const char *const *names; /* the exporters' component ids: what is done is kept by them, so that
                                 the order may change */
    const char *const *other_names; /* the same destination was kept by it, perhaps; NULL: none has
                                       any, or this one has not */
    size_t n;
    enum outbox_policy policy;
    uint64_t
        gone_after_ns; /* what waits for others is kept so long, from the first collection on */
};
/* Writes: outside of a transaction. */
int outbox_open(struct db *db, const struct outbox_settings *settings, struct outbox **outbox);
void outbox_close(struct outbox *outbox); /* NULL is fine */
/* After a rolled-back transaction or a renewed database; writes: outside of a transaction. */
int outbox_reload(struct outbox *outbox);

/* Writer. destinations: mask of indices; 0 = nobody wants it (dropped, counted). -ENOSPC: no room;
 * the transaction is whole, nothing was put. */
int outbox_put(struct outbox *outbox, enum signal signal, uint64_t items, uint32_t destinations,
               struct bytes body);
/* Writer, within a transaction: room for all parts of a request before the first is put, so that it
 * is put whole or not at all; size: in sum, with what was reserved already. What is put next takes
 * of it, until it is released. Needs no room if nobody wants it. 0, -ENOSPC, -EFBIG (the quota
 * could not hold it if nothing else were there), or an error. */
int outbox_reserve(struct outbox *outbox, enum signal signal, uint32_t destinations, uint64_t size);
void outbox_release(struct outbox *outbox);
/* Any thread: no request of the signal waits, for whatever destination. Of what a transaction puts
 * it knows before the commit. */
bool outbox_is_empty(enum signal signal);
/* Writer: so many bytes of the quota are others', and not to be taken. */
void outbox_leave(struct outbox *outbox, uint64_t bytes);
/* Whether a put is worth trying. */
bool outbox_has_room(const struct outbox *outbox);
/* Whether so many bytes would be taken without giving up anything. */
bool outbox_has_room_for(const struct outbox *outbox, uint64_t size);
/* Writer, within a transaction: takes room for so many bytes that are put elsewhere. 0, -ENOSPC, or
 * an error. */
int outbox_take_room(struct outbox *outbox, uint64_t size);
/* Writer: the destination has it (or gave it up); deletes what nobody waits for. Again: no harm. */
int outbox_done(struct outbox *outbox, size_t destination, int64_t seq);
/* Writer, before the commit of what puts or takes away. */
int outbox_flush(struct outbox *outbox);
/* Writer, after it; what was put is in the open handoffs (outbox_handoff.h). */
void outbox_committed(struct outbox *outbox);
/* Writer: the transaction is rolled back, what was put is gone. outbox_reload() follows. */
void outbox_rolled_back(struct outbox *outbox);
/* Writer: the file is corrupt and about to be put aside; what was known to wait in it is counted.
 */
void outbox_file_lost(struct outbox *outbox);
/* Any thread. */
struct outbox_handoff *outbox_handoff(struct outbox *outbox, size_t destination,
                                      enum signal signal);
/* Writer, now and then: gauges of age, and a bounded step of removing what waited for destinations
 * that are gone, and damaged requests. */
int outbox_collect(struct outbox *outbox, uint64_t now_unix_ns);

/* Reader: the next request for the destination after seq; -ENOENT if there is none. */
struct outbox_reader;
int outbox_reader_open(struct db *reader_db, struct outbox_reader **reader);
void outbox_reader_close(struct outbox_reader *reader); /* NULL is fine */
int outbox_next(struct outbox_reader *reader, const char *destination, int64_t after_seq,
                struct outbox_item *item);
struct outbox_query {
    const char *destination;
    enum signal signal; /* of one alone, so that signals need not wait for each other */
    int64_t after_seq;
    int64_t limit; /* requests */
};
/* All of them in their order, until visit() returns other than 0, which is returned. */
int outbox_each(struct outbox_reader *reader, const struct outbox_query *query,
                int (*visit)(void *context, const struct outbox_row *row), void *context);
/* The first of them. */
int outbox_next_signal(struct outbox_reader *reader, const char *destination, enum signal signal,
                       int64_t after_seq, struct outbox_item *item);
