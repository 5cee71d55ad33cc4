/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The handshakes of a server's accepted connections. Thread: loop. Embedded.
 *
 * Limits: TLS_GATE_TIMEOUT_NS each; TLS_GATE_MAX at a time, then the oldest has to go: honest ones
 * take a few round trips, so it is one that idles. Each end is counted (tls_count()), and what
 * failed is said in the log.
 */
#include "base/clock.h"
#include "proto/tls/tls.h"

enum { TLS_GATE_MAX = 256 };
#define TLS_GATE_TIMEOUT_NS (10 * NS_PER_SEC)

struct tls_gate {
    struct loop *loop;
    struct tls_context *context; /* must outlive the gate */
    const char *area;            /* of log records */
    /* The session and its socket are the owner's from here on. Everything may be called from it but
     * tls_gate_close(). */
    void (*passed)(struct tls_gate *gate, struct tls *tls, int fd);
    /* private */
    struct list entering;
    size_t n_entering;
};

void tls_gate_init(struct tls_gate *gate);          /* the fields above are set */
void tls_gate_enter(struct tls_gate *gate, int fd); /* takes it over */
void tls_gate_close(struct tls_gate *gate);         /* ends the handshakes; again: no harm */
