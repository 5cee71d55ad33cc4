/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each child is given: the service the ring, the process stream and the socket to the analyst,
 * and no right; the analyst eight rights, the contexts map and the other end of that socket.
 */
#include "agent-bpf/keeper_parts.h"
#include "agent-bpf/control.h"
#include "agent-bpf/keeper_fork.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include <linux/capability.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANALYST_SOCKET_BYTES (1 << 20)

struct child_start { /* what a forked child needs of the keeper */
    struct keeper *keeper;
    struct service_handles service;
    struct analyst_handles analyst;
};

void keeper_close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Mapped while the fds are there; the mappings stay when they are closed. */
static void map_streams(void *context)
{
    struct child_start *start = context;
    const struct cpu_events *cpus = &start->keeper->cpus;
    if (!start->service.sampling || procstream_open(&start->service.procstream) < 0)
        return;
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (!cpus_has(&cpus->open, cpu))
            continue;
        const struct procstream_cpu *at = &cpus->streams[cpu];
        int r = procstream_add(start->service.procstream, cpu, at->fd, at->buffer_size);
        if (r < 0)
            log_warn("keeper", "no process events of CPU %u: %s", cpu, strerror(-r));
    }
}

static int run_service(void *context)
{
    struct child_start *start = context;
    const struct keeper_settings *settings = start->keeper->settings;
    return settings->service_main(&start->service, settings->context);
}

static int run_analyst(void *context)
{
    struct child_start *start = context;
    const struct keeper_settings *settings = start->keeper->settings;
    return settings->analyst_main(&start->analyst, settings->context);
}

static int start_child(struct child *child, const struct keeper_fork *fork, int child_fd)
{
    pid_t pid = keeper_fork(fork);
    close(child_fd);
    if (pid < 0) {
        keeper_close_fd(&child->control_fd);
        return pid;
    }
    child->pid = pid;
    child->started_ns = child->heard_ns = clock_monotonic_ns();
    child->due_ns = 0;
    if (child->starts++ > 0)
        stat_add(child->restarts_stat, 1);
    return 0;
}

int keeper_start_service(struct keeper *keeper)
{
    const struct keeper_settings *settings = keeper->settings;
    struct child_start start = {.keeper = keeper};
    int fds[2], keep[KEEPER_FDS_MAX + KEEPER_FILES_MAX + 2];
    size_t n_keep = 0;
    int r = control_pair(fds);
    if (r < 0)
        return r;
    keeper->service.control_fd = fds[0];
    start.service = (struct service_handles){
        .control_fd = fds[1], .ring_fd = -1, .restarts = keeper->service.starts};
    for (size_t i = 0; i < settings->n_keep_fds; i++)
        keep[n_keep++] = settings->keep_fds[i];
    for (size_t i = 0; i < settings->n_files; i++)
        keep[n_keep++] = settings->files[i].fd;
    keep[n_keep++] = fds[1];
    if (keeper->sampler) {
        start.service.sampling = true;
        start.service.ring_fd = keep[n_keep++] = sampler_ring_fd(keeper->sampler);
        start.service.ring_size = sampler_ring_size(keeper->sampler);
        start.service.period_ns = sampler_period_ns(keeper->sampler);
    }
    struct keeper_fork fork = {.name = "service",
                               .comm = "spanprof-svc",
                               .fds = keep,
                               .n_fds = n_keep,
                               .rights = keeper->target,
                               .before = map_streams,
                               .main = run_service,
                               .context = &start};
    return start_child(&keeper->service, &fork, fds[1]);
}

/* The analyst's end of a new socket; the service gets the other one. */
static int connect_analyst(struct keeper *keeper, int *analyst_end)
{
    int fds[2], bytes = ANALYST_SOCKET_BYTES;
    int r = control_pair(fds); /* the same kind of socket */
    if (r < 0)
        return r;
    for (int i = 0; i < 2; i++)
        (void)setsockopt(fds[i], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
    struct control_message message = {.kind = CONTROL_ANALYST};
    r = control_send(keeper->service.control_fd, &message, fds[0]);
    close(fds[0]);
    if (r < 0)
        close(fds[1]);
    else
        *analyst_end = fds[1];
    return r;
}

int keeper_start_analyst(struct keeper *keeper)
{
    struct child_start start = {.keeper = keeper};
    int fds[2], service_fd = -1;
    int r = control_pair(fds);
    if (r < 0)
        return r;
    keeper->analyst.control_fd = fds[0];
    r = connect_analyst(keeper, &service_fd);
    if (r < 0) {
        close(fds[1]);
        keeper_close_fd(&keeper->analyst.control_fd);
        return r;
    }
    start.analyst = (struct analyst_handles){.control_fd = fds[1],
                                             .service_fd = service_fd,
                                             .contexts_fd = sampler_contexts_fd(keeper->sampler),
                                             .unwind = sampler_unwind_maps(keeper->sampler)};
    const struct unwind_maps *unwind = &start.analyst.unwind;
    const int keep[] = {
        fds[1],        service_fd,    start.analyst.contexts_fd, unwind->executables,
        unwind->pages, unwind->blocks};
    struct keeper_fork fork = {.name = "analyst",
                               .comm = "spanprof-ana",
                               .fds = keep,
                               .n_fds = sizeof(keep) / sizeof(*keep),
                               .rights = keeper->target,
                               .without_network = true,
                               .main = run_analyst,
                               .context = &start};
    fork.rights.keep = PRIVILEGE(CAP_BPF) | PRIVILEGE(CAP_PERFMON) | PRIVILEGE(CAP_SYS_PTRACE) |
                       PRIVILEGE(CAP_DAC_READ_SEARCH) | PRIVILEGE(CAP_SYSLOG) |
                       PRIVILEGE(CAP_CHECKPOINT_RESTORE) |
                       /* to act in a process's name (fs_rights.h); it adds nothing to ptrace */
                       PRIVILEGE(CAP_SETUID) | PRIVILEGE(CAP_SETGID);
    r = start_child(&keeper->analyst, &fork, fds[1]);
    close(service_fd);
    return r;
}
