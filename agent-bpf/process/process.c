/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events come from two sides that do not know of each other: the kernel's stream, complete and in
 * order, and the symbolizer's scan, which saw some moment of the past by the time it is heard. So
 * every finding of the symbolizer carries the time before it looked, and loses against anything
 * newer in the table.
 *
 * Details are asked for as late as possible: a process that is started, runs and ends within one
 * drain is never mentioned to the symbolizer. It inherits the container from its parent, and its
 * first mapping is its executable, which is all that can be known of it.
 */
#include "agent-bpf/process/process.h"
#include "agent-bpf/process/process_table.h"
#include "agent-bpf/sha256.h"
#include "base/clock.h"
#include "base/stats.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

STAT_GAUGE(processes, "spanprof_processes", "Processes in the process table.");
STAT_GAUGE(table_bytes, "spanprof_process_table_bytes", "Memory of the process table.");
STAT_COUNTER(stale_events, "spanprof_process_stale_events_total",
             "Results of a scan of /proc that are ignored, because newer events were applied "
             "meanwhile.");
STAT_LOSS(unresolved, "spanprof_process_addresses_unresolved_total",
          "Addresses in user space that are in no known mapping of a file.");
STAT_COUNTER(scans, "spanprof_process_scans_total", "Complete scans of /proc.");

static void table_update_gauges(const struct process_table *table)
{
    stat_set(&processes, (int64_t)table->n_processes);
    stat_set(&table_bytes, (int64_t)table->bytes);
}

int process_table_open(struct symbolizer_queue *requests, struct process_table **out)
{
    struct process_table *table = calloc(1, sizeof(*table));
    if (!table)
        return -ENOMEM;
    MAP_INIT(&table->processes, struct process, pid);
    MAP_INIT(&table->executables, struct process_executable, identity);
    list_init(&table->idle);
    list_init(&table->ended);
    list_init(&table->changed);
    list_init(&table->never_sampled);
    for (size_t i = 0; i < FAIR_SHARES; i++)
        list_init(&table->sampled[i]);
    table->requests = requests;
    int error = fair_share_init(&table->share, PROCESS_TABLE_BYTES_MAX);
    if (error) {
        free(table);
        return error;
    }
    *out = table;
    return 0;
}

static void free_process(struct process_table *table, struct process *process)
{
    list_remove(&process->ended);
    process_uncharge(table, process);
    list_remove(&process->changed);
    process_image_release(table, process->image);
    process_past_free(table, process);
    process_details_free(table, process);
    process_free(table, process, sizeof(*process));
    table->n_processes--;
}

void process_table_close(struct process_table *table)
{
    if (!table)
        return;
    struct process *process;
    for (size_t i = 0; (process = map_next(&table->processes, &i));) {
        while (process) {
            struct process *older = process->older;
            free_process(table, process);
            process = older;
        }
    }
    map_close(&table->processes);
    process_executables_close(table);
    assert(table->bytes == 0);
    free(table);
}

void process_remove(struct process_table *table, struct process *process)
{
    struct process *newest = process_newest(table, process->pid);
    if (newest == process) {
        uint32_t pid = process->pid;
        map_remove(&table->processes, &pid);
        if (process->older) /* cannot fail: there is room for the one just removed */
            map_put(&table->processes, process->older, NULL);
    } else {
        while (newest && newest->older != process)
            newest = newest->older;
        if (newest)
            newest->older = process->older;
    }
    free_process(table, process);
}

/* A pid that execs in a loop must not grow a long chain. */
static void limit_chain(struct process_table *table, struct process *newest)
{
    struct process *process = newest;
    for (int i = 1; i < PROCESS_INCARNATIONS_MAX && process; i++)
        process = process->older;
    while (process && process->older)
        process_remove(table, process->older);
}

/* Makes an incarnation the newest; the one before is ended by the caller. NULL at a limit. */
static struct process *process_begin(struct process_table *table, uint32_t pid, uint64_t from_ns)
{
    if (table->n_processes >= PROCESS_TABLE_MAX) {
        process_count_full(PROCESS_LIMIT_PROCESSES);
        return NULL;
    }
    struct process *process = process_alloc(table, sizeof(*process));
    if (!process)
        return NULL;
    process->pid = pid;
    process->from_ns = from_ns;
    process->until_ns = UINT64_MAX;
    void *older = NULL;
    if (map_put(&table->processes, process, &older)) {
        process_free(table, process, sizeof(*process));
        return NULL;
    }
    process->older = older;
    list_append(&table->never_sampled, &process->age);
    table->n_processes++;
    limit_chain(table, process);
    return process;
}

static void process_end(struct process_table *table, struct process *process, uint64_t time_ns)
{
    if (process->until_ns != UINT64_MAX)
        return;
    process->until_ns = time_ns < UINT64_MAX ? time_ns : UINT64_MAX - 1; /* that is: it lives */
    list_append(&table->ended, &process->ended);
    list_remove(&process->changed);
    process_uncharge(table, process);
}

static void process_mark_changed(struct process_table *table, struct process *process)
{
    if (!list_linked(&process->changed) && process->until_ns == UINT64_MAX)
        list_append(&table->changed, &process->changed);
}

static int apply_fork(struct process_table *table, const struct process_event *event)
{
    if (event->pid == event->parent_pid)
        return 0; /* a thread */
    struct process *old = process_newest(table, event->pid);
    if (old)
        process_end(table, old, event->time_ns);
    struct process *child = process_begin(table, event->pid, event->time_ns);
    if (!child)
        return -ENOMEM;
    child->parent_pid = event->parent_pid;
    struct process *parent = process_newest(table, event->parent_pid);
    if (parent) {
        child->image = process_image_share(parent->image);
        process_details_inherit(table, child, parent, false);
    }
    return 0;
}

static int apply_exec(struct process_table *table, const struct process_event *event)
{
    struct process *before = process_newest(table, event->pid);
    if (before)
        process_end(table, before, event->time_ns);
    struct process *process = process_begin(table, event->pid, event->time_ns);
    if (!process)
        return -ENOMEM;
    before = process->older; /* may have made room for the new one */
    if (before) {
        process->told = before->told;
        process->parent_pid = before->parent_pid;
        process_details_inherit(table, process, before, true);
    }
    process_mark_changed(table, process);
    return 0;
}

static int apply_exit(struct process_table *table, const struct process_event *event)
{
    struct process *process = process_newest(table, event->pid);
    if (!process) /* remembered for a while: a scan may still tell of it */
        process = process_begin(table, event->pid, event->time_ns);
    if (!process)
        return -ENOMEM;
    bool told = process->told && process->until_ns == UINT64_MAX;
    process_end(table, process, event->time_ns);
    if (told)
        process_report_left(table, process->pid);
    return 0;
}

/* The newest, or a new one if there is none, or only one that ended before (its successor's fork
 * was lost). NULL at a limit. */
static struct process *alive_at(struct process_table *table, uint32_t pid, uint64_t time_ns)
{
    struct process *process = process_newest(table, pid);
    if (!process)
        return process_begin(table, pid, 0);
    return time_ns > process->until_ns ? process_begin(table, pid, time_ns) : process;
}

static int apply_map(struct process_table *table, const struct process_event *event)
{
    struct process *process = alive_at(table, event->pid, event->time_ns);
    if (!process)
        return -ENOMEM;
    if (event->time_ns < process->from_ns) {
        stat_add(&stale_events, 1);
        return 0;
    }
    bool first = !process->image;
    int error = process_image_map(table, process, event);
    if (error == PROCESS_STALE) {
        stat_add(&stale_events, 1);
        return 0;
    }
    if (!error && first && process->image && !process->exe)
        process_details_guess_exe(table, process,
                                  process->image->mappings[0].executable->mapping.path);
    return error;
}

int process_table_apply(struct process_table *table, const struct process_event *event)
{
    CLAIM_THREAD(&table->owner);
    int error = 0;
    process_table_make_room(table);
    switch (event->kind) {
    case PROCESS_FORKED:
        error = apply_fork(table, event);
        break;
    case PROCESS_EXECED:
        error = apply_exec(table, event);
        break;
    case PROCESS_EXITED:
        error = apply_exit(table, event);
        break;
    case PROCESS_MAPPED:
        error = apply_map(table, event);
        if (process_newest(table, event->pid))
            process_mark_changed(table, process_newest(table, event->pid));
        break;
    case PROCESS_LOST:
        process_want_scan(table, event->time_ns);
        break;
    }
    table_update_gauges(table);
    return error;
}

/* The symbolizer's word for a time is taken, but not for one that is yet to come. */
static uint64_t time_not_in_future(uint64_t time_ns)
{
    uint64_t now_ns = clock_monotonic_ns();
    return time_ns < now_ns ? time_ns : now_ns;
}

/* What the scan saw: "was there" and "was mapped". */
static int answer_event(struct process_table *table, const struct process_event *seen)
{
    struct process_event with_time = *seen;
    const struct process_event *event = &with_time;
    with_time.time_ns = time_not_in_future(seen->time_ns);
    if (event->kind == PROCESS_MAPPED)
        return apply_map(table, event);
    if (event->kind != PROCESS_FORKED)
        return 0;
    struct process *process = alive_at(table, event->pid, event->time_ns);
    if (!process)
        return -ENOMEM;
    process->seen_ns = event->time_ns;
    process->told = process->asked = true; /* details and context come with the scan */
    return 0;
}

/* A process from before the scan that the scan did not see has ended, and its exit event was lost.
 */
static void answer_scan_done(struct process_table *table, const struct symbolizer_scan_done *done)
{
    uint64_t start_ns = time_not_in_future(done->start_ns);
    struct process *process;
    for (size_t i = 0; (process = map_next(&table->processes, &i));)
        if (process->from_ns < start_ns && process->seen_ns < start_ns)
            process_end(table, process, time_not_in_future(done->end_ns));
    stat_add(&scans, 1);
}

static void answer_gone(struct process_table *table, const struct symbolizer_process *gone)
{
    struct process *process = process_newest(table, gone->pid);
    if (process && process->from_ns <= gone->time_ns)
        process_end(table, process, time_not_in_future(gone->time_ns));
}

static void answer_kernel(struct process_table *table, const struct symbolizer_kernel *kernel)
{
    size_t len = kernel->build_id.len;
    if (len > sizeof(table->kernel_build_id))
        return;
    if (len)
        memcpy(table->kernel_build_id, kernel->build_id.data, len);
    uint8_t named[6 + sizeof(table->kernel_build_id)] = "kernel", digest[32];
    memcpy(named + 6, table->kernel_build_id, len);
    sha256_of(BYTES(named, 6 + len), digest);
    memcpy(table->kernel.identity, digest, 16);
    table->kernel.text_start = kernel->text_start;
    table->kernel.text_end = kernel->text_end;
    table->kernel.build_id = BYTES(table->kernel_build_id, len);
    table->kernel.tag = &table->kernel_tag;
    table->kernel_known = true;
}

int process_table_answer(struct process_table *table, const struct symbolizer_message *message)
{
    CLAIM_THREAD(&table->owner);
    switch (message->kind) {
    case SYMBOLIZER_EVENT:
        process_table_make_room(table);
        return answer_event(table, &message->event);
    case SYMBOLIZER_SCAN_DONE:
        answer_scan_done(table, &message->scan_done);
        return 0;
    case SYMBOLIZER_DETAILS:
        return process_details_answer(table, &message->details);
    case SYMBOLIZER_CONTEXT:
        return process_context_answer(table, &message->context);
    case SYMBOLIZER_GONE:
        answer_gone(table, &message->process);
        return 0;
    case SYMBOLIZER_KERNEL:
        answer_kernel(table, &message->kernel);
        return 0;
    default:
        return 0;
    }
}

/* How long after a request for the context of a process the next one is made. */
#define CONTEXT_ASK_NS  (5 * NS_PER_SEC)  /* while a process is sampled without context */
#define BETTER_ASK_NS   (30 * NS_PER_SEC) /* with one, but not OpenTelemetry's */
#define REMAPPED_ASK_NS (NS_PER_SEC)      /* after it mapped another file */
#define CHANGED_ASK_NS  (200 * NS_PER_MS)
#define CHARGE_NS       NS_PER_SEC /* how old its place in the order of samples may be */

static uint8_t sources_of(const struct process *process)
{
    return process->published ? process->published->sources : 0;
}

/* Publishing makes no event in the kernel's stream, so it is looked for again and again. */
static bool context_due(const struct process *process, uint64_t time_ns)
{
    uint8_t sources = sources_of(process);
    if (!process->sampled_ns)
        return true; /* more is asked of processes that are sampled */
    if (process->remapped)
        return time_ns >= process->context_asked_ns + REMAPPED_ASK_NS;
    if (sources & CONTEXT_OTEL_BITS)
        return false;
    return time_ns >= process->context_asked_ns + (sources ? BETTER_ASK_NS : CONTEXT_ASK_NS);
}

void process_table_sampled(struct process_table *table, uint32_t pid, uint64_t cgroup_id,
                           uint64_t time_ns)
{
    CLAIM_THREAD(&table->owner);
    struct process *process = process_newest(table, pid);
    if (!process) { /* an event was lost, or it was forgotten; the symbolizer finds out */
        process_table_make_room(table);
        process = process_begin(table, pid, 0);
    }
    if (!process || process->until_ns != UINT64_MAX || time_ns < process->from_ns)
        return;
    bool due = context_due(process, time_ns);
    if (!process->charged || time_ns - process->sampled_ns > CHARGE_NS)
        process_charge(table, process, cgroup_id);
    process->sampled_ns = time_ns ? time_ns : 1;
    process->context_wanted |= due;
    if (!process->asked || due || process_mappings_are_due(table, process))
        process_mark_changed(table, process);
}

void process_table_context_changed(struct process_table *table, uint32_t pid, uint64_t time_ns)
{
    CLAIM_THREAD(&table->owner);
    struct process *process = process_newest(table, pid);
    if (!process || time_ns < process->from_ns ||
        time_ns < process->context_asked_ns + CHANGED_ASK_NS)
        return;
    process->context_wanted = true;
    process_mark_changed(table, process);
}

static void want_of_process(struct process_table *table, enum symbolizer_kind kind,
                            const struct process *process)
{
    symbolizer_queue_put(
        table->requests,
        &(struct symbolizer_message){
            .kind = kind, .process = {.pid = process->pid, .time_ns = process->sampled_ns}});
}

static void want_of_changed(struct process_table *table, struct process *process, uint64_t now_ns)
{
    bool unheard_of = !process->from_ns && !process->image && !process->asked;
    if (unheard_of || process_mappings_are_due(table, process)) {
        process->mappings_asked_ns = now_ns;
        want_of_process(table, SYMBOLIZER_MAPPINGS_WANTED, process);
    }
    if (!process->asked)
        want_of_process(table, SYMBOLIZER_PROCESS_WANTED, process);
    else if (process->context_wanted || !sources_of(process))
        want_of_process(table, SYMBOLIZER_CONTEXT_WANTED, process);
    else
        return;
    process->asked = process->told = true;
    process->context_wanted = process->remapped = false;
    process->context_asked_ns = now_ns;
}

void process_table_request_changed(struct process_table *table)
{
    CLAIM_THREAD(&table->owner);
    struct list *link;
    uint64_t now_ns = clock_monotonic_ns();
    while ((link = list_pop(&table->changed)))
        want_of_changed(table, container_of(link, struct process, changed), now_ns);
}

void process_table_expire(struct process_table *table, uint64_t now_ns)
{
    CLAIM_THREAD(&table->owner);
    struct list *link;
    while ((link = list_first(&table->ended))) {
        struct process *process = container_of(link, struct process, ended);
        if (now_ns < process->until_ns || now_ns - process->until_ns < PROCESS_GRACE_NS)
            break;
        process_remove(table, process);
    }
    process_request_scan(table, now_ns);
    table_update_gauges(table);
}

int process_table_resolve(struct process_table *table, uint32_t pid, uint64_t time_ns,
                          uint64_t address, struct process_place *place)
{
    CLAIM_THREAD(&table->owner);
    const struct process *process = process_at(table, pid, time_ns);
    const struct image_mapping *mapping =
        process ? process_mapping_at(process, time_ns, address) : NULL;
    if (!mapping) {
        stat_add(&unresolved, 1);
        return PROCESS_UNKNOWN;
    }
    *place = (struct process_place){
        .identity = mapping->executable->identity,
        .file_offset = mapping->file_offset + (address - mapping->start),
        .path = mapping->executable->mapping.path,
        .tag = &mapping->executable->tag,
    };
    return 0;
}

int process_table_kernel(struct process_table *table, struct process_kernel *kernel)
{
    CLAIM_THREAD(&table->owner);
    if (!table->kernel_known)
        return PROCESS_UNKNOWN;
    *kernel = table->kernel;
    return 0;
}

void process_table_forget_tags(struct process_table *table)
{
    CLAIM_THREAD(&table->owner);
    struct process *process;
    for (size_t i = 0; (process = map_next(&table->processes, &i));)
        for (; process; process = process->older)
            process->tag = (struct process_tag){0};
    struct process_executable *executable;
    for (size_t i = 0; (executable = map_next(&table->executables, &i));) {
        if (executable->tag) /* what was known of it went with the row */
            process_want_executable(table, 0, executable);
        executable->tag = 0;
    }
    table->kernel_tag = 0;
}
