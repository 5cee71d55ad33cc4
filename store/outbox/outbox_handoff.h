/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Requests that were just committed, given to a sender from memory. A sender that has read to the
 * end of its signal keeps a handoff open: each request that is put for its destination from then on
 * comes into the handoff when its transaction commits, and is not read back. A rollback empties all
 * handoffs. A request that does not fit closes the handoff: what is in it stays valid, and what
 * follows is read from the store.
 *
 * Thread: any, by a lock; put, dropped, committed and void are the writer's, of the outbox alone;
 * the rest is for the loop. Limit: what outbox_handoff_limit() says, in bytes; 0 at first.
 */
#include "base/list.h"
#include "proto/otlp/otlp_service.h"
#include "store/outbox/outbox.h"
#include <pthread.h>

enum { OUTBOX_HANDOFF_GAP = 1 };

struct outbox_handoff_request { /* a request; one allocation */
    struct list link;
    struct outbox_handoff *handoff;
    uint64_t opening; /* of the handoff; another since: it is void */
    int64_t seq;
    uint64_t items;
    size_t len;
    uint8_t body[];
};

struct outbox_handoff {
    struct outbox_handoffs *all;
    bool open;
    uint64_t opening;
    int64_t from_seq; /* all behind it came into the handoff */
    int64_t read_to;  /* its holder has all up to this one; less than from_seq: not all, a gap */
    size_t limit, bytes;
    struct list requests; /* committed */
};

struct outbox_handoffs {
    pthread_mutex_t lock;
    uint64_t file;   /* db_files(): seqs of another one are void */
    int64_t put_seq; /* the last one, perhaps not committed */
    int64_t end_seq; /* the last one that was committed */
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
/* What was put and not committed is gone. */
void outbox_handoffs_void(struct outbox_handoffs *handoffs);
void outbox_handoffs_follow(struct outbox_handoffs *handoffs, uint64_t file, int64_t last_seq);

/* Loop. Before a read: opens the handoff if it is closed. */
struct outbox_handoff_read {
    uint64_t opening, file;
    int64_t end_seq; /* the read that follows sees all up to it */
};
void outbox_handoff_open(struct outbox_handoff *handoff, struct outbox_handoff_read *read);
/* After it: its holder has all up to seq. */
void outbox_handoff_has(struct outbox_handoff *handoff, const struct outbox_handoff_read *read,
                        int64_t seq);
/* As much as fits, at least one if there is one, in order. 0: nothing lies before what was taken,
 * nor, if that is nothing, behind it; *more: something does, here or in the store.
 * OUTBOX_HANDOFF_GAP: it has to be read. */
struct outbox_handoff_want {
    size_t requests, bytes;
};
int outbox_handoff_take(struct outbox_handoff *handoff, const struct outbox_handoff_want *want,
                        struct list *taken, bool *more);
void outbox_handoff_limit(struct outbox_handoff *handoff, size_t bytes);
void outbox_handoff_close(
    struct outbox_handoff *handoff); /* what it holds is for the reader again */
void outbox_handoff_free(struct list *requests);
