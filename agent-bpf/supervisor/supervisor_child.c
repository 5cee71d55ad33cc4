/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child is reaped through its pidfd, which names one process for ever. Without one (no
 * descriptors left) its pid serves: it is not reused before it is reaped.
 *
 * Timeline of one that cannot die: SIGKILL, CHILD_END_NS later abandoned, then a successor; reaped
 * and no longer counted when whatever holds it lets it go.
 */
#include "agent-bpf/supervisor/supervisor_child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

#define BACKOFF_MIN_NS (100 * NS_PER_MS)
#define BACKOFF_MAX_NS (5 * NS_PER_SEC)
#define HEALTHY_NS     (10 * NS_PER_SEC) /* after such a run the backoff starts over */

static const char *const supervised_names[] = {[SUPERVISED_SERVICE] = "service",
                                               [SUPERVISED_SYMBOLIZER] = "symbolizer",
                                               [SUPERVISED_READER] = "reader",
                                               [SUPERVISED_CONFIG] = "config"};
STAT_LOSSES(restarts, "spanprof_process_restarts_total",
            "Times that a process of spanprof was started again after it died or hung.",
            STAT_LABEL("process", supervised_names, SUPERVISED_KINDS));
STAT_LOSSES(abandoned_total, "spanprof_processes_abandoned_total",
            "Processes of spanprof that did not die within 2 s of their SIGKILL: a foreign file "
            "system or a disk holds them.",
            STAT_LABEL("process", supervised_names, SUPERVISED_KINDS));
STAT_GAUGE(abandoned_now, "spanprof_processes_abandoned",
           "Abandoned processes of spanprof that are still there.");

struct left { /* a killed process that is not waited for */
    enum supervised role;
    pid_t pid; /* 0 = free */
    int pidfd;
    uint64_t killed_ns;
    bool abandoned;
};

static struct left left[CHILDREN_ABANDONED_MAX];

void child_init(struct child *child, enum supervised role, uint64_t hang_ns)
{
    assert(role < SUPERVISED_KINDS);
    *child = (struct child){.role = role,
                            .name = supervised_names[role],
                            .hang_ns = hang_ns,
                            .pidfd = -1,
                            .control_fd = -1};
}

void child_started(struct child *child, pid_t pid)
{
    assert(!child->pid && child->pidfd < 0);
    child->pid = pid;
    child->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    child->started_ns = clock_monotonic_ns();
    child->killed_ns = 0;
    hang_detector_reset(&child->hang, pid, child->started_ns);
    child->due_ns = 0;
    if (child->starts++ > 0)
        stat_add_of(&restarts, child->role, 1);
}

void child_kill(struct child *child, uint64_t now_ns)
{
    if (!child->pid || child->killed_ns)
        return;
    kill(child->pid, SIGKILL);
    child->killed_ns = now_ns;
}

static void child_forget(struct child *child)
{
    child->pid = 0;
    child->killed_ns = 0;
    child->pidfd = -1;
    fd_closep(&child->control_fd);
}

/* ---- those that are not waited for ---- */

static struct left *left_free(void)
{
    for (size_t i = 0; i < CHILDREN_ABANDONED_MAX; i++)
        if (!left[i].pid)
            return &left[i];
    return NULL;
}

size_t children_abandoned(void)
{
    size_t n = 0;
    for (size_t i = 0; i < CHILDREN_ABANDONED_MAX; i++)
        n += left[i].pid && left[i].abandoned;
    return n;
}

size_t children_left(enum supervised role)
{
    size_t n = 0;
    for (size_t i = 0; i < CHILDREN_ABANDONED_MAX; i++)
        n += left[i].pid && left[i].role == role;
    return n;
}

bool children_have_left(pid_t pid)
{
    for (size_t i = 0; i < CHILDREN_ABANDONED_MAX; i++)
        if (left[i].pid == pid)
            return true;
    return false;
}

static void left_abandon(struct left *process)
{
    process->abandoned = true;
    stat_add_of(&abandoned_total, process->role, 1);
    stat_set(&abandoned_now, (int64_t)children_abandoned());
    log_error("supervisor",
              "process %d (%s) cannot be ended: it waits for a file system that does not answer; "
              "going on without it, %zu such processes now",
              (int)process->pid, supervised_names[process->role], children_abandoned());
}

static bool child_put_left(struct child *child)
{
    struct left *process = left_free();
    if (!process)
        return false;
    *process = (struct left){.role = child->role,
                             .pid = child->pid,
                             .pidfd = child->pidfd,
                             .killed_ns = child->killed_ns};
    return true;
}

bool child_leave(struct child *child, uint64_t now_ns)
{
    child_kill(child, now_ns);
    if (child->pid && !child_put_left(child))
        return false;
    child_forget(child);
    return true;
}

/* 0: it is still there; else it is reaped. */
static bool process_reap(pid_t pid, int pidfd, int *status)
{
    siginfo_t info = {.si_pid = 0};
    if (pidfd < 0)
        return waitpid(pid, status, WNOHANG) == pid;
    if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) < 0 || !info.si_pid)
        return false;
    *status =
        info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : W_EXITCODE(0, info.si_status);
    return true;
}

void children_reap_left(uint64_t now_ns)
{
    for (size_t i = 0; i < CHILDREN_ABANDONED_MAX; i++) {
        struct left *process = &left[i];
        int status;
        if (!process->pid)
            continue;
        if (process_reap(process->pid, process->pidfd, &status)) {
            fd_closep(&process->pidfd);
            process->pid = 0;
            stat_set(&abandoned_now, (int64_t)children_abandoned());
        } else if (!process->abandoned && now_ns >= process->killed_ns + CHILD_END_NS) {
            left_abandon(process);
        }
    }
}

/* ---- one that is waited for ---- */

bool child_reap(struct child *child, uint64_t now_ns, int *status)
{
    if (!child->pid)
        return false;
    if (process_reap(child->pid, child->pidfd, status)) {
        fd_closep(&child->pidfd);
        child_forget(child);
        return true;
    }
    if (!child->killed_ns || now_ns < child->killed_ns + CHILD_END_NS || !child_put_left(child))
        return false;
    child_forget(child);
    children_reap_left(now_ns); /* counts it */
    *status = W_EXITCODE(0, SIGKILL);
    return true;
}

uint64_t child_due(const struct child *child)
{
    uint64_t due_ns = child->killed_ns ? child->killed_ns + CHILD_END_NS : UINT64_MAX;
    return child->due_ns && child->due_ns < due_ns ? child->due_ns : due_ns;
}

void child_plan_restart(struct child *child, uint64_t now_ns)
{
    if (now_ns - child->started_ns > HEALTHY_NS || !child->backoff_ns)
        child->backoff_ns = BACKOFF_MIN_NS;
    else if (child->backoff_ns < BACKOFF_MAX_NS)
        child->backoff_ns *= 2;
    if (child->backoff_ns > BACKOFF_MAX_NS)
        child->backoff_ns = BACKOFF_MAX_NS;
    child->due_ns = now_ns + child->backoff_ns;
}

/* Until one of them ends, or until then. */
static void children_wait(const struct child *children, size_t n, uint64_t until_ns)
{
    struct pollfd fds[SUPERVISED];
    uint64_t now_ns = clock_monotonic_ns();
    bool all = true;
    assert(n <= SUPERVISED);
    for (size_t i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = children[i].pidfd, .events = POLLIN};
        all &= !children[i].pid || children[i].pidfd >= 0;
    }
    uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    if (!all && left_ns > 10 * NS_PER_MS)
        left_ns = 10 * NS_PER_MS;
    (void)poll(fds, (nfds_t)n, (int)(left_ns / NS_PER_MS) + 1);
}

static bool children_run(const struct child *children, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (children[i].pid)
            return true;
    return false;
}

void child_give_up(struct child *child, uint64_t now_ns)
{
    if (child_leave(child, now_ns))
        return;
    log_error("supervisor", "process %d (%s) is forgotten: too many cannot be ended",
              (int)child->pid, child->name);
    fd_closep(&child->pidfd);
    child_forget(child);
}

void children_end(struct child *children, size_t n)
{
    uint64_t now_ns = clock_monotonic_ns(), until_ns = now_ns + CHILD_END_NS;
    for (size_t i = 0; i < n; i++)
        child_kill(&children[i], now_ns);
    for (;;) {
        int status;
        now_ns = clock_monotonic_ns();
        for (size_t i = 0; i < n; i++)
            child_reap(&children[i], now_ns, &status);
        if (now_ns >= until_ns || !children_run(children, n))
            break;
        children_wait(children, n, until_ns);
    }
    for (size_t i = 0; i < n; i++)
        child_give_up(&children[i], now_ns);
    children_reap_left(now_ns);
}
