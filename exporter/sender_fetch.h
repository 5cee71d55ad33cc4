/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Makes the next message to send from requests in the outbox. The requests come from the handoff
 * (memory) or from the reader (database); then they are compressed or converted. Private to
 * exporter/. Thread: loop; a running fetch touches only its own struct.
 */
#include "base/worker.h"
#include "config/config.h"
#include "exporter/sender_split.h"
#include "store/outbox/outbox_handoff.h"

#define SENDER_JOINED_MAX 256 /* stored requests per message */

struct sender_fetch {
    struct job job; /* private */
    /* Called on the loop. 0: n requests were found (n may be 0); negative errno: the store cannot
     * be read, or there is no memory. */
    void (*done)(struct sender_fetch *fetch, int error);
    struct outbox_reader *reader;
    const struct config_exporter *config;
    enum signal signal;
    int64_t after_seq;
    int64_t only_seq; /* fetches only this request; 0: all after after_seq that may be joined */
    struct sender_split slice;      /* with only_seq: only this part of it */
    struct outbox_handoff *handoff; /* records how far this fetch has read; NULL: none */
    struct outbox_handoff_read read;
    /* the result */
    size_t n;
    int64_t seqs[SENDER_JOINED_MAX];
    uint64_t items;
    bool more;  /* it ended at a limit: the outbox may hold more */
    bool taken; /* private: the requests are those in handed, not read from the store */
    struct list handed;
    struct buf body;    /* private */
    struct buf message; /* empty: the body is not a request of its signal */
};

void sender_fetch_init(struct sender_fetch *fetch);
/* Takes requests from the handoff, up to the limits of one message, and sets n and more (n may be
 * 0). 0, or OUTBOX_HANDOFF_GAP: the handoff may lack requests, the reader must read them. */
int sender_fetch_take(struct sender_fetch *fetch, struct outbox_handoff *handoff);
/* Whether the requests came from the handoff and only need copying: then the loop may run it. */
bool sender_fetch_is_quick(const struct sender_fetch *fetch);
/* Runs the fetch at once, instead of start() and done(). Returns the error that done() would get.
 */
int sender_fetch_run(struct sender_fetch *fetch);
/* 0, or WORKER_FULL. */
int sender_fetch_start(struct sender_fetch *fetch, struct worker *reader);
void sender_fetch_close(struct sender_fetch *fetch); /* not while it runs */
