/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Starts a child: a new execution of the program that the supervisor was started from, whatever
 * lies under its name by now. It begins with the rights that it is to have: they are dropped
 * before. Private to the supervisor. Thread: its.
 */
#include "agent-bpf/supervisor/privileges.h"
#include "agent-bpf/supervisor/role.h"

struct supervisor_exec {
    enum role role;
    int program_fd; /* supervisor_program_open() */
    int message_fd; /* role_message.h */
    const int *fds; /* that stay open, besides 0..2 and message_fd */
    size_t n_fds;
    struct privileges rights;
    bool as_started; /* with the environment and the descriptors of the supervisor's own start */
    bool detached;   /* not a child of the supervisor, which does not wait for it */
    bool without_network; /* in an empty network namespace where that is allowed */
};

/* A descriptor of this process's own program, to be opened before any child is started. */
int supervisor_program_open(void);
/* When memory is short, the kernel ends a child before the supervisor, which can start it again.
 * Where that is allowed; again: no harm. */
void supervisor_outlive_children(void);
/* pid of the child (of one that is detached: 0), or negative errno. */
pid_t supervisor_exec(const struct supervisor_exec *exec);
