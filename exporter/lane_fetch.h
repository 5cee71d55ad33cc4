/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What goes over the wire next, made of requests that wait in the outbox: the reader reads them,
 * unless they were handed over from memory, and compresses or converts them. Private to exporter/.
 * Thread: loop; a fetch that is under way knows nothing but itself.
 */
#include "base/worker.h"
#include "config/config.h"
#include "exporter/lane_slice.h"
#include "store/outbox/outbox_hands.h"

#define LANE_JOINED_MAX 256 /* requests of the outbox in one */

struct lane_fetch {
    struct job job; /* private */
    /* On the loop. 0: n is how many were found, none included; negative errno: the store cannot be
     * read, or there is no memory. */
    void (*done)(struct lane_fetch *fetch, int error);
    struct outbox_reader *reader;
    const struct config_exporter *config;
    enum signal signal;
    int64_t after_seq;
    int64_t only_seq;         /* this one alone; 0: all that may be joined, from behind after_seq */
    struct lane_slice slice;  /* of only_seq: this part alone */
    struct outbox_hand *hand; /* that is told how far this has read; NULL: none */
    struct outbox_hand_read read;
    /* what came of it */
    size_t n;
    int64_t seqs[LANE_JOINED_MAX];
    uint64_t items;
    bool more;  /* it ended at a limit: others may wait behind it */
    bool taken; /* private, with handed: not read */
    struct list handed;
    struct buf body;    /* private */
    struct buf message; /* empty: the body is no request of its signal */
};

void lane_fetch_init(struct lane_fetch *fetch);
/* From memory, as much as one request may have: n and more are known then, none included. 0, or
 * OUTBOX_HAND_GAP: it is for the reader to find out. */
int lane_fetch_take(struct lane_fetch *fetch, struct outbox_hand *hand);
/* What was taken, in place of start() and done(), if there is next to no work to it. Its error. */
bool lane_fetch_is_here(const struct lane_fetch *fetch);
int lane_fetch_here(struct lane_fetch *fetch);
/* 0, or WORKER_FULL. */
int lane_fetch_start(struct lane_fetch *fetch, struct worker *reader);
void lane_fetch_close(struct lane_fetch *fetch); /* not while it is under way */
