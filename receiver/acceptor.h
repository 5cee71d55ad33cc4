/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Takes connections from listening sockets. Those that reach into the reserve of file descriptors
 * (base/files.h) are closed; when there is none left at all it pauses: what waits in the backlog
 * stays. Thread: loop. Embedded.
 */
#include "base/loop.h"
#include "base/stats.h"
#include "receiver/listen.h"

enum accept_refusal { ACCEPT_OVER_LIMIT, ACCEPT_OUT_OF_FILES, ACCEPT_REFUSALS };
extern const char *const accept_refusal_names[ACCEPT_REFUSALS]; /* "max_connections", ... */

struct acceptor;

struct acceptor_listener {
    struct watch watch;
    struct acceptor *acceptor;
};

struct acceptor {
    struct loop *loop;
    const char *area;             /* of log records */
    struct stat_ref out_of_files; /* counts what was closed, and pauses */
    /* fd: connected, non-blocking, CLOEXEC; the owner's. */
    void (*accepted)(struct acceptor *acceptor, int fd);
    /* private */
    struct acceptor_listener listeners[LISTEN_SOCKETS_MAX];
    size_t n_listeners;
    struct timer again;
};

/* The fields above are set. Takes the sockets over, on success only. 0 or negative errno. */
int acceptor_start(struct acceptor *acceptor, struct listen_sockets *sockets);
/* Closes the sockets; again, or when not started: no harm. */
void acceptor_stop(struct acceptor *acceptor);
