/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a child does between fork() and its main function: signals, death with the supervisor, fds,
 * rights. Private to supervisor.c. Thread: the supervisor's.
 */
#include "agent-bpf/supervisor/privileges.h"
#include <stddef.h>
#include <sys/types.h>

struct supervisor_fork {
    const char *name; /* for the log; static */
    const char *comm; /* at most 15 characters */
    const int *fds;   /* that stay open, besides 0..2 */
    size_t n_fds;
    struct privileges rights;
    _Bool without_network;         /* in an empty network namespace where that is allowed */
    void (*before)(void *context); /* in the child, all fds and rights still there; may be NULL */
    int (*main)(void *context);
    void *context;
};

/* pid of the child, or negative errno. The child runs main() and exits with what it returns. */
pid_t supervisor_fork(const struct supervisor_fork *fork);
