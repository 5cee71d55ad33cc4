/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * grpc.health.v1.Health/Watch: sends the state of a service at once, and again after each change.
 * Changes are polled once a second. Private to the gRPC server. Thread: loop. Limit:
 * HEALTH_WATCHES_MAX per server.
 */
#include "base/loop.h"
#include "proto/http/h2.h"
#include "receiver/health.h"

#define HEALTH_WATCHES_MAX  64
#define HEALTH_WATCH_METHOD "/grpc.health.v1.Health/Watch"

struct health_watch;

struct health_watches {
    struct loop *loop;
    const struct health *health; /* may be NULL */
    /* private */
    struct list all;
    size_t n;
    struct timer timer;
};

void health_watches_init(struct health_watches *watches, struct loop *loop,
                         const struct health *health);
/* Answers the stream and keeps it open. signals: as for health_check(). GRPC_OK and *watch: call
 * health_watch_end() when the stream is closed. Otherwise nothing was answered:
 * GRPC_INVALID_ARGUMENT, GRPC_RESOURCE_EXHAUSTED, -ENOMEM. */
int health_watch_begin(struct health_watches *watches, struct h2_stream *stream, uint32_t signals,
                       struct bytes request, struct health_watch **watch);
void health_watch_end(struct health_watch *watch); /* NULL is fine */
/* The server stops: the streams end with UNAVAILABLE, so that clients watch another server. */
void health_watches_finish(struct health_watches *watches);
