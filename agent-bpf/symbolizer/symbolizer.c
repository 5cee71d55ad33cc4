/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop's side of the symbolizer: the socket, and a timer that does scan and polls in steps of
 * 20 ms. Answers that the socket does not take wait; while many wait, no request is read and no
 * step done, so a service that stands still makes the symbolizer stand still, not grow.
 */
#include "agent-bpf/symbolizer/symbolizer.h"
#include "agent-bpf/symbolizer/symbolizer_parts.h"
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/symbols/kallsyms.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/stats.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const limit_names[] = {
    [SYMBOLIZER_LIMIT_WORK] = "work", [SYMBOLIZER_LIMIT_PROCESSES] = "processes"};
STAT_LOSSES(queue_full, "spanprof_symbolizer_queue_full_total",
            "Work that the symbolizer left out because of a limit.",
            STAT_LABEL("what", limit_names, SYMBOLIZER_LIMITS));
STAT_LOSS(banned, "spanprof_processes_banned_total",
          "Looks at a process left out because it had blocked a symbolizer before.");

#define REQUEST_ARENA_MAX (256 * 1024) /* paths may be long */
#define SOCKET_BUFFER     (1 << 20)

struct unsent {
    struct list link;
    int fd; /* goes with it; -1 = none */
    size_t size;
    uint8_t datagram[];
};

bool symbolizer_congested(const struct symbolizer *symbolizer)
{
    return symbolizer->out_bytes > SYMBOLIZER_OUT_BYTES_MAX;
}

bool symbolizer_is_banned(const struct symbolizer *symbolizer, uint32_t pid)
{
    return symbolizer_ledger_banned(symbolizer->settings.ledger, pid, clock_monotonic_ns()) != 0;
}

bool symbolizer_skips(const struct symbolizer *symbolizer, uint32_t pid)
{
    bool skipped = symbolizer_is_banned(symbolizer, pid);
    stat_add(&banned, skipped);
    return skipped;
}

void symbolizer_count_full(enum symbolizer_limit limit)
{
    stat_add_of(&queue_full, limit, 1);
}

static void update_watch(struct symbolizer *symbolizer)
{
    uint32_t events = symbolizer_congested(symbolizer) ? 0 : EPOLLIN;
    if (!list_empty(&symbolizer->out))
        events |= EPOLLOUT;
    if (symbolizer->watch.loop && events != symbolizer->watch.events)
        watch_change(&symbolizer->watch, events);
}

/* fd: -1 = none. True: sent, or never to be. */
static bool try_send(struct symbolizer *symbolizer, const uint8_t *datagram, size_t size, int fd)
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
        n = sendmsg(symbolizer->watch.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == ETOOMANYREFS) /* too many descriptors under way: this one is lost */
        symbolizer_count_full(SYMBOLIZER_LIMIT_WORK);
    return n >= 0 || (errno != EAGAIN && errno != ENOBUFS); /* the end is noticed when reading */
}

static void keep_unsent(struct symbolizer *symbolizer, const struct buf *datagram, int fd)
{
    struct unsent *unsent = NULL;
    if (fd < 0 || symbolizer->out_fds < SYMBOLIZER_OUT_FDS_MAX)
        unsent = calloc(1, sizeof(*unsent) + datagram->len);
    if (!unsent) {
        fd_close(fd);
        symbolizer_count_full(SYMBOLIZER_LIMIT_WORK);
        return;
    }
    unsent->fd = fd;
    unsent->size = datagram->len;
    memcpy(unsent->datagram, datagram->data, datagram->len);
    list_append(&symbolizer->out, &unsent->link);
    symbolizer->out_bytes += unsent->size;
    symbolizer->out_fds += fd >= 0;
}

void symbolizer_say_fd(struct symbolizer *symbolizer, const struct symbolizer_message *message,
                       int fd)
{
    _cleanup_buf_ struct buf datagram = BUF_INIT(SYMBOLIZER_MESSAGE_MAX);
    if (symbolizer_message_encode(message, &datagram)) {
        fd_close(fd);
        symbolizer_count_full(SYMBOLIZER_LIMIT_WORK);
    } else if (list_empty(&symbolizer->out) &&
               try_send(symbolizer, datagram.data, datagram.len, fd)) {
        fd_close(fd);
    } else {
        keep_unsent(symbolizer, &datagram, fd);
    }
}

void symbolizer_say(struct symbolizer *symbolizer, const struct symbolizer_message *message)
{
    symbolizer_say_fd(symbolizer, message, -1);
}

static void free_unsent(struct unsent *unsent)
{
    fd_close(unsent->fd);
    free(unsent);
}

static void flush(struct symbolizer *symbolizer)
{
    struct list *link;
    while ((link = list_first(&symbolizer->out))) {
        struct unsent *unsent = container_of(link, struct unsent, link);
        if (!try_send(symbolizer, unsent->datagram, unsent->size, unsent->fd))
            return;
        list_remove(link);
        symbolizer->out_bytes -= unsent->size;
        symbolizer->out_fds -= unsent->fd >= 0;
        free_unsent(unsent);
    }
}

static void serve(struct symbolizer *symbolizer, const struct symbolizer_message *message)
{
    switch (message->kind) {
    case SYMBOLIZER_SCAN_WANTED:
        symbolizer_scan_start(symbolizer);
        break;
    case SYMBOLIZER_PROCESS_WANTED:
        perf_maps_forget(&symbolizer->perf_maps, message->process.pid); /* it may have execed */
        subject_asked(symbolizer, message->process.pid, true, message->process.time_ns != 0);
        break;
    case SYMBOLIZER_CONTEXT_WANTED:
        subject_asked(symbolizer, message->process.pid, false, message->process.time_ns != 0);
        break;
    case SYMBOLIZER_PROCESS_LEFT:
        perf_maps_left(&symbolizer->perf_maps, message->process.pid, clock_monotonic_ns());
        subject_forget(symbolizer, message->process.pid);
        break;
    case SYMBOLIZER_EXECUTABLE_WANTED:
        symbolizer_answer_executable(symbolizer, &message->executable_ref);
        break;
    case SYMBOLIZER_NAMES_WANTED:
        symbolizer_answer_names(symbolizer, &message->names_wanted);
        break;
    case SYMBOLIZER_KERNEL_NAMES_WANTED:
        symbolizer_answer_kernel_names(symbolizer, &message->names_wanted);
        break;
    case SYMBOLIZER_UNWIND_WANTED:
        symbolizer_answer_unwind(symbolizer, &message->unwind_wanted);
        break;
    case SYMBOLIZER_CODE_WANTED:
        symbolizer_answer_code(symbolizer, &message->code_wanted);
        break;
    default:
        log_warn("symbolizer", "request of unknown kind %u", message->kind);
    }
}

static void take_request(struct symbolizer *symbolizer, size_t size)
{
    struct arena arena;
    struct symbolizer_message message;
    arena_init(&arena, REQUEST_ARENA_MAX);
    if (!symbolizer_message_decode(BYTES(symbolizer->datagram, size), &arena, &message))
        serve(symbolizer, &message);
    else
        log_warn("symbolizer", "request of %zu bytes not understood", size);
    arena_close(&arena);
}

static void end(struct symbolizer *symbolizer)
{
    watch_stop(&symbolizer->watch);
    timer_stop(&symbolizer->work);
    loop_stop(symbolizer->settings.loop);
}

static void receive(struct symbolizer *symbolizer)
{
    uint64_t until_ns = clock_monotonic_ns() + SYMBOLIZER_STEP_NS;
    while (!symbolizer_congested(symbolizer) && clock_monotonic_ns() < until_ns) {
        ssize_t n = recv(symbolizer->watch.fd, symbolizer->datagram, sizeof(symbolizer->datagram),
                         MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            end(symbolizer);
            return;
        }
        take_request(symbolizer, (size_t)n);
        heartbeat();
    }
}

/* No wake-ups but for work that is due. */
static void arm(struct symbolizer *symbolizer)
{
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t due_ns = subjects_due(symbolizer), tables_ns = tables_due(symbolizer->tables);
    due_ns = tables_ns < due_ns ? tables_ns : due_ns;
    if (symbolizer->kallsyms && due_ns > now_ns + SYMBOLIZER_REST_NS)
        due_ns = now_ns + SYMBOLIZER_REST_NS;
    if (symbolizer->scanning)
        due_ns = now_ns;
    if (symbolizer_congested(symbolizer) || due_ns == UINT64_MAX)
        timer_stop(&symbolizer->work); /* the socket wakes us */
    else
        timer_start(symbolizer->settings.loop, &symbolizer->work,
                    due_ns > now_ns ? due_ns - now_ns : 0);
}

static void ready(struct watch *watch, uint32_t events)
{
    struct symbolizer *symbolizer = container_of(watch, struct symbolizer, watch);
    if (events & EPOLLOUT)
        flush(symbolizer);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        receive(symbolizer);
    if (!symbolizer->watch.loop)
        return;
    update_watch(symbolizer);
    arm(symbolizer);
}

static void work(struct timer *timer)
{
    struct symbolizer *symbolizer = container_of(timer, struct symbolizer, work);
    uint64_t now_ns = clock_monotonic_ns();
    subjects_poll(symbolizer, now_ns + SYMBOLIZER_STEP_NS);
    symbolizer_scan_step(symbolizer, now_ns + SYMBOLIZER_STEP_NS);
    symbolizer_rest_kernel(symbolizer, now_ns);
    tables_tend(symbolizer->tables, now_ns);
    update_watch(symbolizer);
    arm(symbolizer);
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

static void settle_ledger(struct symbolizer *symbolizer)
{
    uint32_t pid = symbolizer_ledger_settle(symbolizer->settings.ledger, clock_monotonic_ns());
    if (pid)
        log_warn("symbolizer",
                 "the symbolizer before this one ended while it looked at process %u: "
                 "leaving that one alone for a while",
                 pid);
}

static struct symbolizer *new_symbolizer(const struct symbolizer_settings *settings)
{
    struct symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));
    if (!symbolizer)
        return NULL;
    symbolizer->settings = *settings;
    symbolizer->watch = (struct watch){.fd = settings->socket, .events = EPOLLIN, .ready = ready};
    symbolizer->work = (struct timer){.fire = work};
    list_init(&symbolizer->out);
    for (int i = 0; i < SYMBOLIZER_DISTANCES; i++)
        list_init(&symbolizer->waiting[i]);
    binaries_init(&symbolizer->binaries, settings->lines);
    perf_maps_init(&symbolizer->perf_maps);
    MAP_INIT(&symbolizer->subjects, struct subject, pid);
    symbolizer->mounts.limit_bytes = PROC_MOUNTS_BYTES_MAX;
    return symbolizer;
}

int symbolizer_open(const struct symbolizer_settings *settings, struct symbolizer **out)
{
    struct symbolizer *symbolizer = new_symbolizer(settings);
    if (!symbolizer) {
        close(settings->socket);
        return -ENOMEM;
    }
    raise_file_limit();
    settle_ledger(symbolizer);
    attach_begin();
    int size = SOCKET_BUFFER;
    setsockopt(settings->socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    int error = tables_open(settings->unwind, &symbolizer->tables);
    error = error ? error : watch_start(settings->loop, &symbolizer->watch);
    if (error) {
        symbolizer_close(symbolizer);
        return error;
    }
    *out = symbolizer;
    return 0;
}

void symbolizer_close(struct symbolizer *symbolizer)
{
    if (!symbolizer)
        return;
    struct list *link;
    watch_stop(&symbolizer->watch);
    timer_stop(&symbolizer->work);
    close(symbolizer->watch.fd);
    while ((link = list_pop(&symbolizer->out)))
        free_unsent(container_of(link, struct unsent, link));
    subjects_close(symbolizer);
    tables_close(symbolizer->tables);
    binaries_close(&symbolizer->binaries);
    perf_maps_close(&symbolizer->perf_maps);
    kallsyms_close(symbolizer->kallsyms);
    free(symbolizer->scan_pids);
    buf_close(&symbolizer->maps);
    buf_close(&symbolizer->maps_again);
    buf_close(&symbolizer->mounts);
    buf_close(&symbolizer->text);
    free(symbolizer);
}
