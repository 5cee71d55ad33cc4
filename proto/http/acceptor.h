/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Takes connections from listening sockets. Those that reach into the reserve of file descriptors
 * (base/files.h) are closed; when there is none left at all it pauses: what waits in the backlog
 * stays. Thread: loop. Embedded.
 */
#include "base/loop.h"
#include "base/stats.h"

#define ACCEPTOR_SOCKETS_MAX 9 /* of an endpoint, and one more */

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
    struct acceptor_listener listeners[ACCEPTOR_SOCKETS_MAX];
    size_t n_listeners;
    struct timer again;
};

/* The fields above are set. Listening sockets, taken over (and set to -1) on success only. 0 or
 * negative errno. */
int acceptor_start(struct acceptor *acceptor, int *fds, size_t n);
/* Closes the sockets; again, or when not started: no harm. */
void acceptor_stop(struct acceptor *acceptor);
