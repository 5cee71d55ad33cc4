/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One poll() over signals, both children's control sockets and the news of CPUs, at least once a
 * second. The keeper keeps the rights that its children drop, so it stays small and looks at
 * nothing that comes from outside but a message's size and kind.
 */
#include "agent-bpf/keeper/keeper.h"
#include "agent-bpf/control.h"
#include "agent-bpf/keeper/keeper_parts.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_NS        NS_PER_SEC
#define BACKOFF_MIN_NS (100 * NS_PER_MS)
#define BACKOFF_MAX_NS (5 * NS_PER_SEC)
#define HEALTHY_NS     (10 * NS_PER_SEC) /* has run so long: the next backoff begins anew */
#define OBI_NS         (5 * NS_PER_SEC)
#define FILTER_NS      (2 * NS_PER_SEC)
#define LATE_NS        (2 * NS_PER_SEC) /* the keeper itself was held up: no silence is judged */

STAT_LOSS(service_restarts, "spanprof_process_restarts_total", "process=\"service\"",
          "Times that a process of spanprof was started again after it died or hung.");
STAT_LOSS(analyst_restarts, "spanprof_process_restarts_total", "process=\"analyst\"",
          "Times that a process of spanprof was started again after it died or hung.");

static void finish(struct keeper *keeper, int exit_code)
{
    keeper->done = true;
    keeper->exit_code = exit_code;
}

/* Tries again later where it fails: the reason (memory, processes, fds) may pass. */
static void start_due(struct keeper *keeper, struct child *child, int (*start)(struct keeper *),
                      uint64_t now)
{
    if (!child->due_ns || now < child->due_ns)
        return;
    int r = start(keeper);
    if (r == 0)
        return;
    log_error("keeper", "cannot start the %s: %s", child->name, strerror(-r));
    child->due_ns = now + BACKOFF_MAX_NS;
}

static void start_children(struct keeper *keeper, uint64_t now)
{
    if (keeper->stop_due_ns)
        return;
    start_due(keeper, &keeper->service, keeper_start_service, now);
    if (keeper->service.pid)
        start_due(keeper, &keeper->analyst, keeper_start_analyst, now);
}

/* ---- what happens to children ---- */

static void kill_child(struct child *child)
{
    if (child->pid)
        kill(child->pid, SIGKILL); /* reaped when SIGCHLD comes */
}

static void plan_restart(struct child *child, uint64_t now)
{
    if (now - child->started_ns > HEALTHY_NS || !child->backoff_ns)
        child->backoff_ns = BACKOFF_MIN_NS;
    else if (child->backoff_ns < BACKOFF_MAX_NS)
        child->backoff_ns *= 2;
    if (child->backoff_ns > BACKOFF_MAX_NS)
        child->backoff_ns = BACKOFF_MAX_NS;
    child->due_ns = now + child->backoff_ns;
}

static void log_end(const struct child *child, int status)
{
    unsigned delay_ms = (unsigned)(child->backoff_ns / NS_PER_MS);
    if (WIFSIGNALED(status))
        log_warn("keeper", "the %s was ended by signal %d (%s); starting it again in %u ms",
                 child->name, WTERMSIG(status), strsignal(WTERMSIG(status)), delay_ms);
    else
        log_warn("keeper", "the %s ended with code %d; starting it again in %u ms", child->name,
                 WEXITSTATUS(status), delay_ms);
}

static void service_fatal(struct keeper *keeper)
{
    if (keeper->settings->service_fatal)
        keeper->settings->service_fatal(keeper->settings->context);
    finish(keeper, 1);
}

static void service_ended(struct keeper *keeper, int status, uint64_t now)
{
    bool exited = WIFEXITED(status);
    kill_child(&keeper->analyst); /* its socket is dead; it scans anew for the next service */
    if (exited && WEXITSTATUS(status) == 0)
        finish(keeper, 0);
    else if (exited && WEXITSTATUS(status) == SERVICE_EXIT_FATAL)
        service_fatal(keeper);
    else if (keeper->stop_due_ns)
        finish(keeper, 1);
    else {
        plan_restart(&keeper->service, now);
        log_end(&keeper->service, status);
    }
}

static void analyst_ended(struct keeper *keeper, int status, uint64_t now)
{
    if (keeper->stop_due_ns)
        return;
    if (!keeper->service.pid) { /* killed with the service: no fault of its own */
        keeper->analyst.due_ns = now;
        return;
    }
    plan_restart(&keeper->analyst, now);
    log_end(&keeper->analyst, status);
}

static bool reap(struct child *child, int *status)
{
    if (!child->pid || waitpid(child->pid, status, WNOHANG) != child->pid)
        return false;
    child->pid = 0;
    keeper_close_fd(&child->control_fd);
    return true;
}

static void reap_children(struct keeper *keeper, uint64_t now)
{
    int status;
    if (reap(&keeper->service, &status))
        service_ended(keeper, status, now);
    if (reap(&keeper->analyst, &status))
        analyst_ended(keeper, status, now);
}

static void hear(struct child *child)
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
        silence_begin(&child->silence, child->pid, clock_monotonic_ns());
}

static void judge_silence(struct child *child, uint64_t now)
{
    struct silence *silence = &child->silence;
    if (!child->pid || now < silence->since_ns + child->silence_ns) /* it may be after `now` */
        return;
    struct cpu_need need;
    cpu_need_read(child->pid, &need);
    if (!silence_is_hang(silence, &need, now, child->silence_ns))
        return;
    log_warn("keeper", "nothing heard from the %s for %u s: killing it", child->name,
             (unsigned)((now - silence->since_ns) / NS_PER_SEC));
    silence->since_ns = now;
    kill_child(child);
}

/* ---- signals, CPUs, time ---- */

static void tell_service(struct keeper *keeper, const struct control_message *message, int fd)
{
    if (!keeper->service.pid)
        return;
    int r = control_send(keeper->service.control_fd, message, fd);
    if (r < 0) /* it does not read: soon taken for hung, and started with all of it */
        log_warn("keeper", "cannot reach the service: %s", strerror(-r));
}

static void stop_service(struct keeper *keeper, uint64_t now)
{
    uint64_t timeout = keeper->settings->stop_timeout_ns;
    keeper->stop_due_ns = now + (timeout ? timeout : 10 * NS_PER_SEC);
    if (!keeper->service.pid)
        finish(keeper, 0);
    tell_service(keeper, &(struct control_message){.kind = CONTROL_STOP}, -1);
}

static void on_stop(struct keeper *keeper, uint64_t now)
{
    if (keeper->reloading) { /* it stops already; and then for good */
        keeper->reloading = false;
        log_info("keeper", "stopping");
        return;
    }
    if (keeper->stop_due_ns) {
        log_warn("keeper", "second signal: ending at once");
        finish(keeper, 1);
        return;
    }
    log_info("keeper", "stopping");
    stop_service(keeper, now);
}

static void on_file_changed(void *context, size_t i)
{
    const struct keeper *keeper = context;
    const struct keeper_file *file = &keeper->settings->files[i];
    log_info("keeper", "%s has changed", file->path);
    tell_service(context, &(struct control_message){.kind = CONTROL_FILE, .file = (uint32_t)i},
                 file->fd);
}

static void look_at_files(struct keeper *keeper, bool all, uint64_t now)
{
    const struct keeper_settings *settings = keeper->settings;
    keeper_files_poll(settings->files, settings->n_files, all, now, on_file_changed, keeper);
}

static void on_reload(struct keeper *keeper, uint64_t now)
{
    const struct keeper_settings *settings = keeper->settings;
    if (keeper->reloading) /* it stops already; what it says now is what the next run is to have */
        settings->reload(settings->context);
    if (keeper->stop_due_ns)
        return;
    if (settings->reload && settings->reload(settings->context)) {
        keeper->reloading = true;
        stop_service(keeper, now);
        return;
    }
    look_at_files(keeper, true, now);
    tell_service(keeper, &(struct control_message){.kind = CONTROL_RELOAD}, -1);
}

static void on_signals(struct keeper *keeper, uint64_t now)
{
    struct signalfd_siginfo info;
    while (read(keeper->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
            on_stop(keeper, now);
        else if (info.ssi_signo == SIGHUP)
            on_reload(keeper, now);
    }
    reap_children(keeper, now);
}

static void on_cpu_came(void *context, uint32_t cpu, const struct procstream_cpu *stream)
{
    struct control_message message = {
        .kind = CONTROL_CPU_CAME, .cpu = cpu, .buffer_size = stream->buffer_size};
    log_info("keeper", "CPU %u is sampled", cpu);
    tell_service(context, &message, stream->fd);
}

static void on_cpu_went(void *context, uint32_t cpu)
{
    log_info("keeper", "CPU %u went away", cpu);
    tell_service(context, &(struct control_message){.kind = CONTROL_CPU_WENT, .cpu = cpu}, -1);
}

/* OBI's map, and the cgroups that filters name. */
static void look_around(struct keeper *keeper, uint64_t now)
{
    if (now >= keeper->obi_due_ns) {
        keeper->obi_due_ns = now + OBI_NS;
        sampler_obi_poll(keeper->sampling->sampler);
    }
    if (now >= keeper->filter_due_ns) {
        keeper->filter_due_ns = now + FILTER_NS;
        sampler_filter_poll(keeper->sampling->sampler);
    }
}

static void tend_sampler(struct keeper *keeper, uint64_t now)
{
    const pid_t pids[PACE_PROCESSES] = {keeper->service.pid, keeper->analyst.pid};
    sampler_count(keeper->sampling->sampler);
    cpu_events_update(&keeper->sampling->cpus);
    look_around(keeper, now);
    pace_update(&keeper->sampling->pace, pids, now);
}

static void hear_anew(struct keeper *keeper, uint64_t now)
{
    struct child *const children[] = {&keeper->service, &keeper->analyst};
    for (int i = 0; i < 2; i++)
        if (children[i]->pid)
            silence_begin(&children[i]->silence, children[i]->pid, now);
}

static void tick(struct keeper *keeper, uint64_t now)
{
    if (now >= keeper->tick_due_ns + LATE_NS)
        hear_anew(keeper, now);
    keeper->tick_due_ns = now + TICK_NS;
    if (keeper->sampling)
        tend_sampler(keeper, now);
    look_at_files(keeper, false, now);
    judge_silence(&keeper->service, now);
    judge_silence(&keeper->analyst, now);
    if (keeper->stop_due_ns && now >= keeper->stop_due_ns) {
        log_error("keeper", "the service did not stop in time: ending it");
        finish(keeper, 1);
    }
}

static int wait_ms(const struct keeper *keeper, uint64_t now)
{
    uint64_t due = keeper->tick_due_ns;
    const struct child *children[] = {&keeper->service, &keeper->analyst};
    for (size_t i = 0; i < 2; i++)
        if (children[i]->due_ns && children[i]->due_ns < due && children[i]->due_ns > now)
            due = children[i]->due_ns;
    return due <= now ? 0 : (int)((due - now) / NS_PER_MS) + 1;
}

static void watch(struct keeper *keeper)
{
    struct pollfd fds[] = {
        {.fd = keeper->signal_fd, .events = POLLIN},
        {.fd = keeper->service.control_fd, .events = POLLIN},
        {.fd = keeper->analyst.control_fd, .events = POLLIN},
        {.fd = keeper->sampling ? keeper->sampling->cpus.uevent_fd : -1, .events = POLLIN},
    };
    if (poll(fds, 4, wait_ms(keeper, clock_monotonic_ns())) < 0 && errno != EINTR)
        log_error("keeper", "poll: %s", strerror(errno));
    uint64_t now = clock_monotonic_ns();
    hear(&keeper->service);
    hear(&keeper->analyst);
    on_signals(keeper, now);
    if (fds[3].revents)
        cpu_events_update(&keeper->sampling->cpus);
    if (now >= keeper->tick_due_ns)
        tick(keeper, now);
    if (!keeper->done)
        start_children(keeper, now);
}

/* ---- opening and closing ---- */

static int open_signals(struct keeper *keeper)
{
    static const int wanted[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        sigaddset(&set, wanted[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    keeper->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return keeper->signal_fd < 0 ? -errno : 0;
}

static void open_sampling(struct keeper *keeper)
{
    keeper->sampling = keeper_sampling_open(keeper->settings);
    if (!keeper->sampling)
        return;
    keeper->sampling->cpus.came = on_cpu_came;
    keeper->sampling->cpus.went = on_cpu_went;
    keeper->sampling->cpus.context = keeper;
    if (keeper->settings->analyst_main)
        keeper->analyst.due_ns = 1;
}

/* Ticks go on into the ring until the next run has a service. */
static void leave_sampling(struct keeper *keeper)
{
    struct keeper_sampling *sampling = keeper->sampling;
    if (!sampling || !keeper->reloading || !keeper->settings->sampling)
        return keeper_sampling_close(sampling);
    sampling->cpus.came = NULL;
    sampling->cpus.went = NULL;
    *keeper->settings->sampling = sampling;
}

static int keeper_open(struct keeper *keeper)
{
    const struct keeper_settings *settings = keeper->settings;
    int r = stats_share();
    if (r < 0 && r != -EALREADY)
        return r;
    r = privileges_target(settings->user, settings->store_directory, &keeper->target);
    if (r < 0) {
        log_error("keeper", "service.user: %s: %s", settings->user ? settings->user : "",
                  r == -ENOENT ? "no such account" : strerror(-r));
        return r;
    }
    r = open_signals(keeper);
    if (r == 0)
        open_sampling(keeper);
    keeper->tick_due_ns = clock_monotonic_ns() + TICK_NS;
    keeper->service.due_ns = 1;
    return r;
}

static void end_child(struct child *child)
{
    int status;
    if (child->pid) {
        kill(child->pid, SIGKILL);
        while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    child->pid = 0;
    keeper_close_fd(&child->control_fd);
}

static void keeper_close(struct keeper *keeper)
{
    end_child(&keeper->service);
    end_child(&keeper->analyst);
    leave_sampling(keeper);
    keeper_close_fd(&keeper->signal_fd);
}

int keeper_run(const struct keeper_settings *settings)
{
    assert(settings->service_main && settings->n_files <= KEEPER_FILES_MAX);
    uint64_t service_silence = settings->service_silence_ns, silence = settings->analyst_silence_ns;
    struct keeper keeper = {
        .settings = settings,
        .signal_fd = -1,
        .service = {.name = "service",
                    .restarts_stat = &service_restarts,
                    .control_fd = -1,
                    .silence_ns = service_silence ? service_silence : 30 * NS_PER_SEC},
        .analyst = {.name = "analyst",
                    .restarts_stat = &analyst_restarts,
                    .control_fd = -1,
                    .silence_ns = silence ? silence : 5 * NS_PER_SEC},
    };
    int r = keeper_open(&keeper);
    if (r < 0)
        keeper.exit_code = 1;
    else
        start_children(&keeper, clock_monotonic_ns());
    while (r == 0 && !keeper.done)
        watch(&keeper);
    keeper_close(&keeper);
    return keeper.reloading ? KEEPER_RELOADED : keeper.exit_code;
}
