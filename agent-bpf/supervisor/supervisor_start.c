/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each child is given: the service the ring, the process stream and the socket to the
 * symbolizer, and no right; the symbolizer eight rights, the contexts map and the other end of that
 * socket.
 */
#include "agent-bpf/supervisor/supervisor_state.h"
#include "agent-bpf/drain/procstream.h"
#include "agent-bpf/control.h"
#include "agent-bpf/supervisor/supervisor_fork.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/stats.h"
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SYMBOLIZER_SOCKET_BYTES (1 << 20)

struct child_start { /* what a forked child needs of the supervisor */
    struct supervisor *supervisor;
    struct service_handles service;
    struct symbolizer_handles symbolizer;
};

/* Mapped while the fds are there; the mappings stay when they are closed. */
static void map_streams(void *context)
{
    struct child_start *start = context;
    if (!start->service.sampling || procstream_open(&start->service.procstream) < 0)
        return;
    const struct cpu_events *cpus = &start->supervisor->sampling->cpus;
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (!cpus_has(&cpus->open, cpu))
            continue;
        const struct procstream_cpu *at = &cpus->streams[cpu];
        int r = procstream_add(start->service.procstream, cpu, at->fd, at->buffer_size);
        if (r < 0)
            log_warn("supervisor", "no process events of CPU %u: %s", cpu, strerror(-r));
    }
}

static int run_service(void *context)
{
    struct child_start *start = context;
    const struct supervisor_settings *settings = start->supervisor->settings;
    return settings->service_main(&start->service, settings->context);
}

static int run_symbolizer(void *context)
{
    struct child_start *start = context;
    const struct supervisor_settings *settings = start->supervisor->settings;
    return settings->symbolizer_main(&start->symbolizer, settings->context);
}

static int start_child(struct child *child, const struct supervisor_fork *fork, int child_fd)
{
    pid_t pid = supervisor_fork(fork);
    close(child_fd);
    if (pid < 0) {
        fd_closep(&child->control_fd);
        return pid;
    }
    child->pid = pid;
    child->started_ns = clock_monotonic_ns();
    hang_detector_reset(&child->hang, pid, child->started_ns);
    child->due_ns = 0;
    if (child->starts++ > 0)
        stat_add_ref(child->restarts_stat, 1);
    return 0;
}

static struct service_handles service_handles(const struct supervisor *supervisor, int control_fd)
{
    struct service_handles handles = {
        .control_fd = control_fd, .ring_fd = -1, .restarts = supervisor->service.starts};
    if (supervisor->sampling) {
        handles.sampling = true;
        handles.ring_fd = sampler_ring_fd(supervisor->sampling->sampler);
        handles.ring_size = sampler_ring_size(supervisor->sampling->sampler);
        handles.period_ns = sampler_period_ns(supervisor->sampling->sampler);
    }
    return handles;
}

/* All that the service inherits, as many as the configuration has sockets and files; the caller
 * frees it. */
static int *fds_to_keep(const struct supervisor_settings *settings,
                        const struct service_handles *handles, size_t *n)
{
    int *fds = calloc(settings->n_keep_fds + settings->n_files + 2, sizeof(*fds));
    *n = 0;
    if (!fds)
        return NULL;
    for (size_t i = 0; i < settings->n_keep_fds; i++)
        fds[(*n)++] = settings->keep_fds[i];
    for (size_t i = 0; i < settings->n_files; i++)
        fds[(*n)++] = settings->files[i].fd;
    fds[(*n)++] = handles->control_fd;
    if (handles->sampling)
        fds[(*n)++] = handles->ring_fd;
    return fds;
}

int supervisor_start_service(struct supervisor *supervisor)
{
    struct child_start start = {.supervisor = supervisor};
    int fds[2];
    int r = control_pair(fds);
    if (r < 0)
        return r;
    supervisor->service.control_fd = fds[0];
    start.service = service_handles(supervisor, fds[1]);
    struct supervisor_fork fork = {.name = "service",
                                   .comm = "spanprof-svc",
                                   .rights = supervisor->target,
                                   .before = map_streams,
                                   .main = run_service,
                                   .context = &start};
    int *keep = fds_to_keep(supervisor->settings, &start.service, &fork.n_fds);
    if (!keep) {
        close(fds[1]);
        fd_closep(&supervisor->service.control_fd);
        return -ENOMEM;
    }
    fork.fds = keep;
    r = start_child(&supervisor->service, &fork, fds[1]);
    free(keep);
    return r;
}

/* The symbolizer's end of a new socket; the service gets the other one. */
static int connect_symbolizer(struct supervisor *supervisor, int *symbolizer_end)
{
    int fds[2], bytes = SYMBOLIZER_SOCKET_BYTES;
    int r = control_pair(fds); /* the same kind of socket */
    if (r < 0)
        return r;
    for (int i = 0; i < 2; i++)
        (void)setsockopt(fds[i], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
    struct control_message message = {.kind = CONTROL_SYMBOLIZER};
    r = control_send(supervisor->service.control_fd, &message, fds[0]);
    close(fds[0]);
    if (r < 0)
        close(fds[1]);
    else
        *symbolizer_end = fds[1];
    return r;
}

int supervisor_start_symbolizer(struct supervisor *supervisor)
{
    struct child_start start = {.supervisor = supervisor};
    int fds[2], service_fd = -1;
    int r = control_pair(fds);
    if (r < 0)
        return r;
    supervisor->symbolizer.control_fd = fds[0];
    r = connect_symbolizer(supervisor, &service_fd);
    if (r < 0) {
        close(fds[1]);
        fd_closep(&supervisor->symbolizer.control_fd);
        return r;
    }
    start.symbolizer = (struct symbolizer_handles){
        .control_fd = fds[1],
        .service_fd = service_fd,
        .contexts_fd = sampler_contexts_fd(supervisor->sampling->sampler),
        .unwind = sampler_unwind_maps(supervisor->sampling->sampler)};
    const struct unwind_maps *unwind = &start.symbolizer.unwind;
    const int keep[] = {
        fds[1],        service_fd,    start.symbolizer.contexts_fd, unwind->executables,
        unwind->pages, unwind->blocks};
    struct supervisor_fork fork = {.name = "symbolizer",
                                   .comm = "spanprof-sym",
                                   .fds = keep,
                                   .n_fds = sizeof(keep) / sizeof(*keep),
                                   .rights = supervisor->target,
                                   .without_network = true,
                                   .main = run_symbolizer,
                                   .context = &start};
    fork.rights.keep = PRIVILEGE(CAP_BPF) | PRIVILEGE(CAP_PERFMON) | PRIVILEGE(CAP_SYS_PTRACE) |
                       PRIVILEGE(CAP_DAC_READ_SEARCH) | PRIVILEGE(CAP_SYSLOG) |
                       PRIVILEGE(CAP_CHECKPOINT_RESTORE) |
                       /* to act in a process's name (fs_rights.h); it adds nothing to ptrace */
                       PRIVILEGE(CAP_SETUID) | PRIVILEGE(CAP_SETGID);
    r = start_child(&supervisor->symbolizer, &fork, fds[1]);
    close(service_fd);
    return r;
}
