/* SPDX-License-Identifier: Apache-2.0 */
/* The request to go on with a stack: which mappings of the process go with it. */
#include "agent-bpf/process/process_table.h"
#include "agent-bpf/record.h"
#include <stdlib.h>

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

static void passed_add(struct passed *passed, uint64_t address)
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
static void passed_add_stack(struct passed *passed, const struct record_stack *stack)
{
    const uint8_t *copy = (const uint8_t *)(stack + 1);
    passed_add(passed, stack->pc - !!stack->is_return);
    for (uint32_t at = 0; at + sizeof(uint64_t) <= stack->size; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, copy + at, sizeof(word));
        passed_add(passed, word - 1);
    }
}

static int compare_addresses(const void *a, const void *b)
{
    const struct image_mapping *const *x = a, *const *y = b;
    return ((*x)->start > (*y)->start) - ((*x)->start < (*y)->start);
}

static void passed_widen(struct passed *passed, const struct image_mapping *mapping)
{
    uint64_t end = mapping->start + mapping->length;
    passed->start = mapping->start < passed->start ? mapping->start : passed->start;
    passed->end = end > passed->end ? end : passed->end;
}

static void passed_find_range(struct passed *passed)
{
    const struct process_image *image = passed->process->image;
    const struct process_past *past = passed->process->past;
    passed->start = UINT64_MAX;
    if (image && image->n) {
        passed_widen(passed, &image->mappings[0]);
        passed_widen(passed, &image->mappings[image->n - 1]);
    }
    for (size_t i = 0; past && i < past->n && i < PROCESS_PAST_MAPPINGS; i++)
        passed_widen(passed, &past->mappings[i].mapping);
}

/* Found by its path, also in the root of another that maps it. */
static struct symbolizer_executable_ref ref_of_mapping(const struct process_table *table,
                                                       const struct process *process,
                                                       const struct image_mapping *mapping)
{
    struct symbolizer_executable_ref ref =
        process_executable_ref(table, mapping->executable, process->parent_pid);
    if (process->until_ns == UINT64_MAX)
        ref.pid = process->pid;
    ref.mapping.start = mapping->start;
    ref.mapping.length = mapping->length;
    ref.mapping.file_offset = mapping->file_offset;
    return ref;
}

int process_table_want_unwind(struct process_table *table, const struct process_unwind *wanted)
{
    CLAIM_THREAD(&table->owner);
    const struct record_stack *stack = wanted->stack;
    const struct process *process = process_at(table, wanted->pid, wanted->time_ns);
    if (!process)
        return PROCESS_UNKNOWN;
    struct symbolizer_executable_ref refs[SYMBOLIZER_MAPPINGS_MAX];
    size_t size = sizeof(*stack) + stack->size;
    struct passed passed = {
        .process = process, .time_ns = wanted->time_ns, .bytes = MAPPING_BYTES + size};
    passed_find_range(&passed);
    passed_add_stack(&passed, stack);
    if (!passed.n)
        return PROCESS_UNKNOWN;
    qsort(passed.mappings, passed.n, sizeof(*passed.mappings), compare_addresses);
    for (size_t i = 0; i < passed.n; i++)
        refs[i] = ref_of_mapping(table, process, passed.mappings[i]);
    struct symbolizer_message message = {
        .kind = SYMBOLIZER_UNWIND_WANTED,
        .unwind_wanted = {.ticket = wanted->ticket,
                          .pid = wanted->pid,
                          .stack = BYTES((const void *)stack, size),
                          .n = (uint32_t)passed.n,
                          .mappings = refs}};
    return symbolizer_queue_put(table->requests, &message);
}
