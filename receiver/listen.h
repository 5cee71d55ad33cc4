/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Listening sockets of one endpoint: one for each address of its host. Needs no loop, so that
 * a process with the right to open them can pass them on. "localhost" is 127.0.0.1 and ::1, as far
 * as the node has both; "::" and "" take IPv4 too. A Unix socket is one, with its path.
 */
#include "base/buf.h"
#include "config/config.h"
#include "receiver/listen_unix.h"

#define LISTEN_SOCKETS_MAX 8

struct listen_sockets {
    int fds[LISTEN_SOCKETS_MAX]; /* CLOEXEC, non-blocking, listening; -1 behind the last */
    size_t n;
    struct config_endpoint endpoint; /* that was asked for */
    uint16_t port; /* as bound: with port 0 in the endpoint, the same for all; 0: Unix */
    struct listen_unix_file file; /* of a Unix socket */
};

/* 0 and the sockets, or negative errno (-EADDRINUSE, -EACCES, -EADDRNOTAVAIL, ...) with one
 * sentence in `error` (may be NULL) that names config_path
 * (`receivers::otlp::protocols::grpc::endpoint`) and the endpoint. Resolves names: blocking, for
 * the start. */
int listen_open(const struct config_endpoint *endpoint, const char *config_path,
                struct listen_sockets *sockets, struct buf *error);
/* Of an endpoint that is listened on already: duplicates of its sockets; closing either leaves the
 * other. False, with *sockets closed: it is another endpoint, or file descriptors have run out. */
bool listen_share(const struct listen_sockets *in_use, const struct config_endpoint *endpoint,
                  struct listen_sockets *sockets);
/* Whether both have the same sockets, by listen_share(). */
bool listen_same(const struct listen_sockets *a, const struct listen_sockets *b);
/* The path of a Unix socket goes, if it is still its own; for the one that opened it, before it
 * closes. */
void listen_remove(const struct listen_sockets *sockets);
void listen_close(struct listen_sockets *sockets); /* may be called twice; taken-over fds are -1 */
