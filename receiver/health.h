/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether what is sent here would be taken, for those who ask: grpc.health.v1.Health/Check on the
 * gRPC port (Watch is health_watch.h), and the page of the health_check extension.
 * Thread: loop. Source of the messages: grpc/health/v1/health.proto.
 */
#include "base/buf.h"
#include "base/loop.h"
#include "config/config.h"
#include "proto/http/grpc.h"
#include "receiver/listen.h"

#define HEALTH_CHECK_METHOD "/grpc.health.v1.Health/Check"

struct health { /* who knows */
    /* A few static words on why nothing is taken; NULL: all is well. */
    const char *(*problem)(void *context);
    void *context;
};

/* A HealthCheckRequest's answer. signals: those that are served, 1 << enum signal. GRPC_OK and the
 * response; GRPC_NOT_FOUND: no such service here; GRPC_INVALID_ARGUMENT. -ENOMEM. health may be
 * NULL: all is well. */
int health_check(const struct health *health, uint32_t signals, struct bytes request,
                 struct buf *response);

/* The answer about an unknown service, for a client that waits until it is known. 0 or -ENOMEM. */
int health_unknown(struct buf *response);

/* The page: 200 or 503, with a line of JSON; its limits are those of http1_page.h. */
struct health_page;

/* config, health: outlive the page. Takes the sockets over, on success only. */
int health_page_open(struct loop *loop, const struct config_health_check *config,
                     const struct health *health, struct listen_sockets *sockets,
                     struct health_page **page);
void health_page_close(struct health_page *page); /* NULL is fine */
