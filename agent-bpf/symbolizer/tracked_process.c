/* SPDX-License-Identifier: Apache-2.0 */
/*
 * There is one waiting list for each delay. All processes in a list wait equally long, so appending
 * keeps it sorted by due_ns, and only the heads need to be checked.
 *
 * A process is only touched between symbolizer_enter() and symbolizer_leave(): see
 * tracked_process_inspect().
 */
#include "agent-bpf/symbolizer/inspection.h"
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/files/container.h"
#include "agent-bpf/files/proc_pid.h"
#include "agent-bpf/files/reader_client.h"
#include "base/log.h"
#include "base/stats.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static const char *const unknown_names[] = {[CONTAINER_UNKNOWN_NONE] = "none",
                                            [CONTAINER_UNKNOWN_NAME] = "name",
                                            [CONTAINER_UNKNOWN_NAME_LONG] = "name_too_long",
                                            [CONTAINER_UNKNOWN_FORM] = "form"};
STAT_LOSSES(container_unknown, "spanprof_container_unknown_total",
            "Times that a process in a container runtime's cgroup was read whose container.id is "
            "not known.",
            STAT_LABEL("reason", unknown_names, CONTAINER_UNKNOWNS),
            .absent = STAT_BIT(CONTAINER_UNKNOWN_NONE));

static void tracked_process_schedule(struct symbolizer *symbolizer, struct tracked_process *process,
                                     uint64_t now_ns, uint8_t distance)
{
    process->delay = distance < TRACKED_DELAYS ? distance : TRACKED_DELAYS - 1;
    process->due_ns = now_ns + (TRACKED_POLL_NS << process->delay);
    list_remove(&process->waiting);
    struct list *list = &symbolizer->waiting[process->delay];
    assert(list_empty(list) ||
           container_of(list->prev, struct tracked_process, waiting)->due_ns <= process->due_ns);
    list_append(list, &process->waiting);
}

struct tracked_process *tracked_process_get(struct symbolizer *symbolizer, uint32_t pid)
{
    LOOP_THREAD(symbolizer->settings.loop);
    struct tracked_process *process = map_get(&symbolizer->processes, &pid);
    if (process)
        return process;
    uint64_t tenant = symbolizer_tenant(symbolizer, pid);
    if (!fair_share_has_room(&symbolizer->shares.tracked, tenant, 1)) {
        symbolizer_count_full(SYMBOLIZER_LIMIT_PROCESSES);
        return NULL;
    }
    process = calloc(1, sizeof(*process));
    if (!process)
        return NULL;
    process->pid = pid;
    process->tenant = tenant;
    if (map_put(&symbolizer->processes, process, NULL)) {
        free(process);
        return NULL;
    }
    fair_share_take(&symbolizer->shares.tracked, tenant, 1);
    return process;
}

/* It may be in another cgroup since it has execed. Of its environment nothing is kept. */
static void tracked_process_move(struct symbolizer *symbolizer, struct tracked_process *process)
{
    struct process_shares *shares = &symbolizer->shares;
    symbolizer_forget_owner(symbolizer, process->pid);
    uint64_t before = process->tenant, now = symbolizer_tenant(symbolizer, process->pid);
    uint64_t n_entries = process->sources ? 1 : 0;
    fair_share_give(&shares->tracked, before, 1);
    fair_share_take(&shares->tracked, now, 1);
    fair_share_give(&shares->contexts, before, n_entries);
    fair_share_take(&shares->contexts, now, n_entries);
    process->tenant = now;
}

static void tracked_process_free(struct symbolizer *symbolizer, struct tracked_process *process)
{
    attach_forget(symbolizer, process);
    resource_forget(symbolizer, process);
    elastic_peer_free(process);
    process_runtimes_forget(symbolizer, process->pid, &process->runtimes);
    fair_share_give(&symbolizer->shares.tracked, process->tenant, 1);
    free(process);
}

static void tracked_process_remove(struct symbolizer *symbolizer, struct tracked_process *process)
{
    uint32_t pid = process->pid;
    map_remove(&symbolizer->processes, &pid);
    list_remove(&process->waiting);
    tracked_process_free(symbolizer, process);
}

void tracked_process_forget(struct symbolizer *symbolizer, uint32_t pid)
{
    LOOP_THREAD(symbolizer->settings.loop);
    struct tracked_process *process = map_get(&symbolizer->processes, &pid);
    if (process)
        tracked_process_remove(symbolizer, process);
}

int tracked_processes_open(struct symbolizer *symbolizer)
{
    struct process_shares *shares = &symbolizer->shares;
    int error = fair_share_init(&shares->tracked, TRACKED_PROCESSES_MAX);
    error = error ? error : fair_share_init(&shares->contexts, CONTEXT_PROCESSES_MAX);
    return error ? error : fair_share_init(&shares->environments, ENVIRONMENTS_MAX);
}

void tracked_processes_close(struct symbolizer *symbolizer)
{
    struct tracked_process *process;
    for (size_t i = 0; (process = map_next(&symbolizer->processes, &i));)
        tracked_process_free(symbolizer, process);
    const struct process_shares *shares = &symbolizer->shares;
    assert(!shares->tracked.used && !shares->contexts.used && !shares->environments.used);
    map_close(&symbolizer->processes);
}

static bool is_gone(int error)
{
    return error == -ENOENT || error == -ESRCH;
}

static void tracked_process_send_gone(struct symbolizer *symbolizer,
                                      struct tracked_process *process, uint64_t time_ns)
{
    symbolizer_send(&symbolizer->out, &(struct symbolizer_message){
                                          .kind = SYMBOLIZER_GONE,
                                          .process = {.pid = process->pid, .time_ns = time_ns}});
    tracked_process_remove(symbolizer, process);
}

/* False: the process is gone, or the reader has not answered. */
static bool read_details(struct symbolizer *symbolizer, struct symbolizer_details *details,
                         struct container *container)
{
    struct process_texts *texts = &symbolizer->texts;
    struct bytes stat, status, cgroup;
    if (process_text(texts, details->pid, READER_STAT, &stat) ||
        !proc_parse_start_ns(stat, &details->start_ns) ||
        process_text(texts, details->pid, READER_STATUS, &status) ||
        !proc_parse_own_pid(status, &details->own_pid))
        return false;
    if (process_text(texts, details->pid, READER_EXE, &details->exe)) /* a kernel thread */
        details->exe = (struct bytes){0};
    if (process_text(texts, details->pid, READER_CGROUP, &cgroup))
        return true;
    container_from_cgroup(cgroup, container);
    if (container->unknown)
        stat_add_of(&container_unknown, container->unknown, 1);
    details->container_id = container->id;
    details->pod_uid = BYTES_STR(container->pod_uid);
    return true;
}

static void tracked_process_send_details(struct symbolizer *symbolizer,
                                         struct tracked_process *process)
{
    struct container container;
    struct symbolizer_message message = {
        .kind = SYMBOLIZER_DETAILS,
        .details = {.pid = process->pid, .time_ns = clock_monotonic_ns()},
    };
    if (!read_details(symbolizer, &message.details, &container))
        return;
    process->start_ns = message.details.start_ns;
    symbolizer_send(&symbolizer->out, &message);
}

/* The kernel's name of its program, from "PID (NAME) S ..."; what cannot be printed as '?'. */
static void process_name(struct symbolizer *symbolizer, uint32_t pid, char name[32])
{
    struct bytes stat;
    size_t len = 0;
    if (process_text(&symbolizer->texts, pid, READER_STAT, &stat))
        stat = (struct bytes){0};
    const uint8_t *begin = stat.len ? memchr(stat.data, '(', stat.len) : NULL;
    const uint8_t *end = stat.len ? memrchr(stat.data, ')', stat.len) : NULL;
    for (const uint8_t *at = begin; at && ++at < end && len < 31;)
        name[len++] = *at >= ' ' && *at <= '~' ? (char)*at : '?';
    name[len] = '\0';
}

void tracked_process_unreadable(struct symbolizer *symbolizer, struct tracked_process *process,
                                enum context_unreadable reason)
{
    LOOP_THREAD(symbolizer->settings.loop);
    _Static_assert(CONTEXT_UNREADABLES <= 32, "bits of tracked_process.unreadable");
    const uint32_t bit = UINT32_C(1) << reason;
    bool known = process->unreadable & bit;
    context_count_unreadable(reason);
    process->unreadable |= bit;
    if (known || log_level() > LOG_LEVEL_DEBUG)
        return;
    struct log_site own = {0}; /* not rate-limited: debug is for finding one process among many */
    char name[32];
    process_name(symbolizer, process->pid, name);
    log_write(&own, LOG_LEVEL_DEBUG, "symbolizer",
              "process %u (%s): its contexts cannot be read: %s", process->pid, name,
              context_unreadable_names[reason]);
}

/* False: the process is gone, and `process` freed. */
static bool tracked_process_inspect(struct symbolizer *symbolizer, struct tracked_process *process,
                                    bool details)
{
    uint64_t time_ns = clock_monotonic_ns();
    if (symbolizer_skips(symbolizer, process->pid))
        return true;
    symbolizer_enter(symbolizer, process->pid);
    if (details || !process->start_ns)
        tracked_process_send_details(symbolizer, process);
    int error = 0;
    if (!inspection_still_holds(symbolizer, process)) {
        error = reader_maps(process->pid, &symbolizer->maps);
        if (!error)
            inspection_run(symbolizer, process);
        if (!error && !symbolizer->maps.len)
            process->requested_ns = 0; /* a kernel thread or a zombie: it will publish nothing */
    }
    symbolizer_leave(symbolizer);
    if (!is_gone(error))
        return true;
    tracked_process_send_gone(symbolizer, process, time_ns);
    return false;
}

/* Nothing more is expected: OpenTelemetry's contexts have precedence, so if they are read, one is
 * waited for. */
static bool tracked_process_is_settled(const struct symbolizer *symbolizer,
                                       const struct tracked_process *process)
{
    unsigned best = symbolizer->settings.sources & CONTEXT_OTEL_BITS;
    bool waits_for_storage = process->elastic && !process->elastic->storage;
    return process->sources && (!best || (process->sources & best)) && !waits_for_storage;
}

static bool tracked_process_is_of_interest(const struct tracked_process *process, uint64_t now_ns)
{
    return now_ns - process->requested_ns < TRACKED_INTEREST_NS;
}

static void tracked_process_schedule_next(struct symbolizer *symbolizer,
                                          struct tracked_process *process, uint64_t now_ns)
{
    bool interest = tracked_process_is_of_interest(process, now_ns);
    if (process->sources && (!interest || tracked_process_is_settled(symbolizer, process)))
        tracked_process_schedule(symbolizer, process, now_ns, TRACKED_SETTLED_DELAY);
    else if (interest || process->address || process->publishes)
        tracked_process_schedule(symbolizer, process, now_ns, (uint8_t)(process->delay + 1));
    else
        list_remove(&process->waiting); /* until the next request */
}

bool tracked_process_is_sampled(const struct symbolizer *symbolizer, uint32_t pid)
{
    LOOP_THREAD(symbolizer->settings.loop);
    const struct tracked_process *process = map_get(&symbolizer->processes, &pid);
    return process && process->sampled;
}

static void tracked_process_reset(struct symbolizer *symbolizer, struct tracked_process *process)
{
    resource_forget(symbolizer, process);
    elastic_peer_free(process);
    process_runtimes_forget(symbolizer, process->pid, &process->runtimes);
    process->address = process->published_ns = 0;
    process->publishes = 0;
    process->unreadable = 0;
    process->lacks_variable = false;
    process->sampled = false;
    process->reported = false; /* the service forgets it on exec */
    tracked_process_move(symbolizer, process);
}

void tracked_process_request(struct symbolizer *symbolizer, uint32_t pid, bool details,
                             bool sampled)
{
    LOOP_THREAD(symbolizer->settings.loop);
    struct tracked_process *process = tracked_process_get(symbolizer, pid);
    if (!process)
        return;
    uint64_t now_ns = clock_monotonic_ns();
    process->requested_ns = now_ns;
    process->inspected_ns = 0;
    if (details)
        tracked_process_reset(symbolizer, process);
    process->sampled |= sampled;
    if (!tracked_process_inspect(symbolizer, process, details))
        return;
    bool waiting = list_linked(&process->waiting);
    bool settled = tracked_process_is_settled(symbolizer, process);
    if (process->requested_ns && (details || !waiting || settled))
        tracked_process_schedule(symbolizer, process, now_ns, settled ? TRACKED_SETTLED_DELAY : 0);
}

uint64_t tracked_processes_due(const struct symbolizer *symbolizer)
{
    LOOP_THREAD(symbolizer->settings.loop);
    uint64_t due_ns = UINT64_MAX;
    for (int i = 0; i < TRACKED_DELAYS; i++) {
        const struct list *first = list_first(&symbolizer->waiting[i]);
        if (first && container_of(first, struct tracked_process, waiting)->due_ns < due_ns)
            due_ns = container_of(first, struct tracked_process, waiting)->due_ns;
    }
    return due_ns;
}

static void tracked_processes_poll_list(struct symbolizer *symbolizer, struct list *head,
                                        uint64_t until_ns)
{
    uint64_t now_ns = clock_monotonic_ns();
    while (!list_empty(head) && now_ns < until_ns && !symbolizer_congested(&symbolizer->out)) {
        struct tracked_process *process =
            container_of(list_first(head), struct tracked_process, waiting);
        if (process->due_ns > now_ns)
            return;
        if (!tracked_process_is_settled(symbolizer, process) &&
            tracked_process_is_of_interest(process, now_ns))
            process->inspected_ns = 0; /* it may publish more by now */
        if (tracked_process_inspect(symbolizer, process, false))
            tracked_process_schedule_next(symbolizer, process, now_ns);
        heartbeat();
        now_ns = clock_monotonic_ns();
    }
}

void tracked_processes_poll(struct symbolizer *symbolizer, uint64_t until_ns)
{
    LOOP_THREAD(symbolizer->settings.loop);
    for (int i = 0; i < TRACKED_DELAYS; i++)
        tracked_processes_poll_list(symbolizer, &symbolizer->waiting[i], until_ns);
}
