/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/supervisor/role_message.h"
#include "agent-bpf/supervisor/privileges.h"
#include "agent-bpf/supervisor/supervisor_broker.h"
#include "agent-bpf/drain/procstream.h"
#include "base/log.h"
#include "base/memfd.h"
#include "base/stats.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

const char *const role_names[ROLES] = {
    [ROLE_NONE] = "",         [ROLE_SERVICE] = "service", [ROLE_SYMBOLIZER] = "symbolizer",
    [ROLE_READER] = "reader", [ROLE_BROKER] = "broker",   [ROLE_CONFIG] = "config"};

static const char *const role_comms[ROLES] = {[ROLE_NONE] = "",
                                              [ROLE_SERVICE] = "spanprof-svc",
                                              [ROLE_SYMBOLIZER] = "spanprof-sym",
                                              [ROLE_READER] = "spanprof-rdr",
                                              [ROLE_BROKER] = "spanprof-brk",
                                              [ROLE_CONFIG] = "spanprof-cfg"};

/* "--role=service:17" */
static enum role role_parse(const char *argument, int *fd)
{
    size_t prefix = strlen(ROLE_ARGUMENT);
    if (!argument || strncmp(argument, ROLE_ARGUMENT, prefix) != 0)
        return ROLE_NONE;
    for (enum role role = ROLE_SERVICE; role < ROLES; role++) {
        const char *name = argument + prefix;
        size_t n = strlen(role_names[role]);
        char *end;
        if (strncmp(name, role_names[role], n) != 0 || name[n] != ':')
            continue;
        *fd = (int)strtol(name + n + 1, &end, 10);
        return *end || *fd <= STDERR_FILENO ? ROLE_NONE : role;
    }
    return ROLE_NONE;
}

/* Once mapped, the descriptors of the perf events are not needed. */
static int role_take_streams(struct role_start *start, const struct role_stream *streams, size_t n)
{
    if (!start->service.sampling)
        return 0;
    int error = procstream_open(&start->service.procstream);
    for (size_t i = 0; i < n; i++) {
        int one = error ? 0
                        : procstream_add(start->service.procstream, streams[i].cpu, streams[i].fd,
                                         (size_t)streams[i].buffer_size);
        if (one)
            log_warn("supervisor", "no process events of CPU %u: %s", streams[i].cpu,
                     strerror(-one));
        close(streams[i].fd);
    }
    return error;
}

static int role_attach_stats(int fd)
{
    if (fd < 0) /* not shared yet */
        return 0;
    int error = stats_attach(fd);
    close(fd);
    return error;
}

static int role_take_message(struct bytes bytes, enum role role, struct role_start *start)
{
    struct role_message message;
    if (bytes.len < sizeof(message))
        return -EINVAL;
    memcpy(&message, bytes.data, sizeof(message));
    size_t streams_bytes = message.n_streams * sizeof(struct role_stream);
    if (message.role != role || message.n_streams > PROCSTREAM_CPUS_MAX ||
        bytes.len != sizeof(message) + streams_bytes + message.settings_bytes)
        return -EINVAL;
    if (role == ROLE_BROKER) /* a child of nobody, with a limit of its own */
        alarm(BROKER_LIMIT_S);
    else if (getppid() != message.supervisor) /* it has died: PR_SET_PDEATHSIG came too late */
        return -ESRCH;
    log_set_format(message.log_format);
    log_set_level(message.log_level);
    start->role = role;
    start->service = message.service;
    start->symbolizer = message.symbolizer;
    start->broker = message.broker;
    start->reader = message.reader;
    start->config = message.config;
    int error = role_attach_stats(message.stats_fd);
    const void *streams = bytes.data + sizeof(message);
    if (!error)
        error = role_take_streams(start, streams, message.n_streams);
    return error ? error
                 : buf_append(&start->settings, bytes.data + sizeof(message) + streams_bytes,
                              message.settings_bytes);
}

/* Bytes of address space, some times what a role needs in the default configuration: what strangers
 * make it read is to end it, and not another program of the node. 0: no limit of its own. */
static const rlim_t role_address_spaces[ROLES] = {[ROLE_SYMBOLIZER] = 512u << 20,
                                                  [ROLE_READER] = 64u << 20,
                                                  [ROLE_BROKER] = 64u << 20,
                                                  [ROLE_CONFIG] = 256u << 20};

/* Sanitizers reserve terabytes. */
static void role_limit_memory(enum role role)
{
    const struct rlimit limit = {role_address_spaces[role], role_address_spaces[role]};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (limit.rlim_max && setrlimit(RLIMIT_AS, &limit) < 0)
        log_warn("supervisor", "no limit of the memory of the %s: %s", role_names[role],
                 strerror(errno));
#else
    (void)limit;
#endif
}

/* No core of what strangers sent, or of keys; and no process of the same user reads or traces this
 * one. Sanitizers trace their own process to find leaks. */
static void keep_memory_private(void)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

int role_take(int argc, char *const *argv, struct role_start *start)
{
    _cleanup_buf_ struct buf bytes = BUF_INIT(0);
    int fd = -1;
    enum role role = argc == 2 ? role_parse(argv[1], &fd) : ROLE_NONE;
    *start = (struct role_start){.role = ROLE_NONE};
    if (role == ROLE_NONE)
        return 0;
    log_set_process(role_names[role]);
    keep_memory_private();
    role_limit_memory(role);
    prctl(PR_SET_NAME, role_comms[role], 0, 0, 0);
    int error = prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ? -errno : 0;
    if (!error)
        error = privileges_settle();
    if (!error)
        error = memfd_read(fd, ROLE_BYTES_MAX, &bytes);
    if (!error)
        error = role_take_message(buf_bytes(&bytes), role, start);
    if (!error)
        close(fd);
    else
        log_error("supervisor", "cannot start as the %s: %s", role_names[role],
                  error < 0 ? strerror(-error) : "out of memory");
    return error;
}
