/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGTERM is ignored by children: service managers and terminals signal the whole group, and the
 * service is to drain when the supervisor says so.
 */
#include "agent-bpf/supervisor/supervisor_fork.h"
#include "agent-bpf/supervisor/supervisor.h"
#include "base/log.h"
#include <errno.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int compare_fds(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Closes the gaps between the fds that stay. */
static int close_others(const int *fds, size_t n_fds)
{
    int *sorted = calloc(n_fds + 1, sizeof(int));
    unsigned next = 3;
    if (!sorted)
        return -ENOMEM;
    for (size_t i = 0; i < n_fds; i++)
        sorted[i] = fds[i];
    qsort(sorted, n_fds, sizeof(int), compare_fds);
    for (size_t i = 0; i < n_fds; i++) {
        unsigned fd = (unsigned)sorted[i];
        if (sorted[i] < 0 || fd < next)
            continue;
        if (fd > next)
            (void)syscall(SYS_close_range, next, fd - 1, 0);
        next = fd + 1;
    }
    free(sorted);
    return syscall(SYS_close_range, next, ~0u, 0) < 0 ? -errno : 0;
}

static void reset_signals(void)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    sigset_t none;
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A change of ids clears it, so it is set twice. */
static int die_with(pid_t supervisor)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return -errno;
    return getppid() == supervisor ? 0 : -ESRCH;
}

static int supervisor_fork_prepare(const struct supervisor_fork *to, pid_t supervisor)
{
    reset_signals();
    int r = die_with(supervisor);
    if (r == 0 && to->before)
        to->before(to->context);
    if (r == 0)
        r = close_others(to->fds, to->n_fds);
    if (r == 0 && to->without_network)
        (void)unshare(CLONE_NEWNET); /* a second wall: it may lack the right to it */
    if (r == 0)
        r = privileges_drop(&to->rights);
    if (r == 0)
        r = die_with(supervisor);
    return r;
}

pid_t supervisor_fork(const struct supervisor_fork *to)
{
    pid_t supervisor = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0 ? -errno : pid;
    log_set_process(to->name);
    prctl(PR_SET_NAME, to->comm, 0, 0, 0);
    int r = supervisor_fork_prepare(to, supervisor);
    if (r < 0) {
        log_error("supervisor", "cannot drop rights: %s", strerror(-r));
        _exit(SERVICE_EXIT_FATAL);
    }
    exit(to->main(to->context));
}
