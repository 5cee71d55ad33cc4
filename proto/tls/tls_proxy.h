/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * TLS in front of a server that supports only plain sockets: each session is proxied to a socket
 * pair, and the server gets the other end. Thread: loop.
 *
 * Limits: 16 KiB a direction between the sockets, while one of them is slow; what waits for the
 * peer has TLS_PROXY_STALL_NS to be taken, else the connection ends. Three file descriptors a
 * connection.
 */
#include "base/clock.h"
#include "proto/tls/tls.h"

#define TLS_PROXY_STALL_NS (30 * NS_PER_SEC)

struct tls_proxies {
    struct loop *loop;
    struct list list;
    size_t n;
};

void tls_proxies_init(struct tls_proxies *proxies, struct loop *loop);
/* Takes session and socket over, also on failure. *plain: non-blocking, CLOEXEC, the caller's to
 * close, which ends the proxy. 0 or negative errno. */
int tls_proxy_open(struct tls_proxies *proxies, struct tls *tls, int fd, int *plain);
/* Sends what can be sent at once, then ends them all. */
void tls_proxies_close(struct tls_proxies *proxies);
