/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the table wants of the symbolizer. Changes of processes are collected over a drain and said
 * once; what cannot be said because too much waits is left out, for each of these wishes comes
 * again: with the next sample of the process, the next mapping of the file, the next loss of
 * events.
 */
#include "agent-bpf/process/symbolizer_client.h"
#include "agent-bpf/process/process_table.h"
#include "agent-bpf/record.h"
#include "base/clock.h"
#include "base/stats.h"
#include <errno.h>
#include <stdlib.h>

static const char *const loss_names[] = {
    [PROCESS_REQUEST_QUEUE_FULL] = "queue_full", [PROCESS_REQUEST_OVER_BUDGET] = "process_budget"};
STAT_LOSSES(requests_dropped, "spanprof_process_requests_dropped_total",
            "Requests to the symbolizer left out: too many waiting, or too many for one process.",
            STAT_LABEL("reason", loss_names, PROCESS_REQUEST_LOSSES));

void process_count_dropped(enum process_request_loss reason)
{
    stat_add_of(&requests_dropped, reason, 1);
}

#define CONTEXT_ASK_NS  (5 * NS_PER_SEC)  /* while a process is sampled without context */
#define BETTER_ASK_NS   (30 * NS_PER_SEC) /* with one, but not OpenTelemetry's */
#define REMAPPED_ASK_NS (NS_PER_SEC)      /* after it mapped another file */
#define CHANGED_ASK_NS  (200 * NS_PER_MS)
#define SCAN_ASK_NS     (10 * NS_PER_SEC)

/* Whether it could be kept. */
static bool want(struct process_table *table, const struct symbolizer_message *message)
{
    struct symbolizer_request *request = NULL;
    if (table->n_requests < PROCESS_REQUESTS_MAX)
        request = symbolizer_request_make(message);
    if (!request) {
        process_count_dropped(PROCESS_REQUEST_QUEUE_FULL);
        return false;
    }
    list_append(&table->requests, &request->link);
    table->n_requests++;
    return true;
}

static void want_of_process(struct process_table *table, enum symbolizer_kind kind,
                            const struct process *process)
{
    want(table,
         &(struct symbolizer_message){
             .kind = kind, .process = {.pid = process->pid, .time_ns = process->sampled_ns}});
}

#define GENERATIONS_MAX 8 /* looked at: most of these have ended, as in chains of scripts */

/* Those that are there, or were never heard of, from parent_pid on. */
static void find_ancestors(const struct process_table *table, uint32_t parent_pid,
                           struct symbolizer_executable_ref *ref)
{
    uint32_t n = 0;
    for (int i = 0; parent_pid && i < GENERATIONS_MAX && n < SYMBOLIZER_ANCESTORS_MAX; i++) {
        const struct process *process = process_newest(table, parent_pid);
        if (!process || process->until_ns == UINT64_MAX)
            ref->ancestors[n++] = parent_pid;
        parent_pid = process ? process->parent_pid : 0;
    }
}

static struct symbolizer_executable_ref ref_of(const struct process_table *table,
                                               const struct process_executable *executable,
                                               uint32_t parent_pid)
{
    struct symbolizer_executable_ref ref = {.pid = executable->last_pid,
                                            .mapping = executable->mapping};
    memcpy(ref.identity, executable->identity, sizeof(ref.identity));
    find_ancestors(table, parent_pid, &ref);
    return ref;
}

void process_want_executable(struct process_table *table,
                             const struct process_executable *executable)
{
    want(table, &(struct symbolizer_message){
                    .kind = SYMBOLIZER_EXECUTABLE_WANTED,
                    .executable_ref = ref_of(table, executable, executable->last_parent_pid)});
}

void process_want_scan(struct process_table *table, uint64_t time_ns)
{
    if (table->scan_asked_ns && time_ns < table->scan_asked_ns + SCAN_ASK_NS)
        return;
    table->scan_asked_ns = time_ns;
    want(table, &(struct symbolizer_message){.kind = SYMBOLIZER_SCAN_WANTED});
}

void process_tell_left(struct process_table *table, uint32_t pid)
{
    want(table,
         &(struct symbolizer_message){.kind = SYMBOLIZER_PROCESS_LEFT, .process = {.pid = pid}});
}

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
    if (sources & CONTEXT_BIT(CONTEXT_OTEL_THREAD))
        return false;
    return time_ns >= process->context_asked_ns + (sources ? BETTER_ASK_NS : CONTEXT_ASK_NS);
}

void process_table_sampled(struct process_table *table, uint32_t pid, uint64_t time_ns)
{
    struct process *process = process_newest(table, pid);
    if (!process) /* an event was lost; the symbolizer finds out */
        process = process_begin(table, pid, 0);
    if (!process || process->until_ns != UINT64_MAX || time_ns < process->from_ns)
        return;
    bool due = context_due(process, time_ns);
    process->sampled_ns = time_ns ? time_ns : 1;
    process->context_wanted |= due;
    if (!process->asked || due)
        process_mark_changed(table, process);
}

void process_table_context_changed(struct process_table *table, uint32_t pid, uint64_t time_ns)
{
    struct process *process = process_newest(table, pid);
    if (!process || time_ns < process->from_ns ||
        time_ns < process->context_asked_ns + CHANGED_ASK_NS)
        return;
    process->context_wanted = true;
    process_mark_changed(table, process);
}

static void want_of_changed(struct process_table *table, struct process *process, uint64_t now_ns)
{
    if (!process->from_ns && !process->image && !process->asked)
        process_want_scan(table, now_ns); /* sampled, but never heard of */
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

void process_table_take_requests(struct process_table *table, struct list *requests)
{
    struct list *link;
    uint64_t now_ns = clock_monotonic_ns();
    while ((link = list_pop(&table->changed)))
        want_of_changed(table, container_of(link, struct process, changed), now_ns);
    while ((link = list_pop(&table->requests)))
        list_append(requests, link);
    table->n_requests = 0;
}

static void want_names(struct process_table *table, const struct symbolizer_message *message,
                       const uint64_t *addresses, size_t n)
{
    uint64_t chunk[SYMBOLIZER_NAMES_MAX];
    for (size_t done = 0; done < n;) {
        size_t now = n - done < SYMBOLIZER_NAMES_MAX ? n - done : SYMBOLIZER_NAMES_MAX;
        memcpy(chunk, addresses + done, now * sizeof(*chunk));
        struct symbolizer_message part = *message;
        part.names_wanted.addresses = chunk;
        part.names_wanted.n = (uint32_t)now;
        want(table, &part);
        done += now;
    }
}

int process_table_want_names(struct process_table *table, const uint8_t identity[16],
                             const uint64_t *addresses, size_t n)
{
    struct symbolizer_message message = {.kind = SYMBOLIZER_NAMES_WANTED};
    const struct process_executable *executable = map_get(&table->executables, identity);
    if (executable) {
        message.names_wanted.executable = ref_of(table, executable, executable->last_parent_pid);
    } else if (table->kernel_known && !memcmp(identity, table->kernel.identity, 16)) {
        message.kind = SYMBOLIZER_KERNEL_NAMES_WANTED;
        memcpy(message.names_wanted.executable.identity, identity, 16);
    } else {
        return PROCESS_UNKNOWN;
    }
    want_names(table, &message, addresses, n);
    return 0;
}

/* Mappings of a process that a stack seems to go through. */
struct passed {
    const struct process *process;
    uint64_t time_ns;
    uint64_t start, end; /* of all that it maps now or mapped before */
    size_t bytes;        /* in the message */
    size_t n;
    const struct image_mapping *mappings[SYMBOLIZER_MAPPINGS_MAX];
};

#define MAPPING_BYTES 176 /* of one in a message, without its path */

static void pass(struct passed *passed, uint64_t address)
{
    if (address < passed->start || address >= passed->end)
        return;
    const struct image_mapping *mapping =
        process_mapping_at(passed->process, passed->time_ns, address);
    for (size_t i = passed->n; mapping && i > 0; i--)
        if (passed->mappings[i - 1] == mapping)
            return;
    if (!mapping || passed->n == SYMBOLIZER_MAPPINGS_MAX)
        return;
    size_t bytes = MAPPING_BYTES + strlen(mapping->executable->mapping.path);
    if (bytes > SYMBOLIZER_MESSAGE_MAX - passed->bytes)
        return;
    passed->bytes += bytes;
    passed->mappings[passed->n++] = mapping;
}

/* Any word may be a return address; what lies before it is in the code that called. */
static void pass_stack(struct passed *passed, const struct record_stack *stack)
{
    const uint8_t *copy = (const uint8_t *)(stack + 1);
    pass(passed, stack->pc - !!stack->is_return);
    for (uint32_t at = 0; at + sizeof(uint64_t) <= stack->size; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, copy + at, sizeof(word));
        pass(passed, word - 1);
    }
}

static int by_address(const void *a, const void *b)
{
    const struct image_mapping *const *x = a, *const *y = b;
    return ((*x)->start > (*y)->start) - ((*x)->start < (*y)->start);
}

static void widen(struct passed *passed, const struct image_mapping *mapping)
{
    uint64_t end = mapping->start + mapping->length;
    passed->start = mapping->start < passed->start ? mapping->start : passed->start;
    passed->end = end > passed->end ? end : passed->end;
}

static void find_range(struct passed *passed)
{
    const struct process_image *image = passed->process->image;
    const struct process_past *past = passed->process->past;
    passed->start = UINT64_MAX;
    if (image && image->n) {
        widen(passed, &image->mappings[0]);
        widen(passed, &image->mappings[image->n - 1]);
    }
    for (size_t i = 0; past && i < past->n && i < PROCESS_PAST_MAPPINGS; i++)
        widen(passed, &past->mappings[i].mapping);
}

/* Found by its path, also in the root of another that maps it. */
static struct symbolizer_executable_ref ref_of_mapping(const struct process_table *table,
                                                       const struct process *process,
                                                       const struct image_mapping *mapping)
{
    struct symbolizer_executable_ref ref = ref_of(table, mapping->executable, process->parent_pid);
    if (process->until_ns == UINT64_MAX)
        ref.pid = process->pid;
    ref.mapping.start = mapping->start;
    ref.mapping.length = mapping->length;
    ref.mapping.file_offset = mapping->file_offset;
    return ref;
}

int process_table_want_unwind(struct process_table *table, const struct process_unwind *wanted)
{
    const struct record_stack *stack = wanted->stack;
    const struct process *process = process_at(table, wanted->pid, wanted->time_ns);
    if (!process)
        return PROCESS_UNKNOWN;
    struct symbolizer_executable_ref refs[SYMBOLIZER_MAPPINGS_MAX];
    size_t size = sizeof(*stack) + stack->size;
    struct passed passed = {
        .process = process, .time_ns = wanted->time_ns, .bytes = MAPPING_BYTES + size};
    find_range(&passed);
    pass_stack(&passed, stack);
    if (!passed.n)
        return PROCESS_UNKNOWN;
    qsort(passed.mappings, passed.n, sizeof(*passed.mappings), by_address);
    for (size_t i = 0; i < passed.n; i++)
        refs[i] = ref_of_mapping(table, process, passed.mappings[i]);
    struct symbolizer_message message = {
        .kind = SYMBOLIZER_UNWIND_WANTED,
        .unwind_wanted = {.ticket = wanted->ticket,
                          .pid = wanted->pid,
                          .stack = BYTES((const void *)stack, size),
                          .n = (uint32_t)passed.n,
                          .mappings = refs}};
    return want(table, &message) ? 0 : -ENOMEM;
}

int process_table_program(struct process_table *table, uint32_t pid, uint64_t time_ns,
                          uint64_t *since_ns)
{
    const struct process *process = process_at(table, pid, time_ns);
    if (!process || !process->image || !process->image->n)
        return PROCESS_UNKNOWN;
    *since_ns = process->from_ns;
    return 0;
}

int process_table_want_code(struct process_table *table, const struct process_code_wanted *wanted)
{
    uint64_t since_ns;
    if (process_table_program(table, wanted->pid, wanted->time_ns, &since_ns))
        return PROCESS_UNKNOWN;
    struct symbolizer_message message = {.kind = SYMBOLIZER_CODE_WANTED,
                                         .code_wanted = {.ticket = wanted->ticket,
                                                         .pid = wanted->pid,
                                                         .n = wanted->n,
                                                         .addresses = wanted->addresses}};
    return want(table, &message) ? 0 : -ENOMEM;
}
