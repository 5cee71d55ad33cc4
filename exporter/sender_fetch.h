/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What goes over the wire next, made of requests that wait in the outbox: the reader reads them,
 * unless they were handed over from memory, and compresses or converts them. Private to exporter/.
 * Thread: loop; a fetch that is under way knows nothing but itself.
 */
#include "base/worker.h"
#include "config/config.h"
#include "exporter/sender_split.h"
#include "store/outbox/outbox_handoff.h"

#define SENDER_JOINED_MAX 256 /* requests of the outbox in one */

struct sender_fetch {
    struct job job; /* private */
    /* On the loop. 0: n is how many were found, none included; negative errno: the store cannot be
     * read, or there is no memory. */
    void (*done)(struct sender_fetch *fetch, int error);
    struct outbox_reader *reader;
    const struct config_exporter *config;
    enum signal signal;
    int64_t after_seq;
    int64_t only_seq; /* this one alone; 0: all that may be joined, from behind after_seq */
    struct sender_split slice;      /* of only_seq: this part alone */
    struct outbox_handoff *handoff; /* that is told how far this has read; NULL: none */
    struct outbox_handoff_read read;
    /* what came of it */
    size_t n;
    int64_t seqs[SENDER_JOINED_MAX];
    uint64_t items;
    bool more;  /* it ended at a limit: others may wait behind it */
    bool taken; /* private, with handed: not read */
    struct list handed;
    struct buf body;    /* private */
    struct buf message; /* empty: the body is no request of its signal */
};

void sender_fetch_init(struct sender_fetch *fetch);
/* From memory, as much as one request may have: n and more are known then, none included. 0, or
 * OUTBOX_HANDOFF_GAP: it is for the reader to find out. */
int sender_fetch_take(struct sender_fetch *fetch, struct outbox_handoff *handoff);
/* Whether it was taken from memory and only has to be copied: then the loop may run it. */
bool sender_fetch_is_quick(const struct sender_fetch *fetch);
/* Instead of start() and done(). Returns what done() is given. */
int sender_fetch_run(struct sender_fetch *fetch);
/* 0, or WORKER_FULL. */
int sender_fetch_start(struct sender_fetch *fetch, struct worker *reader);
void sender_fetch_close(struct sender_fetch *fetch); /* not while it is under way */
