/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Listening sockets of one endpoint: one for each address of its host. They need no loop, so a
 * privileged process can open them and pass them on. "localhost" is 127.0.0.1 and ::1, if the node
 * has both; "::" and "" accept IPv4, too. A Unix socket is one socket with a path.
 */
#include "base/buf.h"
#include "config/config.h"
#include "receiver/listen_unix.h"

#define LISTEN_SOCKETS_MAX 8

struct listen_sockets {
    int fds[LISTEN_SOCKETS_MAX]; /* CLOEXEC, non-blocking, listening; -1 after the last */
    size_t n;
    struct config_endpoint endpoint; /* as requested */
    uint16_t port; /* as bound: with port 0 in the endpoint, the same for all; 0: Unix */
    struct listen_unix_file file; /* of a Unix socket */
};

/* 0 and the sockets, or negative errno (-EADDRINUSE, -EACCES, -EADDRNOTAVAIL, ...) with one
 * sentence in `error` (may be NULL) that names config_path
 * (`receivers::otlp::protocols::grpc::endpoint`) and the endpoint. It looks no name up, which could
 * take for ever: -ENOENT. */
int listen_open(const struct config_endpoint *endpoint, const char *config_path,
                struct listen_sockets *sockets, struct buf *error);
/* Whether the host is a name that is to be looked up, by another process (listen_name.h). */
bool listen_has_name(const struct config_endpoint *endpoint);
/* What that has found. */
struct listen_name {
    int error; /* 0, or negative errno: what listen_open_name() returns, and explains */
    struct bytes addresses; /* listen_name_resolve() */
};
/* name: NULL if there is none. */
int listen_open_name(const struct config_endpoint *endpoint, const struct listen_name *name,
                     const char *config_path, struct listen_sockets *sockets, struct buf *error);
/* If in_use already listens on the endpoint: duplicates its sockets. Closing one set leaves the
 * other open. false, with *sockets closed: another endpoint, or no file descriptors left. */
bool listen_share(const struct listen_sockets *in_use, const struct config_endpoint *endpoint,
                  struct listen_sockets *sockets);
/* Whether both have the same sockets, by listen_share(). */
bool listen_same(const struct listen_sockets *a, const struct listen_sockets *b);
/* Removes the path of a Unix socket if it is still this socket's. Only the process that opened the
 * socket calls this, before it closes the socket. */
void listen_remove(const struct listen_sockets *sockets);
void listen_close(struct listen_sockets *sockets); /* may be called twice; taken-over fds are -1 */
