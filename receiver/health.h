/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reports whether this node accepts telemetry now: grpc.health.v1.Health/Check on the gRPC port
 * (Watch: health_watch.h), and the page of the health_check extension. Thread: loop. Source of the
 * messages: grpc/health/v1/health.proto.
 */
#include "base/buf.h"
#include "base/loop.h"
#include "config/config.h"
#include "proto/http/grpc.h"
#include "receiver/listen.h"

#define HEALTH_CHECK_METHOD "/grpc.health.v1.Health/Check"

struct health { /* the source of the state */
    /* Why telemetry is not accepted, in a few static words; NULL: healthy. */
    const char *(*problem)(void *context);
    void *context;
};

/* Answers a HealthCheckRequest. signals: served signals, 1 << enum signal. GRPC_OK and the
 * response; GRPC_NOT_FOUND: no such service here; GRPC_INVALID_ARGUMENT; -ENOMEM. health may be
 * NULL: healthy. */
int health_check(const struct health *health, uint32_t signals, struct bytes request,
                 struct buf *response);

/* The answer for an unknown service, for a client that waits until the service is known. 0 or
 * -ENOMEM. */
int health_unknown(struct buf *response);

/* The page: 200 or 503, with a line of JSON; its limits are those of http1_page.h. */
struct health_page;

/* config, health: outlive the page. Takes over the sockets, on success only. */
int health_page_open(struct loop *loop, const struct config_health_check *config,
                     const struct health *health, struct listen_sockets *sockets,
                     struct health_page **page);
void health_page_close(struct health_page *page); /* NULL is fine */
