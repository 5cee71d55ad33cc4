/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The handshakes of a server's accepted connections. Thread: loop. Embedded.
 *
 * Limits: TLS_ACCEPT_TIMEOUT_NS each; TLS_ACCEPT_MAX at a time, then the oldest is ended: real
 * handshakes take a few round trips, so the oldest one is idle. Each result is counted
 * (tls_count()); a failure is logged.
 */
#include "base/clock.h"
#include "proto/tls/tls.h"

enum { TLS_ACCEPT_MAX = 256 };
#define TLS_ACCEPT_TIMEOUT_NS (10 * NS_PER_SEC)

struct tls_accept {
    struct loop *loop;
    struct tls_context *context; /* must outlive the accept */
    const char *area;            /* of log records */
    /* Passes session and socket to the owner. May call any function except tls_accept_close(). */
    void (*passed)(struct tls_accept *accept, struct tls *tls, int fd);
    /* private */
    struct list entering;
    size_t n_entering;
};

void tls_accept_init(struct tls_accept *accept);          /* the fields above are set */
void tls_accept_enter(struct tls_accept *accept, int fd); /* takes it over */
void tls_accept_close(struct tls_accept *accept);         /* ends the handshakes; again: no harm */
