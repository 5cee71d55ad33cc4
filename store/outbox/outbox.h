/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The queue of export requests. A request is one opaque body and a bit per destination that still
 * waits for it; FIFO; deleted once no destination waits for it. Writer: put, done. Reader: next.
 * Requests for a destination that is no longer configured are kept for gone_after_ns, then dropped
 * and counted. Limits: the store's quota minus outbox_leave(), and the disk;
 * OUTBOX_DESTINATIONS_MAX. When the quota is reached, either new requests are refused
 * (OUTBOX_REFUSES), or the oldest requests are dropped and counted (OUTBOX_DROPS_OLDEST), even one
 * that is being sent. When the disk is full, dropped requests free room only after db_maintain(),
 * so new requests are refused until then. Errors: negative errno of db.h.
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
    struct bytes body; /* borrowed from the reader until the next row */
};

enum outbox_policy { OUTBOX_REFUSES, OUTBOX_DROPS_OLDEST };

struct outbox_settings {
    const char *const *names; /* component ids of exporters; slots are stored under them, so the
                                 order may change */
    const char *const *other_names; /* an older name of the same destination; the array and each
                                       entry may be NULL */
    size_t n;
    enum outbox_policy policy;
    uint64_t gone_after_ns; /* requests for other destinations are kept this long after the first
                               collection */
};
/* Writes to the database; call it outside of a transaction. */
int outbox_open(struct db *db, const struct outbox_settings *settings, struct outbox **outbox);
void outbox_close(struct outbox *outbox); /* NULL is fine */
/* After a rolled-back transaction or a renewed database. Writes; call it outside of a
 * transaction. */
int outbox_reload(struct outbox *outbox);

/* Writer. destinations: mask of indices; 0 = no destination (dropped, counted). -ENOSPC: no room;
 * nothing was put, and the transaction is still good. */
int outbox_put(struct outbox *outbox, enum signal signal, uint64_t items, uint32_t destinations,
               struct bytes body);
/* Writer, within a transaction: reserves room for all parts of a request before the first part is
 * put, so that either all parts are put or none. size: the sum, including an earlier reservation.
 * outbox_put() uses the reservation until outbox_release(). destinations = 0 needs no room. 0,
 * -ENOSPC, -EFBIG (would not fit the quota even in an empty outbox), or an error. */
int outbox_reserve(struct outbox *outbox, enum signal signal, uint32_t destinations, uint64_t size);
void outbox_release(struct outbox *outbox);
/* Any thread: no request of the signal waits for any destination. Requests of a transaction that is
 * not committed yet count. */
bool outbox_is_empty(enum signal signal);
/* Writer: the outbox must leave `bytes` of the quota to other modules. */
void outbox_leave(struct outbox *outbox, uint64_t bytes);
/* Whether a put is worth trying. */
bool outbox_has_room(const struct outbox *outbox);
/* Whether `size` bytes fit without dropping a request. */
bool outbox_has_room_for(const struct outbox *outbox, uint64_t size);
/* Writer, within a transaction: makes room for `size` bytes that another module writes. 0, -ENOSPC,
 * or an error. */
int outbox_take_room(struct outbox *outbox, uint64_t size);
/* Writer: the destination has received or dropped the request. Deletes the request if no
 * destination waits for it. Calling it twice is harmless. */
int outbox_done(struct outbox *outbox, size_t destination, int64_t seq);
/* Writer: call it before the commit of a transaction that puts or removes requests. */
int outbox_flush(struct outbox *outbox);
/* Writer: call it after the commit. Open handoffs now have the new requests (outbox_handoff.h). */
void outbox_committed(struct outbox *outbox);
/* Writer: the transaction was rolled back with its requests. Call outbox_reload() next. */
void outbox_rolled_back(struct outbox *outbox);
/* Writer: the file is corrupt and about to be renamed; counts the known waiting requests as
 * lost. */
void outbox_file_lost(struct outbox *outbox);
/* Any thread. */
struct outbox_handoff *outbox_handoff(struct outbox *outbox, size_t destination,
                                      enum signal signal);
/* Writer, periodically: updates the age gauges, and removes, in a bounded step, requests for
 * destinations that are gone, and damaged requests. */
int outbox_collect(struct outbox *outbox, uint64_t now_unix_ns);

/* Reader: the requests that wait. */
struct outbox_reader;
int outbox_reader_open(struct db *reader_db, struct outbox_reader **reader);
void outbox_reader_close(struct outbox_reader *reader); /* NULL is fine */
struct outbox_query {
    const char *destination;
    enum signal signal; /* one signal only, so that signals do not wait for each other */
    int64_t after_seq;
    int64_t limit; /* requests */
};
/* Visits all requests in order. Stops when visit() returns nonzero, and returns that value. */
int outbox_each(struct outbox_reader *reader, const struct outbox_query *query,
                int (*visit)(void *context, const struct outbox_row *row), void *context);
