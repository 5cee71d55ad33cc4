/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the service says of itself when asked for its health (receiver/health.h): well while what is
 * sent here is taken, and no sender waits long for room within its share. A loop that hangs does
 * not answer at all. Thread: loop, except where noted.
 */
#include "config/config.h"
#include "receiver/health.h"
#include "store/store.h"
#include "base/thread_owner.h"
#include <stdatomic.h>

struct service_health {
    struct health health;      /* for those who answer */
    const struct store *store; /* set before anyone asks, as the next three */
    struct intake *intake;     /* NULL: nothing waits for room */
    bool receiving;
    bool stopping;
    atomic_uint_fast64_t batch_since_ns; /* that the writer is at; 0: none */
    struct health_page *page;
    struct thread_owner writer; /* service_health_batch() */
};

/* The page, if the configuration has one; takes its sockets over. */
int service_health_open(struct service_health *health, struct loop *loop,
                        const struct config *config, struct listen_sockets *sockets);
void service_health_close(struct service_health *health); /* also when not open */
/* Writer: a batch begins, or has ended. */
void service_health_batch(struct service_health *health, bool begins);
