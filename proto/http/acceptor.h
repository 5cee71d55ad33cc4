/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Accepts connections from listening sockets. A connection that would use the reserve of file
 * descriptors (base/files.h) is closed, unless it may. Without any descriptor left the acceptor
 * pauses: connections stay in the backlog. Thread: loop. Embedded.
 */
#include "base/loop.h"
#include "base/stats.h"

enum {
    ACCEPTOR_SOCKETS_MAX = 9, /* an endpoint's, and one more */
    ACCEPTOR_ROUND = 32,      /* connections of a socket that are accepted in a round of the loop */
};

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
    struct stat_ref out_of_files; /* counts closed connections, and pauses */
    bool uses_reserve;            /* of file descriptors: connections are not closed for it */
    /* fd: connected, non-blocking, CLOEXEC; the owner's. */
    void (*accepted)(struct acceptor *acceptor, int fd);
    /* private */
    struct acceptor_listener listeners[ACCEPTOR_SOCKETS_MAX];
    size_t n_listeners;
    struct timer again;
};

/* Set the fields above first. fds: listening sockets, taken over (and set to -1) on success only. 0
 * or negative errno. */
int acceptor_start(struct acceptor *acceptor, int *fds, size_t n);
/* Closes the sockets. No-op if stopped or never started. */
void acceptor_stop(struct acceptor *acceptor);
