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
#include "exporter/sender_unimplemented.h"
#include "exporter/otlp/otlp_grpc.h"
#include "exporter/otlp/otlp_http.h"

#define SENDER_BYTES_MAX   (4u << 20)
#define SENDER_HANDOFF_MAX (1u << 20) /* handed over, and not fetched yet */

struct sender_request;

struct sender {
    struct exporter *exporter;
    enum signal signal;
    struct list requests; /* being sent, or to be sent (again) */
    size_t n_requests;
    size_t n_sending;
    size_t bytes;                    /* of their messages */
    struct list refused;             /* together: now their parts are sent one by one */
    struct sender_request *fetching; /* at the reader; NULL: none */
    int64_t after_seq;               /* the last one that was fetched */
    uint64_t file;                   /* of the store, that after_seq is of */
    struct outbox_handoff *handoff;  /* what is committed comes into it while little waits */
    bool look;                       /* something may be behind it */
    bool more;                       /* so much that the last fetch was full */
    bool pausing;                    /* nothing is begun before the timer fires */
    bool failing;                    /* since the last success; said once */
    struct timer pause;
    struct timer gather; /* runs since the last fetch, which found all there was */
    unsigned n_woken;    /* since the last fetch */
    struct backoff backoff;
    struct sender_unimplemented unserved;
    struct sender_acks marks;
};

void sender_init(struct sender *sender, struct exporter *exporter, enum signal signal);
void sender_wake(struct sender *sender);
bool sender_is_quiet(const struct sender *sender); /* nothing in flight and nothing to do at once */
void sender_close(struct sender *sender);

/* Of exporter.c */
struct exporter {
    struct exporter_settings settings;
    struct otlp_grpc *grpc; /* of the exporter's kind one, of debug none */
    struct otlp_http *http;
    struct file_exporter *file;
    struct sender senders[SIGNAL_COUNT];
    bool draining;
    struct timer drain_timer;
    void (*stopped)(void *context);
    void *context;
};
void exporter_sender_quiet(struct exporter *exporter); /* a sender may have become quiet */
bool exporter_wants(const struct exporter *exporter, enum signal signal);
