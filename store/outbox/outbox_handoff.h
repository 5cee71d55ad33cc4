/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Passes committed requests to a sender in memory. A sender that has read its signal to the end
 * keeps its handoff open. Each later request for the sender's destination enters the handoff when
 * its transaction commits, and is not read from the store. A rollback empties all handoffs. A
 * request that does not fit closes the handoff: the requests in it stay valid, later ones are read
 * from the store.
 *
 * Thread: any, by a lock. The functions under "Writer" are for the outbox alone, on the writer
 * thread; the rest is for the loop. Limit: outbox_handoff_limit(), in bytes; 0 at first.
 */
#include "base/list.h"
#include "proto/otlp/otlp_service.h"
#include "store/outbox/outbox.h"
#include <pthread.h>

enum { OUTBOX_HANDOFF_GAP = 1 };

struct outbox_handoff_request { /* one allocation */
    struct list link;
    struct outbox_handoff *handoff;
    uint64_t opening; /* of the handoff; void unless equal to handoff->opening */
    int64_t seq;
    uint64_t items;
    size_t len;
    uint8_t body[];
};

struct outbox_handoff {
    struct outbox_handoffs *all;
    bool open;
    uint64_t opening;
    int64_t from_seq; /* while open, all with seq > from_seq enter the handoff */
    int64_t read_to;  /* the sender has all with seq <= read_to; gap iff read_to < from_seq */
    size_t limit, bytes;
    struct list requests; /* committed */
};

struct outbox_handoffs {
    pthread_mutex_t lock;
    uint64_t file;   /* db_files(): seqs of another file are invalid */
    int64_t put_seq; /* last seq, maybe not committed */
    int64_t end_seq; /* last committed seq */
    struct list pending;
    struct outbox_handoff of[OUTBOX_DESTINATIONS_MAX][SIGNAL_COUNT];
};

/* Writer */
void outbox_handoffs_init(struct outbox_handoffs *handoffs);
void outbox_handoffs_close(struct outbox_handoffs *handoffs);
void outbox_handoffs_put(struct outbox_handoffs *handoffs, uint32_t destinations,
                         const struct outbox_row *row);
void outbox_handoffs_dropped(struct outbox_handoffs *handoffs, enum signal signal, int64_t seq);
void outbox_handoffs_committed(struct outbox_handoffs *handoffs);
/* Drops requests that were put and not committed. */
void outbox_handoffs_void(struct outbox_handoffs *handoffs);
void outbox_handoffs_follow(struct outbox_handoffs *handoffs, uint64_t file, int64_t last_seq);

/* Loop. Call outbox_handoff_open() before a read; it opens the handoff if it is closed. */
struct outbox_handoff_read {
    uint64_t opening, file;
    int64_t end_seq; /* the following read sees every request with seq <= end_seq */
};
void outbox_handoff_open(struct outbox_handoff *handoff, struct outbox_handoff_read *read);
/* Loop. Call it after the read: the sender has every request up to seq. */
void outbox_handoff_has(struct outbox_handoff *handoff, const struct outbox_handoff_read *read,
                        int64_t seq);
/* Takes as many requests as fit `want`, in order, at least one if there is one. 0: no earlier
 * request is missing; if `taken` is empty, none waits at all. *more: later requests wait, here or
 * in the store. OUTBOX_HANDOFF_GAP: read from the store first. */
struct outbox_handoff_want {
    size_t requests, bytes;
};
int outbox_handoff_take(struct outbox_handoff *handoff, const struct outbox_handoff_want *want,
                        struct list *taken, bool *more);
void outbox_handoff_limit(struct outbox_handoff *handoff, size_t bytes);
void outbox_handoff_close(
    struct outbox_handoff *handoff); /* its requests are read from the store again */
void outbox_handoff_free(struct list *requests);
