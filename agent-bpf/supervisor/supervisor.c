/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One poll() over signals, both children's control sockets and events of CPUs, at least once a
 * second. The supervisor keeps the rights that its children drop, so it stays small, and of what
 * comes from outside it reads only a message's size and kind.
 */
#include "agent-bpf/supervisor/supervisor.h"
#include "agent-bpf/control.h"
#include "agent-bpf/sampler/sampler.h"
#include "agent-bpf/supervisor/supervisor_exec.h"
#include "agent-bpf/supervisor/supervisor_notify.h"
#include "agent-bpf/supervisor/supervisor_state.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/stats.h"
#include <assert.h>
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the supervisor uses as long as it runs: to open perf events of CPUs that come, and the
 * sampler of another configuration (large buffers want CAP_IPC_LOCK); to start its children, with
 * the three that the reader keeps and addresses of /proc/kallsyms for the symbolizer, and to end
 * them; to open the ports and give away the store of another configuration. What a start may need
 * beyond that, it has before supervisor_run(). CAP_SYS_ADMIN stays where perf events ask for it;
 * elsewhere only the first children begin in empty network namespaces.
 */
#define RIGHTS                                                                                     \
    (PRIVILEGE(CAP_BPF) | PRIVILEGE(CAP_PERFMON) | PRIVILEGE(CAP_SYS_ADMIN) |                      \
     PRIVILEGE(CAP_IPC_LOCK) | PRIVILEGE(CAP_SYSLOG) | PRIVILEGE(CAP_SYS_PTRACE) |                 \
     PRIVILEGE(CAP_CHECKPOINT_RESTORE) | PRIVILEGE(CAP_DAC_READ_SEARCH) | PRIVILEGE(CAP_SETUID) |  \
     PRIVILEGE(CAP_SETGID) | PRIVILEGE(CAP_SETPCAP) | PRIVILEGE(CAP_KILL) | PRIVILEGE(CAP_CHOWN) | \
     PRIVILEGE(CAP_NET_BIND_SERVICE))
#define TICK_NS           NS_PER_SEC
#define START_AGAIN_NS    (5 * NS_PER_SEC) /* a start that failed */
#define OBI_NS            (5 * NS_PER_SEC)
#define FILTER_NS         (2 * NS_PER_SEC)
#define READERS_LEFT_MAX  8                /* more lost readers than that have no successor */
#define READER_STARVED_NS (5 * NS_PER_SEC) /* an answer may take as long if there is no CPU */
#define LATE_NS           (2 * NS_PER_SEC) /* the supervisor itself was held up: no hang is judged */

LIMIT(supervisor, LIMIT_SUPERVISOR,
      "program, configuration, certificates, processes that hang over them", .bytes = 6u << 20);
LIMIT(readers, LIMIT_SUPERVISOR, "the reader, and those that hang",
      .bytes = (1 + READERS_LEFT_MAX) * (UINT64_C(1) << 20));

enum supervisor_event {
    SUPERVISOR_STOP,   /* SIGTERM, SIGINT */
    SUPERVISOR_RELOAD, /* SIGHUP, and settings.reload() has other settings */
    SUPERVISOR_END,    /* the service has ended and is not started again */
    SUPERVISOR_EVENTS,
};

/* A second SIGTERM ends at once. One while reloading makes a stop of it. */
/* clang-format off */
static const enum supervisor_state state_after[SUPERVISOR_EVENTS][SUPERVISOR_ENDED] = {
    /*                      RUNNING               STOPPING             RELOADING */
    [SUPERVISOR_STOP] =   {SUPERVISOR_STOPPING,  SUPERVISOR_ENDED,    SUPERVISOR_STOPPING},
    [SUPERVISOR_RELOAD] = {SUPERVISOR_RELOADING, SUPERVISOR_STOPPING, SUPERVISOR_RELOADING},
    [SUPERVISOR_END] =    {SUPERVISOR_ENDED,     SUPERVISOR_ENDED,    SUPERVISOR_ENDED_TO_RELOAD},
};
/* clang-format on */

static bool supervisor_has_ended(const struct supervisor *supervisor)
{
    return supervisor->state >= SUPERVISOR_ENDED;
}

static void supervisor_event(struct supervisor *supervisor, enum supervisor_event event)
{
    if (!supervisor_has_ended(supervisor))
        supervisor->state = state_after[event][supervisor->state];
}

static void supervisor_end(struct supervisor *supervisor, int exit_code)
{
    supervisor_event(supervisor, SUPERVISOR_END);
    supervisor->exit_code = exit_code;
}

/* If it fails it is tried again later: the reason (memory, processes, fds) may pass. */
static void child_start_due(struct supervisor *supervisor, struct child *child,
                            int (*start)(struct supervisor *), uint64_t now)
{
    if (!child->due_ns || now < child->due_ns)
        return;
    int r = start(supervisor);
    if (r == 0)
        return;
    log_error("supervisor", "cannot start the %s: %s", child->name, strerror(-r));
    child->due_ns = now + START_AGAIN_NS;
}

static void start_children(struct supervisor *supervisor, uint64_t now)
{
    if (supervisor->state != SUPERVISOR_RUNNING)
        return;
    child_start_due(supervisor, &supervisor->service, supervisor_start_service, now);
    if (supervisor->service.pid && !supervisor->symbolizer.pid) {
        child_start_due(supervisor, &supervisor->symbolizer, supervisor_start_symbolizer, now);
        if (supervisor->symbolizer.pid && supervisor->settings->reader)
            supervisor->reader.due_ns = now;
    }
    if (supervisor->symbolizer.pid && children_left(SUPERVISED_READER) < READERS_LEFT_MAX)
        child_start_due(supervisor, &supervisor->reader, supervisor_start_reader, now);
}

/* ---- what happens to children ---- */

static void child_log_end(const struct child *child, int status)
{
    unsigned delay_ms = (unsigned)(child->backoff_ns / NS_PER_MS);
    if (WIFSIGNALED(status))
        log_warn("supervisor", "the %s was ended by signal %d (%s); starting it again in %u ms",
                 child->name, WTERMSIG(status), strsignal(WTERMSIG(status)), delay_ms);
    else
        log_warn("supervisor", "the %s ended with code %d; starting it again in %u ms", child->name,
                 WEXITSTATUS(status), delay_ms);
}

static void service_ended(struct supervisor *supervisor, int status, uint64_t now)
{
    bool exited = WIFEXITED(status);
    /* Its socket to the service is dead. The next symbolizer scans again for the next service. */
    child_kill(&supervisor->symbolizer, now);
    if (exited && WEXITSTATUS(status) == 0)
        supervisor_end(supervisor, 0);
    else if (supervisor->state != SUPERVISOR_RUNNING)
        supervisor_end(supervisor, 1);
    else if (exited && WEXITSTATUS(status) == SERVICE_EXIT_FATAL) {
        if (supervisor->settings->service_fatal)
            supervisor->settings->service_fatal(supervisor->settings->context);
        supervisor_end(supervisor, 1);
    } else {
        child_plan_restart(&supervisor->service, now);
        child_log_end(&supervisor->service, status);
    }
}

/* Its reader goes with it: their socket is dead. */
static void symbolizer_ended(struct supervisor *supervisor, int status, uint64_t now)
{
    (void)child_leave(&supervisor->reader, now);
    supervisor->reader.due_ns = 0;
    if (supervisor->state != SUPERVISOR_RUNNING)
        return;
    if (!supervisor->service.pid) { /* killed with the service: no fault of its own */
        supervisor->symbolizer.due_ns = now;
        return;
    }
    child_plan_restart(&supervisor->symbolizer, now);
    child_log_end(&supervisor->symbolizer, status);
}

static void reader_ended(struct supervisor *supervisor, int status, uint64_t now)
{
    if (supervisor->state != SUPERVISOR_RUNNING || !supervisor->symbolizer.pid)
        return;
    child_plan_restart(&supervisor->reader, now);
    child_log_end(&supervisor->reader, status);
}

static void reap_children(struct supervisor *supervisor, uint64_t now)
{
    int status;
    if (child_reap(&supervisor->service, now, &status))
        service_ended(supervisor, status, now);
    if (child_reap(&supervisor->symbolizer, now, &status))
        symbolizer_ended(supervisor, status, now);
    if (child_reap(&supervisor->reader, now, &status))
        reader_ended(supervisor, status, now);
    children_reap_left(now);
}

/* A message of a child. The symbolizer alone asks for something. */
static void child_answer(struct supervisor *supervisor, const struct child *child,
                         const struct control_message *message, int fd)
{
    if (child == &supervisor->symbolizer && message->kind == CONTROL_CONNECT && fd >= 0)
        supervisor_broker_start(supervisor, message, fd);
    else
        fd_close(fd);
}

/* Waiting for a CPU is no hang, as long as it lasts seconds and not more. */
static bool reader_hangs(const struct supervisor *supervisor, uint64_t asked_ns, uint64_t now)
{
    struct cpu_need need;
    cpu_need_read(supervisor->reader.pid, &need);
    return !need.runnable || now >= asked_ns + READER_STARVED_NS;
}

/* The symbolizer has waited too long for an answer. It gets another reader at once: the lost one
 * need not have died. */
static void reader_overdue(struct supervisor *supervisor, uint64_t asked_ns)
{
    struct child *reader = &supervisor->reader;
    uint64_t now = clock_monotonic_ns();
    if (!reader->pid || asked_ns < reader->started_ns || !reader_hangs(supervisor, asked_ns, now))
        return;
    if (!child_leave(reader, now))
        return;
    reader->due_ns = now;
    (void)control_send(supervisor->symbolizer.control_fd,
                       &(struct control_message){.kind = CONTROL_READER,
                                                 .abandoned = (uint32_t)children_abandoned()},
                       -1);
}

static void child_hear(struct supervisor *supervisor, struct child *child)
{
    struct control_message message;
    int fd;
    bool heard = false;
    for (int i = 0; i < 64 && child->control_fd >= 0; i++) {
        int r = control_receive(child->control_fd, &message, &fd);
        if (r == CONTROL_NONE || r == CONTROL_CLOSED)
            break;
        if (r == 0)
            child_answer(supervisor, child, &message, fd);
        heard |= r == 0 && message.kind == CONTROL_HEARTBEAT;
        if (r == 0 && message.kind == CONTROL_READER_OVERDUE &&
            child->role == SUPERVISED_SYMBOLIZER)
            reader_overdue(supervisor, message.asked_ns);
    }
    if (heard)
        hang_detector_reset(&child->hang, child->pid, clock_monotonic_ns());
}

static void child_check_hang(struct child *child, uint64_t now)
{
    struct hang_detector *hang = &child->hang;
    if (!child->pid || !child->hang_ns || child->killed_ns ||
        now < hang->since_ns + child->hang_ns) /* it may be after `now` */
        return;
    struct cpu_need need;
    cpu_need_read(child->pid, &need);
    if (!hang_detector_is_hang(hang, &need, now, child->hang_ns))
        return;
    log_warn("supervisor", "nothing heard from the %s for %u s: killing it", child->name,
             (unsigned)((now - hang->since_ns) / NS_PER_SEC));
    child_kill(child, now);
}

/* ---- signals, CPUs, time ---- */

static void service_send(struct supervisor *supervisor, const struct control_message *message,
                         int fd)
{
    if (!supervisor->service.pid)
        return;
    int r = control_send(supervisor->service.control_fd, message, fd);
    if (r < 0) /* it does not read: it will be taken for hung, and started again */
        log_warn("supervisor", "cannot reach the service: %s", strerror(-r));
}

static void stop_service(struct supervisor *supervisor, uint64_t now)
{
    uint64_t timeout = supervisor->settings->stop_timeout_ns;
    supervisor->stop_due_ns = now + (timeout ? timeout : 10 * NS_PER_SEC);
    if (!supervisor->service.pid)
        supervisor_end(supervisor, 0);
    service_send(supervisor, &(struct control_message){.kind = CONTROL_STOP}, -1);
}

static void on_stop(struct supervisor *supervisor, uint64_t now)
{
    enum supervisor_state before = supervisor->state;
    supervisor_event(supervisor, SUPERVISOR_STOP);
    if (before == SUPERVISOR_STOPPING) {
        log_warn("supervisor", "second signal: ending at once");
        supervisor->exit_code = 1;
        return;
    }
    log_info("supervisor", "stopping");
    if (before == SUPERVISOR_RUNNING)
        stop_service(supervisor, now);
}

static void on_file_changed(void *context, size_t i)
{
    const struct supervisor *supervisor = context;
    const struct supervisor_file *file = &supervisor->settings->files[i];
    log_info("supervisor", "%s has changed", file->path);
    service_send(context, &(struct control_message){.kind = CONTROL_FILE, .file = (uint32_t)i},
                 file->fd);
}

static void on_reload(struct supervisor *supervisor, uint64_t now)
{
    const struct supervisor_settings *settings = supervisor->settings;
    /* The settings of the next run may change once more. */
    if (supervisor->state == SUPERVISOR_RELOADING ||
        supervisor->state == SUPERVISOR_ENDED_TO_RELOAD)
        settings->reload(settings->context);
    if (supervisor->state != SUPERVISOR_RUNNING)
        return;
    if (settings->reload && settings->reload(settings->context)) {
        supervisor_event(supervisor, SUPERVISOR_RELOAD);
        stop_service(supervisor, now);
        return;
    }
    files_reading_all(&supervisor->files);
    files_reading_tend(&supervisor->files, now);
    service_send(supervisor, &(struct control_message){.kind = CONTROL_RELOAD}, -1);
}

static void on_signals(struct supervisor *supervisor, uint64_t now)
{
    struct signalfd_siginfo info;
    while (read(supervisor->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
            on_stop(supervisor, now);
        else if (info.ssi_signo == SIGHUP)
            on_reload(supervisor, now);
    }
    reap_children(supervisor, now);
}

static void on_cpu_came(void *context, uint32_t cpu, const struct procstream_cpu *stream)
{
    struct control_message message = {
        .kind = CONTROL_CPU_CAME, .cpu = cpu, .buffer_size = stream->buffer_size};
    log_info("supervisor", "CPU %u is sampled", cpu);
    service_send(context, &message, stream->fd);
}

static void on_cpu_went(void *context, uint32_t cpu)
{
    log_info("supervisor", "CPU %u went away", cpu);
    service_send(context, &(struct control_message){.kind = CONTROL_CPU_WENT, .cpu = cpu}, -1);
}

/* OBI's map, and the cgroups that filters name. */
static void sampler_poll(struct supervisor *supervisor, uint64_t now)
{
    if (now >= supervisor->obi_due_ns) {
        supervisor->obi_due_ns = now + OBI_NS;
        sampler_obi_poll(supervisor->sampling->sampler);
    }
    if (now >= supervisor->filter_due_ns) {
        supervisor->filter_due_ns = now + FILTER_NS;
        sampler_filter_poll(supervisor->sampling->sampler);
    }
}

static void sampler_tend(struct supervisor *supervisor, uint64_t now)
{
    const pid_t pids[SAMPLING_RATE_PROCESSES] = {
        supervisor->service.pid, supervisor->symbolizer.pid, supervisor->reader.pid};
    sampler_count(supervisor->sampling->sampler);
    cpu_events_update(&supervisor->sampling->cpus);
    sampler_poll(supervisor, now);
    sampling_rate_update(&supervisor->sampling->sampling_rate, pids, now);
}

static void hang_detectors_reset(struct supervisor *supervisor, uint64_t now)
{
    for (int i = 0; i < SUPERVISED; i++) {
        struct child *child = &supervisor->children[i];
        if (child->pid)
            hang_detector_reset(&child->hang, child->pid, now);
    }
}

static void supervisor_tick(struct supervisor *supervisor, uint64_t now)
{
    if (now >= supervisor->tick_due_ns + LATE_NS)
        hang_detectors_reset(supervisor, now);
    supervisor->tick_due_ns = now + TICK_NS;
    supervisor_notify_alive(now);
    if (supervisor->sampling)
        sampler_tend(supervisor, now);
    files_reading_tend(&supervisor->files, now);
    for (int i = 0; i < SUPERVISED; i++)
        child_check_hang(&supervisor->children[i], now);
    reap_children(supervisor, now);
    if (supervisor->state != SUPERVISOR_RUNNING && now >= supervisor->stop_due_ns) {
        log_error("supervisor", "the service did not stop in time: ending it");
        supervisor_end(supervisor, 1);
    }
}

static int wait_ms(const struct supervisor *supervisor, uint64_t now)
{
    uint64_t due = supervisor->tick_due_ns;
    for (int i = 0; i < SUPERVISED; i++) {
        uint64_t child_due_ns = child_due(&supervisor->children[i]);
        if (child_due_ns > now && child_due_ns < due)
            due = child_due_ns;
    }
    return due <= now ? 0 : (int)((due - now) / NS_PER_MS) + 1;
}

static void supervisor_watch(struct supervisor *supervisor)
{
    struct pollfd fds[] = {
        {.fd = supervisor->signal_fd, .events = POLLIN},
        {.fd = supervisor->service.control_fd, .events = POLLIN},
        {.fd = supervisor->symbolizer.control_fd, .events = POLLIN},
        {.fd = supervisor->sampling ? supervisor->sampling->cpus.uevent_fd : -1, .events = POLLIN},
        {.fd = files_reading_fd(&supervisor->files), .events = POLLIN},
    };
    if (poll(fds, 5, wait_ms(supervisor, clock_monotonic_ns())) < 0 && errno != EINTR)
        log_error("supervisor", "poll: %s", strerror(errno));
    uint64_t now = clock_monotonic_ns();
    for (int i = 0; i < SUPERVISED; i++)
        child_hear(supervisor, &supervisor->children[i]);
    on_signals(supervisor, now);
    if (fds[3].revents)
        cpu_events_update(&supervisor->sampling->cpus);
    if (fds[4].revents)
        files_reading_tend(&supervisor->files, now);
    if (now >= supervisor->tick_due_ns)
        supervisor_tick(supervisor, now);
    if (!supervisor_has_ended(supervisor))
        start_children(supervisor, now);
}

/* ---- opening and closing ---- */

static int open_signals(struct supervisor *supervisor)
{
    static const int wanted[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        sigaddset(&set, wanted[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    supervisor->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return supervisor->signal_fd < 0 ? -errno : 0;
}

static void open_sampling(struct supervisor *supervisor)
{
    supervisor->sampling = supervisor_sampling_open(supervisor->settings);
    if (!supervisor->sampling)
        return;
    supervisor->sampling->cpus.came = on_cpu_came;
    supervisor->sampling->cpus.went = on_cpu_went;
    supervisor->sampling->cpus.context = supervisor;
    supervisor->symbolizer.due_ns = 1;
}

/* A sampler that is handed over keeps sampling into the ring until the next run has a service. */
static void sampling_hand_over(struct supervisor *supervisor)
{
    struct supervisor_sampling *sampling = supervisor->sampling;
    if (!sampling || supervisor->state != SUPERVISOR_ENDED_TO_RELOAD ||
        !supervisor->settings->sampling)
        return supervisor_sampling_close(sampling);
    sampling->cpus.came = NULL;
    sampling->cpus.went = NULL;
    *supervisor->settings->sampling = sampling;
}

static int supervisor_open(struct supervisor *supervisor)
{
    const struct supervisor_settings *settings = supervisor->settings;
    int r = stats_share();
    if (r < 0 && r != -EALREADY)
        return r;
    r = privileges_target(settings->user, settings->store_directory, &supervisor->target);
    if (r != 0) {
        log_error("supervisor", "service.user: %s: %s", settings->user ? settings->user : "",
                  r == PRIVILEGES_OF_ROOT ? "the service does not run as root: name another account"
                  : r == -ENOENT          ? "no such account"
                                          : strerror(-r));
        return r < 0 ? r : -EINVAL;
    }
    supervisor_notify_open();
    supervisor_outlive_children();
    r = privileges_limit(RIGHTS);
    if (r < 0)
        return r;
    supervisor->program_fd = r = supervisor_program_open();
    if (r >= 0)
        r = open_signals(supervisor);
    if (r == 0)
        open_sampling(supervisor);
    supervisor->tick_due_ns = clock_monotonic_ns() + TICK_NS;
    supervisor->service.due_ns = 1;
    return r;
}

static void supervisor_close(struct supervisor *supervisor)
{
    files_reading_close(&supervisor->files);
    children_end(supervisor->children, SUPERVISED);
    supervisor_brokers_close(&supervisor->brokers);
    sampling_hand_over(supervisor);
    fd_closep(&supervisor->signal_fd);
    fd_closep(&supervisor->program_fd);
}

int supervisor_run(const struct supervisor_settings *settings)
{
    assert(settings->n_files <= SUPERVISOR_FILES_MAX);
    uint64_t service_hang_ns = settings->service_hang_ns, hang = settings->symbolizer_hang_ns;
    struct supervisor supervisor = {.settings = settings, .program_fd = -1, .signal_fd = -1};
    supervisor.files = (struct files_reading){.files = settings->files,
                                              .n = settings->n_files,
                                              .changed = on_file_changed,
                                              .context = &supervisor};
    child_init(&supervisor.service, SUPERVISED_SERVICE,
               service_hang_ns ? service_hang_ns : 30 * NS_PER_SEC);
    child_init(&supervisor.symbolizer, SUPERVISED_SYMBOLIZER, hang ? hang : 5 * NS_PER_SEC);
    child_init(&supervisor.reader, SUPERVISED_READER, 0);
    int r = supervisor_open(&supervisor);
    if (r == 0)
        start_children(&supervisor, clock_monotonic_ns());
    if (r == 0 && !sampler_wants_admin())
        r = privileges_limit(RIGHTS & ~PRIVILEGE(CAP_SYS_ADMIN));
    if (r < 0)
        supervisor.exit_code = 1;
    while (r == 0 && !supervisor_has_ended(&supervisor))
        supervisor_watch(&supervisor);
    supervisor_close(&supervisor);
    return supervisor.state == SUPERVISOR_ENDED_TO_RELOAD ? SUPERVISOR_RELOADED
                                                          : supervisor.exit_code;
}
