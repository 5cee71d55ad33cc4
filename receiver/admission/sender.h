/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who sends: connections, and the peers behind them. What is limited by shares is counted here, so
 * that a connection, or a peer with many connections, takes from others no more than its share.
 * Thread: loop. Limits: those of connections; a peer lives as long as one of its senders.
 */
#include "base/list.h"
#include "base/map.h"

/* Several connections of one user, cgroup or host. The key is made by receiver/peer_key.h. */
struct sender_peer {
    uint64_t key;
    unsigned n_senders;
    size_t admitted_bytes;  /* admission.h */
    size_t beginning_bytes; /* budget.h */
    struct list waiting;    /* senders with requests that wait for room; next to be served first */
    struct list link;       /* of admission.waiting, while there are such */
    /* turns.h */
    struct list turns;      /* requests that wait for the writer, oldest first */
    struct list turns_link; /* of turns.waiting, while there are such */
    size_t n_turns;
    size_t n_at_writer;
    uint64_t at_writer_ns; /* estimated time of its requests at the writer */
    uint64_t request_ns;   /* what one took the writer: the largest so far, decaying */
    int64_t used_ns;       /* of the writer; against those of other peers */
};

struct senders {
    struct map peers;
};

/* A connection. Lives until the last holder releases it. */
struct sender {
    struct senders *all;
    struct sender_peer *peer;
    unsigned refs;
    size_t admitted_bytes;
    size_t beginning_bytes;
    struct list waiting; /* requests that wait for room, oldest first */
    struct list link;    /* of peer.waiting, while there are such */
};

void senders_init(struct senders *senders);
void senders_close(struct senders *senders); /* all senders are released */
/* NULL: no memory. */
struct sender *sender_open(struct senders *senders, uint64_t peer);
struct sender *sender_hold(struct sender *sender); /* returns it */
void sender_release(struct sender *sender);        /* NULL is fine */
