/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One signal on its way to one destination: fetch from the outbox, send, mark as done. Private to
 * exporter/. Thread: loop. Limits: sending_queue::num_consumers requests are under way, and none is
 * fetched while SENDER_BYTES_MAX of them are; what is handed over waits within that, too.
 */
#include "exporter/backoff.h"
#include "exporter/exporter.h"
#include "exporter/file/file_exporter.h"
#include "exporter/sender_acks.h"
#include "exporter/sender_states.h"
#include "exporter/sender_unimplemented.h"
#include "exporter/otlp/otlp_grpc.h"
#include "exporter/otlp/otlp_http.h"

#define SENDER_BYTES_MAX   (4u << 20)
#define SENDER_HANDOFF_MAX (1u << 20) /* handed over, and not fetched yet */

struct sender_request;

/* What all senders of an exporter share; embedded in it. */
struct sender_host {
    struct exporter_settings settings;
    struct otlp_grpc *grpc; /* one of these three; the debug exporter has none */
    struct otlp_http *http;
    struct file_exporter *file;
    bool draining;                           /* what fails stays in the store */
    void (*quiet)(struct sender_host *host); /* a sender may have become quiet */
};

struct sender {
    struct sender_host *host;
    enum signal signal;
    enum sender_delivery delivery;
    enum sender_backlog backlog;
    struct list requests; /* being sent, or to be sent (again) */
    size_t n_requests;
    size_t n_sending;                /* at most n_requests */
    size_t bytes;                    /* of their messages */
    struct list refused;             /* batches whose parts are sent one by one */
    struct sender_request *fetching; /* at the reader; NULL: none */
    int64_t after_seq;               /* the last one that was fetched */
    uint64_t file;                   /* of the store, that after_seq is of */
    struct outbox_handoff *handoff;  /* what is committed comes into it while little waits */
    struct timer pause;              /* runs in RESTING and BACKOFF */
    struct timer gather;             /* runs since the last fetch, which found all there was */
    unsigned n_woken;                /* since the last fetch */
    struct backoff backoff;
    struct sender_unimplemented unimplemented;
    struct sender_acks acks;
};

static inline bool sender_is_paused(const struct sender *sender)
{
    return sender->delivery == DELIVERY_RESTING || sender->delivery == DELIVERY_BACKOFF;
}

/* The backend failed, and took nothing since. */
static inline bool sender_is_failing(const struct sender *sender)
{
    return sender->delivery == DELIVERY_BACKOFF || sender->delivery == DELIVERY_PROBING;
}

/* Something may lie behind after_seq that no fetch has looked for. */
static inline bool sender_backlog_is_news(const struct sender *sender)
{
    return sender->backlog == BACKLOG_NEWS || sender->backlog == BACKLOG_FULL;
}

/* The last fetch that ended was full. */
static inline bool sender_backlog_is_full(const struct sender *sender)
{
    return sender->backlog == BACKLOG_FULL || sender->backlog == BACKLOG_READING;
}

bool sender_host_wants(const struct sender_host *host, enum signal signal);
void sender_init(struct sender *sender, struct sender_host *host, enum signal signal);
void sender_wake(struct sender *sender);
bool sender_is_quiet(const struct sender *sender); /* nothing in flight and nothing to do at once */
void sender_close(struct sender *sender);
