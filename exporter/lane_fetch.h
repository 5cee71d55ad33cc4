/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What goes over the wire next, made by the reader from requests that wait in the outbox. Private
 * to exporter/. Thread: loop; a fetch that is under way knows nothing but itself.
 */
#include "base/worker.h"
#include "config/config.h"
#include "store/outbox.h"

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
    int64_t only_seq; /* this one alone; 0: all that may be joined, from behind after_seq */
    /* what came of it */
    size_t n;
    int64_t seqs[LANE_JOINED_MAX];
    uint64_t items;
    bool more;          /* it ended at a limit: others may wait behind it */
    struct buf body;    /* private */
    struct buf message; /* empty: the body is no request of its signal */
};

/* 0, or WORKER_FULL. */
int lane_fetch_start(struct lane_fetch *fetch, struct worker *reader);
void lane_fetch_close(struct lane_fetch *fetch); /* not while it is under way */
