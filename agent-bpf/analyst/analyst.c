/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop's side of the analyst: the socket, and a timer that does scan and polls in steps of 20
 * ms. Answers that the socket does not take wait; while many wait, no request is read and no step
 * done, so a service that stands still makes the analyst stand still, not grow.
 */
#include "agent-bpf/analyst/analyst.h"
#include "agent-bpf/analyst/analyst_parts.h"
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/symbols/kallsyms.h"
#include "base/log.h"
#include "base/stats.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const limit_names[] = {
    [ANALYST_LIMIT_WORK] = "work", [ANALYST_LIMIT_PROCESSES] = "processes"};
STAT_LOSSES(queue_full, "spanprof_analyst_queue_full_total",
            "Work that the analyst left out because of a limit.",
            STAT_LABEL("what", limit_names, ANALYST_LIMITS));
STAT_LOSS(banned, "spanprof_processes_banned_total", "",
          "Looks at a process left out because it had blocked an analyst before.");

#define REQUEST_ARENA_MAX (256 * 1024) /* paths may be long */
#define SOCKET_BUFFER     (1 << 20)

struct unsent {
    struct list link;
    int fd; /* goes with it; -1 = none */
    size_t size;
    uint8_t datagram[];
};

bool analyst_congested(const struct analyst *analyst)
{
    return analyst->out_bytes > ANALYST_OUT_BYTES_MAX;
}

bool analyst_is_banned(const struct analyst *analyst, uint32_t pid)
{
    return analyst_ledger_banned(analyst->settings.ledger, pid, clock_monotonic_ns()) != 0;
}

bool analyst_skips(const struct analyst *analyst, uint32_t pid)
{
    bool skipped = analyst_is_banned(analyst, pid);
    stat_add(&banned, skipped);
    return skipped;
}

void analyst_count_full(enum analyst_limit limit)
{
    stat_add_of(&queue_full, limit, 1);
}

static void update_watch(struct analyst *analyst)
{
    uint32_t events = analyst_congested(analyst) ? 0 : EPOLLIN;
    if (!list_empty(&analyst->out))
        events |= EPOLLOUT;
    if (analyst->watch.loop && events != analyst->watch.events)
        watch_change(&analyst->watch, events);
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* fd: -1 = none. True: sent, or never to be. */
static bool try_send(struct analyst *analyst, const uint8_t *datagram, size_t size, int fd)
{
    union { /* aligned as a header is */
        char bytes[CMSG_SPACE(sizeof(fd))];
        struct cmsghdr header;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)datagram, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(fd))};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        message.msg_control = &control;
        message.msg_controllen = sizeof(control.bytes);
    }
    ssize_t n;
    do
        n = sendmsg(analyst->watch.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == ETOOMANYREFS) /* too many descriptors under way: this one is lost */
        analyst_count_full(ANALYST_LIMIT_WORK);
    return n >= 0 || (errno != EAGAIN && errno != ENOBUFS); /* the end is noticed when reading */
}

static void keep_unsent(struct analyst *analyst, const struct buf *datagram, int fd)
{
    struct unsent *unsent = NULL;
    if (fd < 0 || analyst->out_fds < ANALYST_OUT_FDS_MAX)
        unsent = calloc(1, sizeof(*unsent) + datagram->len);
    if (!unsent) {
        close_fd(fd);
        analyst_count_full(ANALYST_LIMIT_WORK);
        return;
    }
    unsent->fd = fd;
    unsent->size = datagram->len;
    memcpy(unsent->datagram, datagram->data, datagram->len);
    list_append(&analyst->out, &unsent->link);
    analyst->out_bytes += unsent->size;
    analyst->out_fds += fd >= 0;
}

void analyst_say_fd(struct analyst *analyst, const struct analyst_message *message, int fd)
{
    _cleanup_buf_ struct buf datagram = BUF_INIT(ANALYST_MESSAGE_MAX);
    if (analyst_message_encode(message, &datagram)) {
        close_fd(fd);
        analyst_count_full(ANALYST_LIMIT_WORK);
    } else if (list_empty(&analyst->out) && try_send(analyst, datagram.data, datagram.len, fd)) {
        close_fd(fd);
    } else {
        keep_unsent(analyst, &datagram, fd);
    }
}

void analyst_say(struct analyst *analyst, const struct analyst_message *message)
{
    analyst_say_fd(analyst, message, -1);
}

static void free_unsent(struct unsent *unsent)
{
    close_fd(unsent->fd);
    free(unsent);
}

static void flush(struct analyst *analyst)
{
    struct list *link;
    while ((link = list_first(&analyst->out))) {
        struct unsent *unsent = container_of(link, struct unsent, link);
        if (!try_send(analyst, unsent->datagram, unsent->size, unsent->fd))
            return;
        list_remove(link);
        analyst->out_bytes -= unsent->size;
        analyst->out_fds -= unsent->fd >= 0;
        free_unsent(unsent);
    }
}

static void serve(struct analyst *analyst, const struct analyst_message *message)
{
    switch (message->kind) {
    case ANALYST_SCAN_WANTED:
        analyst_scan_start(analyst);
        break;
    case ANALYST_PROCESS_WANTED:
        perf_maps_forget(&analyst->perf_maps, message->process.pid); /* it may have execed */
        subject_asked(analyst, message->process.pid, true, message->process.time_ns != 0);
        break;
    case ANALYST_CONTEXT_WANTED:
        subject_asked(analyst, message->process.pid, false, message->process.time_ns != 0);
        break;
    case ANALYST_PROCESS_LEFT:
        perf_maps_left(&analyst->perf_maps, message->process.pid, clock_monotonic_ns());
        subject_forget(analyst, message->process.pid);
        break;
    case ANALYST_EXECUTABLE_WANTED:
        analyst_answer_executable(analyst, &message->executable_ref);
        break;
    case ANALYST_NAMES_WANTED:
        analyst_answer_names(analyst, &message->names_wanted);
        break;
    case ANALYST_KERNEL_NAMES_WANTED:
        analyst_answer_kernel_names(analyst, &message->names_wanted);
        break;
    case ANALYST_UNWIND_WANTED:
        analyst_answer_unwind(analyst, &message->unwind_wanted);
        break;
    case ANALYST_CODE_WANTED:
        analyst_answer_code(analyst, &message->code_wanted);
        break;
    default:
        log_warn("analyst", "request of unknown kind %u", message->kind);
    }
}

static void take_request(struct analyst *analyst, size_t size)
{
    struct arena arena;
    struct analyst_message message;
    arena_init(&arena, REQUEST_ARENA_MAX);
    if (!analyst_message_decode(BYTES(analyst->datagram, size), &arena, &message))
        serve(analyst, &message);
    else
        log_warn("analyst", "request of %zu bytes not understood", size);
    arena_close(&arena);
}

static void end(struct analyst *analyst)
{
    watch_stop(&analyst->watch);
    timer_stop(&analyst->work);
    loop_stop(analyst->settings.loop);
}

static void receive(struct analyst *analyst)
{
    uint64_t until_ns = clock_monotonic_ns() + ANALYST_STEP_NS;
    while (!analyst_congested(analyst) && clock_monotonic_ns() < until_ns) {
        ssize_t n =
            recv(analyst->watch.fd, analyst->datagram, sizeof(analyst->datagram), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            end(analyst);
            return;
        }
        take_request(analyst, (size_t)n);
        heartbeat();
    }
}

/* No wake-ups but for work that is due. */
static void arm(struct analyst *analyst)
{
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t due_ns = subjects_due(analyst), tables_ns = tables_due(analyst->tables);
    due_ns = tables_ns < due_ns ? tables_ns : due_ns;
    if (analyst->kallsyms && due_ns > now_ns + ANALYST_REST_NS)
        due_ns = now_ns + ANALYST_REST_NS;
    if (analyst->scanning)
        due_ns = now_ns;
    if (analyst_congested(analyst) || due_ns == UINT64_MAX)
        timer_stop(&analyst->work); /* the socket wakes us */
    else
        timer_start(analyst->settings.loop, &analyst->work, due_ns > now_ns ? due_ns - now_ns : 0);
}

static void ready(struct watch *watch, uint32_t events)
{
    struct analyst *analyst = container_of(watch, struct analyst, watch);
    if (events & EPOLLOUT)
        flush(analyst);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        receive(analyst);
    if (!analyst->watch.loop)
        return;
    update_watch(analyst);
    arm(analyst);
}

static void work(struct timer *timer)
{
    struct analyst *analyst = container_of(timer, struct analyst, work);
    uint64_t now_ns = clock_monotonic_ns();
    subjects_poll(analyst, now_ns + ANALYST_STEP_NS);
    analyst_scan_step(analyst, now_ns + ANALYST_STEP_NS);
    analyst_rest_kernel(analyst, now_ns);
    tables_tend(analyst->tables, now_ns);
    update_watch(analyst);
    arm(analyst);
}

/* Files are kept open: the soft limit of 1024 is for programs that use select(). */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    rlim_t wanted = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    if (limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void settle_ledger(struct analyst *analyst)
{
    uint32_t pid = analyst_ledger_settle(analyst->settings.ledger, clock_monotonic_ns());
    if (pid)
        log_warn("analyst",
                 "the analyst before this one ended while it looked at process %u: "
                 "leaving that one alone for a while",
                 pid);
}

static struct analyst *new_analyst(const struct analyst_settings *settings)
{
    struct analyst *analyst = calloc(1, sizeof(*analyst));
    if (!analyst)
        return NULL;
    analyst->settings = *settings;
    analyst->watch = (struct watch){.fd = settings->socket, .events = EPOLLIN, .ready = ready};
    analyst->work = (struct timer){.fire = work};
    list_init(&analyst->out);
    for (int i = 0; i < ANALYST_DISTANCES; i++)
        list_init(&analyst->waiting[i]);
    binaries_init(&analyst->binaries, settings->lines);
    perf_maps_init(&analyst->perf_maps);
    MAP_INIT(&analyst->subjects, struct subject, pid);
    analyst->mounts.limit_bytes = PROC_MOUNTS_BYTES_MAX;
    return analyst;
}

int analyst_open(const struct analyst_settings *settings, struct analyst **out)
{
    struct analyst *analyst = new_analyst(settings);
    if (!analyst) {
        close(settings->socket);
        return -ENOMEM;
    }
    raise_file_limit();
    settle_ledger(analyst);
    attach_begin();
    int size = SOCKET_BUFFER;
    setsockopt(settings->socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    int error = tables_open(settings->unwind, &analyst->tables);
    error = error ? error : watch_start(settings->loop, &analyst->watch);
    if (error) {
        analyst_close(analyst);
        return error;
    }
    *out = analyst;
    return 0;
}

void analyst_close(struct analyst *analyst)
{
    if (!analyst)
        return;
    struct list *link;
    watch_stop(&analyst->watch);
    timer_stop(&analyst->work);
    close(analyst->watch.fd);
    while ((link = list_pop(&analyst->out)))
        free_unsent(container_of(link, struct unsent, link));
    subjects_close(analyst);
    tables_close(analyst->tables);
    binaries_close(&analyst->binaries);
    perf_maps_close(&analyst->perf_maps);
    kallsyms_close(analyst->kallsyms);
    free(analyst->scan_pids);
    buf_close(&analyst->maps);
    buf_close(&analyst->maps_again);
    buf_close(&analyst->mounts);
    buf_close(&analyst->text);
    free(analyst);
}
