/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * TLS in front of a server that knows plain sockets alone: each session is bridged to a socket
 * pair, whose other end that server gets. Thread: loop.
 *
 * Limits: 16 KiB a direction between the sockets, while one of them is slow; what waits for the
 * peer has TLS_PROXY_STALL_NS to be taken, else the connection ends. Three file descriptors a
 * connection.
 */
#include "base/clock.h"
#include "proto/tls/tls.h"

#define TLS_PROXY_STALL_NS (30 * NS_PER_SEC)

struct tls_proxys {
    struct loop *loop;
    struct list list;
    size_t n;
};

void tls_proxys_init(struct tls_proxys *bridges, struct loop *loop);
/* Takes session and socket over, also on failure. *plain: non-blocking, CLOEXEC, the caller's to
 * close, which ends the bridge. 0 or negative errno. */
int tls_proxy_open(struct tls_proxys *bridges, struct tls *tls, int fd, int *plain);
/* Sends what can be sent at once, then ends them all. */
void tls_proxys_close(struct tls_proxys *bridges);
