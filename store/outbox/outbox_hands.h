/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What was just committed, handed to a destination from memory. Who has read to the end of a signal
 * holds a hand open: each request that is put from then on comes into it with its commit, so that
 * it need not be read back. A rollback empties all hands. What does not fit closes the hand: what
 * it holds is good, and what follows is for the reader.
 *
 * Thread: any, by a lock; put, dropped, committed and void are the writer's, of the outbox alone;
 * the rest is for the loop. Limit: what outbox_hand_limit() says, in bytes; 0 at first.
 */
#include "base/list.h"
#include "proto/otlp/otlp_service.h"
#include "store/outbox/outbox.h"
#include <pthread.h>

enum { OUTBOX_HAND_GAP = 1 };

struct outbox_handed { /* a request; one allocation */
    struct list link;
    struct outbox_hand *hand;
    uint64_t opening; /* of the hand; another since: it is void */
    int64_t seq;
    uint64_t items;
    size_t len;
    uint8_t body[];
};

struct outbox_hand {
    struct outbox_hands *all;
    bool open;
    uint64_t opening;
    int64_t from_seq; /* all behind it came into the hand */
    int64_t read_to;  /* its holder has all up to this one; less than from_seq: not all, a gap */
    size_t limit, bytes;
    struct list requests; /* committed */
};

struct outbox_hands {
    pthread_mutex_t lock;
    uint64_t file;   /* db_files(): seqs of another one are void */
    int64_t put_seq; /* the last one, perhaps not committed */
    int64_t end_seq; /* the last one that was committed */
    struct list pending;
    struct outbox_hand of[OUTBOX_DESTINATIONS_MAX][SIGNAL_COUNT];
};

/* Writer */
void outbox_hands_init(struct outbox_hands *hands);
void outbox_hands_close(struct outbox_hands *hands);
void outbox_hands_put(struct outbox_hands *hands, uint32_t destinations,
                      const struct outbox_row *row);
void outbox_hands_dropped(struct outbox_hands *hands, enum signal signal, int64_t seq);
void outbox_hands_committed(struct outbox_hands *hands);
/* What was put and not committed is gone. */
void outbox_hands_void(struct outbox_hands *hands);
void outbox_hands_follow(struct outbox_hands *hands, uint64_t file, int64_t last_seq);

/* Loop. Before a read: opens the hand if it is closed. */
struct outbox_hand_read {
    uint64_t opening, file;
    int64_t end_seq; /* the read that follows sees all up to it */
};
void outbox_hand_open(struct outbox_hand *hand, struct outbox_hand_read *read);
/* After it: its holder has all up to seq. */
void outbox_hand_has(struct outbox_hand *hand, const struct outbox_hand_read *read, int64_t seq);
/* As much as fits, at least one if there is one, in order. 0: nothing lies before what was taken,
 * nor, if that is nothing, behind it; *more: something does, here or in the store. OUTBOX_HAND_GAP:
 * it has to be read. */
struct outbox_hand_want {
    size_t requests, bytes;
};
int outbox_hand_take(struct outbox_hand *hand, const struct outbox_hand_want *want,
                     struct list *taken, bool *more);
void outbox_hand_limit(struct outbox_hand *hand, size_t bytes);
void outbox_hand_close(struct outbox_hand *hand); /* what it holds is for the reader again */
void outbox_handed_free(struct list *requests);
