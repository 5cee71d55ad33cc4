/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbolizer on its loop: the socket, and a timer that runs scan and inspections in steps of
 * 20 ms. While symbolizer_out is congested, no request is read and no step is run, so a service
 * that hangs makes the symbolizer wait, not grow. Nor is a request read while a reader is awaited:
 * what it would answer without one is that there are no names.
 */
#include "agent-bpf/symbolizer/runtime_walk.h"
#include "agent-bpf/symbolizer/symbolizer.h"
#include "agent-bpf/symbolizer/symbolizer_state.h"
#include "agent-bpf/symbolizer/inspection.h"
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/files/reader_client.h"
#include "agent-bpf/symbols/kallsyms.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/stats.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

LIMIT(symbolizer, LIMIT_SYMBOLIZER, "program, small tables", .bytes = 8u << 20);
LIMIT(runtimes, LIMIT_SYMBOLIZER, "what was read of runtimes", .key = "sampler::runtimes.cache_mib",
      .percent = 100);

STAT_LOSS(
    banned, "spanprof_processes_banned_total",
    "Inspections not made, because the cgroup of the process held the symbolizer or its reader "
    "before.");
STAT_LOSS(readers_lost, "spanprof_readers_lost_total",
          "Readers that hung or ended while they looked at a process.");

#define REQUEST_ARENA_MAX (256 * 1024) /* paths may be long */
#define SOCKET_BUFFER     (1 << 20)
#define OWNER_KEEP_NS     (10 * NS_PER_SEC)
#define AWAIT_READER_NS   (20 * NS_PER_MS) /* between looks whether it has answered */

static void symbolizer_arm_timer(struct symbolizer *symbolizer);
static void symbolizer_update_watch(struct symbolizer *symbolizer);

const struct process_owner *symbolizer_owner(struct symbolizer *symbolizer, uint32_t pid)
{
    struct owners *known = &symbolizer->owners[pid % SYMBOLIZER_OWNERS];
    uint64_t now_ns = clock_monotonic_ns();
    if (known->owner.pid == pid && now_ns - known->read_ns <= OWNER_KEEP_NS)
        return &known->owner;
    struct bytes cgroup = {0}, status = {0};
    int error = process_text(&symbolizer->texts, pid, READER_CGROUP, &cgroup);
    if (error == -EAGAIN && known->owner.pid == pid)
        return &known->owner; /* as it was; it may be the one that has the reader hang */
    if (error != -EAGAIN)
        (void)process_text(&symbolizer->texts, pid, READER_STATUS, &status);
    process_owner_from(pid, cgroup, status, &known->owner);
    known->read_ns = error == -EAGAIN ? 0 : now_ns;
    return &known->owner;
}

void symbolizer_forget_owner(struct symbolizer *symbolizer, uint32_t pid)
{
    struct owners *known = &symbolizer->owners[pid % SYMBOLIZER_OWNERS];
    if (known->owner.pid == pid)
        known->read_ns = 0;
}

/* Processes of which nothing is known (they ended at once, say) are one tenant, else each new one
 * would have a share of its own. */
uint64_t symbolizer_tenant(struct symbolizer *symbolizer, uint32_t pid)
{
    const struct process_owner *owner = symbolizer_owner(symbolizer, pid);
    return owner->kind == OWNER_PROCESS ? 0 : owner->key;
}

struct binary_user symbolizer_user(struct symbolizer *symbolizer, uint32_t pid, bool reads)
{
    uint64_t tenant = symbolizer_tenant(symbolizer, pid);
    return (struct binary_user){.pid = pid, .tenant = tenant, .reads = reads};
}

static bool owner_is_known(const struct symbolizer *symbolizer, uint32_t pid)
{
    const struct owners *known = &symbolizer->owners[pid % SYMBOLIZER_OWNERS];
    return known->owner.pid == pid && known->read_ns;
}

bool symbolizer_is_banned(struct symbolizer *symbolizer, uint32_t pid)
{
    struct symbolizer_ledger *ledger = symbolizer->settings.ledger;
    if (!symbolizer_ledger_has_bans(ledger))
        return false;
    const struct process_owner *owner = symbolizer_owner(symbolizer, pid);
    return !owner_is_known(symbolizer, pid) ||
           symbolizer_ledger_banned(ledger, owner, clock_monotonic_ns(), symbolizer->cautious);
}

bool symbolizer_skips(struct symbolizer *symbolizer, uint32_t pid)
{
    bool skipped = symbolizer_is_banned(symbolizer, pid);
    stat_add(&banned, skipped);
    return skipped;
}

void symbolizer_enter(struct symbolizer *symbolizer, uint32_t pid)
{
    symbolizer_ledger_enter(symbolizer->settings.ledger, symbolizer_owner(symbolizer, pid));
}

void symbolizer_leave(struct symbolizer *symbolizer)
{
    symbolizer_ledger_leave(symbolizer->settings.ledger);
}

/* ---- the reader ---- */

static void symbolizer_reader_overdue(void *context, uint64_t asked_ns)
{
    const struct symbolizer *symbolizer = context;
    symbolizer->settings.reader_overdue(symbolizer->settings.context, asked_ns);
}

static void symbolizer_reader_lost(void *context, uint32_t pid)
{
    struct symbolizer *symbolizer = context;
    if (!pid)
        return; /* a path of ours */
    log_warn("symbolizer",
             "the reader was lost when it looked at process %u: leaving its cgroup (or user) alone "
             "for a while",
             pid);
    stat_add(&readers_lost, 1);
    symbolizer_ledger_ban(symbolizer->settings.ledger, symbolizer_owner(symbolizer, pid),
                          clock_monotonic_ns());
}

void symbolizer_reader(struct symbolizer *symbolizer, int socket, unsigned abandoned)
{
    if (!symbolizer->cautious && abandoned >= SYMBOLIZER_CAUTIOUS)
        log_warn("symbolizer",
                 "%u processes hang: memory is read of cgroups alone that have hung "
                 "none",
                 abandoned);
    symbolizer->cautious = abandoned >= SYMBOLIZER_CAUTIOUS;
    reader_client_attach(socket);
    symbolizer_update_watch(symbolizer);
    symbolizer_arm_timer(symbolizer);
}

bool symbolizer_repeats(struct symbolizer *symbolizer)
{
    if (symbolizer->request == REQUEST_FIRST && reader_client_is_expected())
        symbolizer->request = REQUEST_WAITS;
    return symbolizer->request == REQUEST_WAITS;
}

static bool symbolizer_takes_requests(const struct symbolizer *symbolizer)
{
    return !symbolizer_congested(&symbolizer->out) && !reader_client_is_expected();
}

static void symbolizer_update_watch(struct symbolizer *symbolizer)
{
    uint32_t events = symbolizer_takes_requests(symbolizer) ? EPOLLIN : 0;
    if (!list_empty(&symbolizer->out.unsent))
        events |= EPOLLOUT;
    if (symbolizer->watch.loop && events != symbolizer->watch.events)
        watch_change(&symbolizer->watch, events);
}

static void symbolizer_serve(struct symbolizer *symbolizer,
                             const struct symbolizer_message *message)
{
    switch (message->kind) {
    case SYMBOLIZER_SCAN_WANTED:
        symbolizer_scan_start(symbolizer);
        break;
    case SYMBOLIZER_PROCESS_WANTED:
        perf_maps_forget(&symbolizer->perf_maps, message->process.pid); /* it may have execed */
        tracked_process_request(symbolizer, message->process.pid, true,
                                message->process.time_ns != 0);
        break;
    case SYMBOLIZER_CONTEXT_WANTED:
        tracked_process_request(symbolizer, message->process.pid, false,
                                message->process.time_ns != 0);
        break;
    case SYMBOLIZER_MAPPINGS_WANTED:
        symbolizer_scan_process(symbolizer, message->process.pid);
        break;
    case SYMBOLIZER_PROCESS_LEFT:
        perf_maps_left(&symbolizer->perf_maps, message->process.pid, clock_monotonic_ns());
        tracked_process_forget(symbolizer, message->process.pid);
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

static void symbolizer_handle_datagram(struct symbolizer *symbolizer)
{
    struct bytes datagram = BYTES(symbolizer->datagram, symbolizer->datagram_size);
    struct arena arena;
    struct symbolizer_message message;
    arena_init(&arena, REQUEST_ARENA_MAX);
    if (!symbolizer_message_decode(datagram, &arena, &message))
        symbolizer_serve(symbolizer, &message);
    else
        log_warn("symbolizer", "request of %zu bytes not understood", datagram.len);
    arena_close(&arena);
}

static void symbolizer_stop(struct symbolizer *symbolizer)
{
    watch_stop(&symbolizer->watch);
    timer_stop(&symbolizer->work);
    loop_stop(symbolizer->settings.loop);
}

/* False: there is none now. */
static bool symbolizer_next_request(struct symbolizer *symbolizer)
{
    if (symbolizer->request == REQUEST_WAITS) {
        symbolizer->request = REQUEST_AGAIN;
        return true;
    }
    ssize_t n;
    do
        n = recv(symbolizer->watch.fd, symbolizer->datagram, sizeof(symbolizer->datagram),
                 MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n <= 0 && !(n < 0 && errno == EAGAIN))
        symbolizer_stop(symbolizer);
    symbolizer->request = REQUEST_FIRST;
    symbolizer->datagram_size = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static void symbolizer_receive(struct symbolizer *symbolizer)
{
    uint64_t until_ns = clock_monotonic_ns() + SYMBOLIZER_STEP_NS;
    while (symbolizer_takes_requests(symbolizer) && clock_monotonic_ns() < until_ns &&
           symbolizer_next_request(symbolizer)) {
        symbolizer_handle_datagram(symbolizer);
        heartbeat();
    }
}

/* Wakes up only for work that is due. */
static void symbolizer_arm_timer(struct symbolizer *symbolizer)
{
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t due_ns = tracked_processes_due(symbolizer), tables_ns = tables_due(symbolizer->tables);
    due_ns = tables_ns < due_ns ? tables_ns : due_ns;
    if (symbolizer->kallsyms && due_ns > now_ns + SYMBOLIZER_REST_NS)
        due_ns = now_ns + SYMBOLIZER_REST_NS;
    if (symbolizer->scanning && reader_client_is_ready())
        due_ns = now_ns;
    if (reader_client_due() < due_ns)
        due_ns = reader_client_due();
    if (reader_client_is_expected() && due_ns > now_ns + AWAIT_READER_NS)
        due_ns = now_ns + AWAIT_READER_NS;
    if (symbolizer_congested(&symbolizer->out) || due_ns == UINT64_MAX)
        timer_stop(&symbolizer->work); /* the socket wakes the loop */
    else
        timer_start(symbolizer->settings.loop, &symbolizer->work,
                    due_ns > now_ns ? due_ns - now_ns : 0);
}

static void symbolizer_socket_ready(struct watch *watch, uint32_t events)
{
    struct symbolizer *symbolizer = container_of(watch, struct symbolizer, watch);
    if (events & EPOLLOUT)
        symbolizer_flush(&symbolizer->out);
    if (events & (EPOLLHUP | EPOLLERR))
        symbolizer_stop(symbolizer);
    else if (events & EPOLLIN)
        symbolizer_receive(symbolizer);
    if (!symbolizer->watch.loop)
        return;
    symbolizer_update_watch(symbolizer);
    symbolizer_arm_timer(symbolizer);
}

static void symbolizer_work(struct timer *timer)
{
    struct symbolizer *symbolizer = container_of(timer, struct symbolizer, work);
    uint64_t now_ns = clock_monotonic_ns();
    reader_client_poll();
    tracked_processes_poll(symbolizer, now_ns + SYMBOLIZER_STEP_NS);
    symbolizer_scan_step(symbolizer, now_ns + SYMBOLIZER_STEP_NS);
    symbolizer_unload_kernel(symbolizer, now_ns);
    tables_expire(symbolizer->tables, now_ns);
    if (symbolizer->request == REQUEST_WAITS)
        symbolizer_receive(symbolizer);
    if (!symbolizer->watch.loop)
        return;
    symbolizer_update_watch(symbolizer);
    symbolizer_arm_timer(symbolizer);
}

/* Many files are kept open. The usual soft limit of 1024 is for programs that use select(). */
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

static void ban_last_process(struct symbolizer *symbolizer)
{
    uint32_t pid = symbolizer_ledger_ban_last(symbolizer->settings.ledger, clock_monotonic_ns());
    if (pid)
        log_warn("symbolizer",
                 "the symbolizer before this one ended while it looked at process %u: "
                 "leaving its cgroup (or user) alone for a while",
                 pid);
}

static struct symbolizer *symbolizer_new(const struct symbolizer_settings *settings)
{
    struct symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));
    if (!symbolizer)
        return NULL;
    symbolizer->settings = *settings;
    symbolizer->watch =
        (struct watch){.fd = settings->socket, .events = EPOLLIN, .ready = symbolizer_socket_ready};
    symbolizer->work = (struct timer){.fire = symbolizer_work};
    symbolizer_out_init(&symbolizer->out, settings->socket);
    for (int i = 0; i < TRACKED_DELAYS; i++)
        list_init(&symbolizer->waiting[i]);
    MAP_INIT(&symbolizer->processes, struct tracked_process, pid);
    if (binaries_init(&symbolizer->binaries, settings->lines) ||
        perf_maps_init(&symbolizer->perf_maps) || tracked_processes_open(symbolizer) ||
        runtime_shares_open(&symbolizer->runtime_shares)) {
        free(symbolizer);
        return NULL;
    }
    return symbolizer;
}

int symbolizer_open(const struct symbolizer_settings *settings, struct symbolizer **out)
{
    struct symbolizer *symbolizer = symbolizer_new(settings);
    if (!symbolizer) {
        close(settings->socket);
        return -ENOMEM;
    }
    raise_file_limit();
    ban_last_process(symbolizer);
    reader_client_open(&(struct reader_client_settings){
        .overdue = settings->reader_overdue ? symbolizer_reader_overdue : NULL,
        .lost = symbolizer_reader_lost,
        .context = symbolizer});
    attach_init();
    int size = SOCKET_BUFFER;
    setsockopt(settings->socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    int error = tables_open(settings->unwind, &symbolizer->tables);
    error = error ? error
                  : runtime_cache_open(settings->runtime_cache_bytes, &symbolizer->runtime_cache);
    symbolizer->runtime_pages = calloc(RUNTIME_PAGES, sizeof(*symbolizer->runtime_pages));
    if (!error && !symbolizer->runtime_pages)
        error = -ENOMEM;
    error = error ? error : elastic_open(symbolizer);
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
    watch_stop(&symbolizer->watch);
    timer_stop(&symbolizer->work);
    close(symbolizer->watch.fd);
    reader_client_close();
    symbolizer_out_close(&symbolizer->out);
    elastic_close(symbolizer);
    tracked_processes_close(symbolizer);
    tables_close(symbolizer->tables);
    binaries_close(&symbolizer->binaries);
    perf_maps_close(&symbolizer->perf_maps);
    runtime_cache_close(symbolizer->runtime_cache);
    free(symbolizer->runtime_pages);
    kallsyms_close(symbolizer->kallsyms);
    free(symbolizer->scan_pids);
    buf_close(&symbolizer->maps);
    buf_close(&symbolizer->maps_again);
    process_texts_close(&symbolizer->texts);
    buf_close(&symbolizer->text);
    free(symbolizer);
}
