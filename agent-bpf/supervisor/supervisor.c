/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One poll() over signals, both children's control sockets and events of CPUs, at least once a
 * second. The supervisor keeps the rights that its children drop, so it stays small, and of what
 * comes from outside it reads only a message's size and kind.
 */
#include "agent-bpf/supervisor/supervisor.h"
#include "agent-bpf/control.h"
#include "agent-bpf/supervisor/supervisor_state.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/stats.h"
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_NS        NS_PER_SEC
#define BACKOFF_MIN_NS (100 * NS_PER_MS)
#define BACKOFF_MAX_NS (5 * NS_PER_SEC)
#define HEALTHY_NS     (10 * NS_PER_SEC) /* after such a run the backoff starts over */
#define OBI_NS         (5 * NS_PER_SEC)
#define FILTER_NS      (2 * NS_PER_SEC)
#define LATE_NS        (2 * NS_PER_SEC) /* the supervisor itself was held up: no hang is judged */

enum supervised { SUPERVISED_SERVICE, SUPERVISED_SYMBOLIZER, SUPERVISED };

static const char *const supervised_names[] = {
    [SUPERVISED_SERVICE] = "service", [SUPERVISED_SYMBOLIZER] = "symbolizer"};
STAT_LOSSES(restarts, "spanprof_process_restarts_total",
            "Times that a process of spanprof was started again after it died or hung.",
            STAT_LABEL("process", supervised_names, SUPERVISED));

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
    child->due_ns = now + BACKOFF_MAX_NS;
}

static void start_children(struct supervisor *supervisor, uint64_t now)
{
    if (supervisor->state != SUPERVISOR_RUNNING)
        return;
    child_start_due(supervisor, &supervisor->service, supervisor_start_service, now);
    if (supervisor->service.pid)
        child_start_due(supervisor, &supervisor->symbolizer, supervisor_start_symbolizer, now);
}

/* ---- what happens to children ---- */

static void child_kill(struct child *child)
{
    if (child->pid)
        kill(child->pid, SIGKILL); /* reaped when SIGCHLD comes */
}

static void child_plan_restart(struct child *child, uint64_t now)
{
    if (now - child->started_ns > HEALTHY_NS || !child->backoff_ns)
        child->backoff_ns = BACKOFF_MIN_NS;
    else if (child->backoff_ns < BACKOFF_MAX_NS)
        child->backoff_ns *= 2;
    if (child->backoff_ns > BACKOFF_MAX_NS)
        child->backoff_ns = BACKOFF_MAX_NS;
    child->due_ns = now + child->backoff_ns;
}

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
    child_kill(&supervisor->symbolizer);
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

static void symbolizer_ended(struct supervisor *supervisor, int status, uint64_t now)
{
    if (supervisor->state != SUPERVISOR_RUNNING)
        return;
    if (!supervisor->service.pid) { /* killed with the service: no fault of its own */
        supervisor->symbolizer.due_ns = now;
        return;
    }
    child_plan_restart(&supervisor->symbolizer, now);
    child_log_end(&supervisor->symbolizer, status);
}

static bool child_reap(struct child *child, int *status)
{
    if (!child->pid || waitpid(child->pid, status, WNOHANG) != child->pid)
        return false;
    child->pid = 0;
    fd_closep(&child->control_fd);
    return true;
}

static void reap_children(struct supervisor *supervisor, uint64_t now)
{
    int status;
    if (child_reap(&supervisor->service, &status))
        service_ended(supervisor, status, now);
    if (child_reap(&supervisor->symbolizer, &status))
        symbolizer_ended(supervisor, status, now);
}

static void child_hear(struct child *child)
{
    struct control_message message;
    int fd;
    bool heard = false;
    for (int i = 0; i < 64 && child->control_fd >= 0; i++) {
        int r = control_receive(child->control_fd, &message, &fd);
        if (r == CONTROL_NONE || r == CONTROL_CLOSED)
            break;
        if (fd >= 0)
            close(fd);
        heard |= r == 0 && message.kind == CONTROL_HEARTBEAT;
    }
    if (heard)
        hang_detector_reset(&child->hang, child->pid, clock_monotonic_ns());
}

static void child_check_hang(struct child *child, uint64_t now)
{
    struct hang_detector *hang = &child->hang;
    if (!child->pid || now < hang->since_ns + child->hang_ns) /* it may be after `now` */
        return;
    struct cpu_need need;
    cpu_need_read(child->pid, &need);
    if (!hang_detector_is_hang(hang, &need, now, child->hang_ns))
        return;
    log_warn("supervisor", "nothing heard from the %s for %u s: killing it", child->name,
             (unsigned)((now - hang->since_ns) / NS_PER_SEC));
    hang->since_ns = now;
    child_kill(child);
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

static void supervisor_poll_files(struct supervisor *supervisor, bool all, uint64_t now)
{
    const struct supervisor_settings *settings = supervisor->settings;
    supervisor_files_poll(settings->files, settings->n_files, all, now, on_file_changed,
                          supervisor);
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
    supervisor_poll_files(supervisor, true, now);
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
    const pid_t pids[SAMPLING_RATE_PROCESSES] = {supervisor->service.pid,
                                                 supervisor->symbolizer.pid};
    sampler_count(supervisor->sampling->sampler);
    cpu_events_update(&supervisor->sampling->cpus);
    sampler_poll(supervisor, now);
    sampling_rate_update(&supervisor->sampling->sampling_rate, pids, now);
}

static void hang_detectors_reset(struct supervisor *supervisor, uint64_t now)
{
    struct child *const children[] = {&supervisor->service, &supervisor->symbolizer};
    for (int i = 0; i < 2; i++)
        if (children[i]->pid)
            hang_detector_reset(&children[i]->hang, children[i]->pid, now);
}

static void supervisor_tick(struct supervisor *supervisor, uint64_t now)
{
    if (now >= supervisor->tick_due_ns + LATE_NS)
        hang_detectors_reset(supervisor, now);
    supervisor->tick_due_ns = now + TICK_NS;
    if (supervisor->sampling)
        sampler_tend(supervisor, now);
    supervisor_poll_files(supervisor, false, now);
    child_check_hang(&supervisor->service, now);
    child_check_hang(&supervisor->symbolizer, now);
    if (supervisor->state != SUPERVISOR_RUNNING && now >= supervisor->stop_due_ns) {
        log_error("supervisor", "the service did not stop in time: ending it");
        supervisor_end(supervisor, 1);
    }
}

static int wait_ms(const struct supervisor *supervisor, uint64_t now)
{
    uint64_t due = supervisor->tick_due_ns;
    const struct child *children[] = {&supervisor->service, &supervisor->symbolizer};
    for (size_t i = 0; i < 2; i++)
        if (children[i]->due_ns && children[i]->due_ns < due && children[i]->due_ns > now)
            due = children[i]->due_ns;
    return due <= now ? 0 : (int)((due - now) / NS_PER_MS) + 1;
}

static void supervisor_watch(struct supervisor *supervisor)
{
    struct pollfd fds[] = {
        {.fd = supervisor->signal_fd, .events = POLLIN},
        {.fd = supervisor->service.control_fd, .events = POLLIN},
        {.fd = supervisor->symbolizer.control_fd, .events = POLLIN},
        {.fd = supervisor->sampling ? supervisor->sampling->cpus.uevent_fd : -1, .events = POLLIN},
    };
    if (poll(fds, 4, wait_ms(supervisor, clock_monotonic_ns())) < 0 && errno != EINTR)
        log_error("supervisor", "poll: %s", strerror(errno));
    uint64_t now = clock_monotonic_ns();
    child_hear(&supervisor->service);
    child_hear(&supervisor->symbolizer);
    on_signals(supervisor, now);
    if (fds[3].revents)
        cpu_events_update(&supervisor->sampling->cpus);
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
    if (supervisor->settings->symbolizer_main)
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
    if (r < 0) {
        log_error("supervisor", "service.user: %s: %s", settings->user ? settings->user : "",
                  r == -ENOENT ? "no such account" : strerror(-r));
        return r;
    }
    r = open_signals(supervisor);
    if (r == 0)
        open_sampling(supervisor);
    supervisor->tick_due_ns = clock_monotonic_ns() + TICK_NS;
    supervisor->service.due_ns = 1;
    return r;
}

static void child_end(struct child *child)
{
    int status;
    if (child->pid) {
        kill(child->pid, SIGKILL);
        while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    child->pid = 0;
    fd_closep(&child->control_fd);
}

static void supervisor_close(struct supervisor *supervisor)
{
    child_end(&supervisor->service);
    child_end(&supervisor->symbolizer);
    sampling_hand_over(supervisor);
    fd_closep(&supervisor->signal_fd);
}

int supervisor_run(const struct supervisor_settings *settings)
{
    assert(settings->service_main && settings->n_files <= SUPERVISOR_FILES_MAX);
    uint64_t service_hang_ns = settings->service_hang_ns, hang = settings->symbolizer_hang_ns;
    struct supervisor supervisor = {
        .settings = settings,
        .signal_fd = -1,
        .service = {.name = "service",
                    .restarts_stat = {&restarts, SUPERVISED_SERVICE},
                    .control_fd = -1,
                    .hang_ns = service_hang_ns ? service_hang_ns : 30 * NS_PER_SEC},
        .symbolizer = {.name = "symbolizer",
                       .restarts_stat = {&restarts, SUPERVISED_SYMBOLIZER},
                       .control_fd = -1,
                       .hang_ns = hang ? hang : 5 * NS_PER_SEC},
    };
    int r = supervisor_open(&supervisor);
    if (r < 0)
        supervisor.exit_code = 1;
    else
        start_children(&supervisor, clock_monotonic_ns());
    while (r == 0 && !supervisor_has_ended(&supervisor))
        supervisor_watch(&supervisor);
    supervisor_close(&supervisor);
    return supervisor.state == SUPERVISOR_ENDED_TO_RELOAD ? SUPERVISOR_RELOADED
                                                          : supervisor.exit_code;
}
