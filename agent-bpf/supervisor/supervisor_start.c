/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each child is given: the service the ring, the process stream and the socket to the
 * symbolizer; the symbolizer the maps of contexts and unwind tables and the other end of that
 * socket; the reader a socket to the symbolizer and three rights, which those two lack.
 */
#include "agent-bpf/supervisor/supervisor_state.h"
#include "agent-bpf/drain/procstream.h"
#include "agent-bpf/control.h"
#include "agent-bpf/supervisor/role_message.h"
#include "agent-bpf/supervisor/supervisor_exec.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/memfd.h"
#include "base/stats.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SYMBOLIZER_SOCKET_BYTES (1 << 20)

/* Separate accounts, if they exist (packaging/spanprof.sysusers). The process that parses
 * strangers' data shares its user with no process that has a capability. */
#define ACCOUNT_SYMBOLIZER "spanprof-sym"
#define ACCOUNT_READER     "spanprof-rdr" /* and the broker's */

struct child_start { /* of a child that is not there yet */
    struct supervisor_exec exec;
    struct role_message message;
    struct buf streams; /* struct role_stream */
    struct buf fds;     /* int: those of exec */
    bool failed;        /* no memory */
};

static void start_init(struct child_start *start, enum role role, int program_fd,
                       const struct privileges *rights)
{
    *start =
        (struct child_start){.exec = {.role = role, .program_fd = program_fd, .rights = *rights},
                             .message = {.role = role,
                                         .supervisor = getpid(),
                                         .log_level = log_level(),
                                         .log_format = log_format(),
                                         .stats_fd = stats_shared_fd()}};
}

static void start_give(struct child_start *start, const int *fds, size_t n)
{
    start->failed |= n && buf_append(&start->fds, fds, n * sizeof(*fds));
}

/* The memfd. Negative errno. */
static int start_message(struct child_start *start, const struct role_settings *settings)
{
    _cleanup_buf_ struct buf bytes = BUF_INIT(ROLE_BYTES_MAX);
    start->message.n_streams = (uint32_t)(start->streams.len / sizeof(struct role_stream));
    start->message.settings_bytes = (uint32_t)settings->bytes.len;
    start_give(start, &start->message.stats_fd, 1);
    start_give(start, settings->fds, settings->n_fds);
    if (start->failed || buf_append(&bytes, &start->message, sizeof(start->message)) ||
        buf_append_bytes(&bytes, buf_bytes(&start->streams)) ||
        buf_append_bytes(&bytes, settings->bytes))
        return -ENOMEM;
    return memfd_sealed("spanprof-role", buf_bytes(&bytes));
}

static pid_t start_execute(struct child_start *start, const struct role_settings *settings)
{
    int message_fd = start_message(start, settings);
    if (message_fd < 0)
        return message_fd;
    start->exec.message_fd = message_fd;
    start->exec.fds = (const int *)(const void *)start->fds.data;
    start->exec.n_fds = start->fds.len / sizeof(int);
    pid_t pid = supervisor_exec(&start->exec);
    close(message_fd);
    return pid;
}

/* Ends start, and the child's end of the control socket. */
static int start_child(struct child *child, struct child_start *start,
                       const struct role_settings *settings, int child_fd)
{
    pid_t pid = start_execute(start, settings);
    buf_close(&start->streams);
    buf_close(&start->fds);
    close(child_fd);
    if (pid < 0) {
        fd_closep(&child->control_fd);
        return pid;
    }
    child_started(child, pid);
    return 0;
}

/* ---- the service ---- */

static void give_sampling(struct child_start *start, const struct supervisor_sampling *sampling)
{
    struct service_handles *handles = &start->message.service;
    handles->sampling = true;
    handles->ring_fd = sampler_ring_fd(sampling->sampler);
    handles->ring_size = sampler_ring_size(sampling->sampler);
    handles->connections_fd = sampler_connections_fd(sampling->sampler);
    handles->period_ns = sampler_period_ns(sampling->sampler);
    start_give(start, &handles->ring_fd, 1);
    start_give(start, &handles->connections_fd, 1);
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (!cpus_has(&sampling->cpus.open, cpu))
            continue;
        const struct procstream_cpu *at = &sampling->cpus.streams[cpu];
        const struct role_stream stream = {
            .cpu = cpu, .fd = at->fd, .buffer_size = at->buffer_size};
        start->failed |= buf_append(&start->streams, &stream, sizeof(stream));
        start_give(start, &stream.fd, 1);
    }
}

int supervisor_start_service(struct supervisor *supervisor)
{
    const struct supervisor_settings *settings = supervisor->settings;
    struct child_start start;
    int fds[2];
    int r = control_pair(fds);
    if (r < 0)
        return r;
    supervisor->service.control_fd = fds[0];
    start_init(&start, ROLE_SERVICE, supervisor->program_fd, &supervisor->target);
    start.message.service = (struct service_handles){.control_fd = fds[1],
                                                     .ring_fd = -1,
                                                     .connections_fd = -1,
                                                     .restarts = supervisor->service.starts};
    start_give(&start, &fds[1], 1);
    for (size_t i = 0; i < settings->n_files; i++)
        start_give(&start, &settings->files[i].fd, 1);
    if (supervisor->sampling)
        give_sampling(&start, supervisor->sampling);
    return start_child(&supervisor->service, &start, &settings->service, fds[1]);
}

/* ---- the symbolizer ---- */

/* The symbolizer's end of a new socket; the service gets the other one. */
static int connect_symbolizer(struct supervisor *supervisor, int *symbolizer_end)
{
    int fds[2], bytes = SYMBOLIZER_SOCKET_BYTES;
    int r = control_pair(fds); /* the same kind of socket */
    if (r < 0)
        return r;
    for (int i = 0; i < 2; i++)
        (void)setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    struct control_message message = {.kind = CONTROL_SYMBOLIZER};
    r = control_send(supervisor->service.control_fd, &message, fds[0]);
    close(fds[0]);
    if (r < 0)
        close(fds[1]);
    else
        *symbolizer_end = fds[1];
    return r;
}

static void give_symbolizer(struct child_start *start, const struct sampler *sampler,
                            int control_fd, int service_fd, int kallsyms_fd)
{
    const struct unwind_maps unwind = sampler_unwind_maps(sampler);
    const int fds[] = {control_fd,
                       service_fd,
                       sampler_contexts_fd(sampler),
                       sampler_runtimes_fd(sampler),
                       unwind.executables,
                       unwind.pages,
                       unwind.blocks};
    start_give(start, &kallsyms_fd, kallsyms_fd >= 0);
    start->message.symbolizer = (struct symbolizer_handles){.control_fd = control_fd,
                                                            .kallsyms_fd = kallsyms_fd,
                                                            .service_fd = service_fd,
                                                            .contexts_fd = fds[2],
                                                            .runtimes_fd = fds[3],
                                                            .unwind = unwind};
    start_give(start, fds, sizeof(fds) / sizeof(*fds));
}

int supervisor_start_symbolizer(struct supervisor *supervisor)
{
    struct child_start start;
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
    start_init(&start, ROLE_SYMBOLIZER, supervisor->program_fd, &supervisor->target);
    start.exec.without_network = true;
    privileges_own_account(ACCOUNT_SYMBOLIZER, &start.exec.rights);
    /* It has no right: elements of a map that it was given need none (Linux 5.19). */
    _cleanup_fd_ int kallsyms_fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
    give_symbolizer(&start, supervisor->sampling->sampler, fds[1], service_fd, kallsyms_fd);
    r = start_child(&supervisor->symbolizer, &start, &supervisor->settings->symbolizer, fds[1]);
    close(service_fd);
    return r;
}

/* ---- the reader ---- */

/* It has no control socket: the symbolizer knows when an answer is overdue. */
int supervisor_start_reader(struct supervisor *supervisor)
{
    static const struct role_settings nothing;
    uint64_t begun_ns = clock_monotonic_ns(); /* before the symbolizer can ask it */
    struct child_start start;
    int fds[2];
    int r = control_pair(fds); /* the same kind of socket */
    if (r < 0)
        return r;
    struct control_message message = {.kind = CONTROL_READER,
                                      .abandoned = (uint32_t)children_abandoned()};
    r = control_send(supervisor->symbolizer.control_fd, &message, fds[0]);
    close(fds[0]);
    if (r < 0) {
        close(fds[1]);
        return r;
    }
    start_init(&start, ROLE_READER, supervisor->program_fd, &supervisor->target);
    start.exec.without_network = true;
    privileges_own_account(ACCOUNT_READER, &start.exec.rights);
    start.exec.rights.keep = PRIVILEGE(CAP_SYS_PTRACE) | PRIVILEGE(CAP_DAC_READ_SEARCH) |
                             PRIVILEGE(CAP_CHECKPOINT_RESTORE);
    start.message.reader = (struct reader_handles){.socket = fds[1]};
    start_give(&start, &fds[1], 1);
    r = start_child(&supervisor->reader, &start, &nothing, fds[1]);
    supervisor->reader.started_ns = begun_ns;
    return r;
}

/* ---- a broker ---- */

int supervisor_execute_broker(struct supervisor *supervisor, const struct control_message *wanted,
                              int answer_fd, int alive_fd)
{
    const struct role_settings none = {.fds = NULL};
    const int fds[] = {answer_fd, alive_fd};
    struct child_start start;
    start_init(&start, ROLE_BROKER, supervisor->program_fd, &supervisor->target);
    start.exec.without_network = true;
    start.exec.detached = true;
    privileges_own_account(ACCOUNT_READER, &start.exec.rights);
    /* To act in a process's name (fs_rights.h), which is found by its root. */
    start.exec.rights.keep =
        PRIVILEGE(CAP_SYS_PTRACE) | PRIVILEGE(CAP_SETUID) | PRIVILEGE(CAP_SETGID);
    start.message.broker =
        (struct broker_handles){.answer_fd = answer_fd, .alive_fd = alive_fd, .wanted = *wanted};
    start_give(&start, fds, 2);
    pid_t pid = start_execute(&start, &none);
    buf_close(&start.fds);
    return pid < 0 ? pid : 0;
}

/* ---- who is asked ---- */

/* Files are read as the user who started this process may. Names of hosts need the network, so
 * answers from there are parsed under the account "nobody". */
pid_t supervisor_execute_config(const struct supervisor_question *question, int answer_fd)
{
    const struct role_settings settings = {.bytes = question->texts};
    bool is_names = question->kind == QUESTION_NAMES;
    struct privileges rights = {
        .uid = geteuid(), .gid = getegid(), .keep = is_names ? 0 : PRIVILEGE(CAP_DAC_READ_SEARCH)};
    struct child_start start;
    _cleanup_fd_ int program_fd = supervisor_program_open();
    if (program_fd < 0)
        return program_fd;
    if (is_names)
        privileges_own_account("nobody", &rights);
    start_init(&start, ROLE_CONFIG, program_fd, &rights);
    start.exec.as_started = question->kind == QUESTION_CONFIG;
    start.exec.without_network = !is_names;
    start.message.config =
        (struct config_handles){.question = question->kind, .answer_fd = answer_fd};
    start_give(&start, &answer_fd, 1);
    pid_t pid = start_execute(&start, &settings);
    buf_close(&start.fds);
    return pid;
}
