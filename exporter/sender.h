/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Sends one signal to one destination: fetches requests from the outbox, sends them, marks them as
 * done. Private to exporter/. Thread: loop.
 * Limits: at most sending_queue::num_consumers requests in flight; no fetch while the messages of
 * these requests have SENDER_BYTES_MAX bytes or more. Requests in the handoff count within
 * SENDER_BYTES_MAX.
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
#define SENDER_HANDOFF_MAX (1u << 20) /* in the handoff, not fetched yet */

struct sender_request;

/* Shared by all senders of an exporter; embedded in the exporter. */
struct sender_host {
    struct exporter_settings settings;
    struct otlp_grpc *grpc; /* one of grpc, http, file is set; the debug exporter has none */
    struct otlp_http *http;
    struct file_exporter *file;
    bool draining;                           /* failed requests stay in the store */
    void (*quiet)(struct sender_host *host); /* called when a sender may have become quiet */
};

struct sender {
    struct sender_host *host;
    enum signal signal;
    enum sender_delivery delivery;
    enum sender_backlog backlog;
    struct list requests; /* being sent, waiting to be sent, or waiting for a retry */
    size_t n_requests;
    size_t n_sending;                /* at most n_requests */
    size_t bytes;                    /* of the messages of `requests` */
    struct list refused;             /* batches whose parts are sent one by one */
    struct sender_request *fetching; /* being fetched; NULL: none */
    int64_t after_seq;               /* the last request that was fetched */
    uint64_t file;                   /* the store's file that after_seq belongs to */
    struct outbox_handoff *handoff;  /* committed requests in memory, while there is no backlog */
    struct timer pause;              /* runs in RESTING and BACKOFF */
    struct timer gather;             /* runs after a fetch that reached the end of the outbox */
    unsigned n_woken;                /* sender_wake() calls since the last fetch */
    struct backoff backoff;
    struct sender_unimplemented unimplemented;
    struct sender_acks acks;
};

static inline bool sender_is_paused(const struct sender *sender)
{
    return sender->delivery == DELIVERY_RESTING || sender->delivery == DELIVERY_BACKOFF;
}

/* The backend failed, and has accepted no request since. */
static inline bool sender_is_failing(const struct sender *sender)
{
    return sender->delivery == DELIVERY_BACKOFF || sender->delivery == DELIVERY_PROBING;
}

/* The outbox may hold requests after after_seq that no fetch has looked for. */
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
