/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/intake/intake_code.h"
#include "base/list.h"
#include "base/map.h"
#include "base/stats.h"
#include "store/stacks/stacks.h"
#include <errno.h>
#include <stdlib.h>

enum code_limit { CODE_LIMIT_RANGES, CODE_LIMIT_PROCESSES, CODE_LIMITS };

static const char *const limit_names[] = {
    [CODE_LIMIT_RANGES] = "ranges", [CODE_LIMIT_PROCESSES] = "processes"};
STAT_COUNTERS(forgotten, "spanprof_code_forgotten_total",
              "Processes whose names of code without a file were all forgotten, by the limit that "
              "was reached.",
              STAT_LABEL("limit", limit_names, CODE_LIMITS));

struct range {
    uint64_t start;
    uint64_t last;
    uint64_t time_ns; /* of the sample that asked */
    int64_t name;     /* 0 = none */
};

struct process_code {
    uint32_t pid;
    uint32_t n_none; /* consecutive answers without any name */
    uint64_t none_ns;
    uint64_t since_ns;
    struct list recent;
    size_t n;
    size_t cap;
    struct range *ranges; /* by address; none overlaps another */
};

struct code {
    struct map processes;
    struct list recent; /* least recently used first */
};

int intake_code_open(struct code **codep)
{
    struct code *code = calloc(1, sizeof(*code));
    if (!code)
        return -ENOMEM;
    MAP_INIT(&code->processes, struct process_code, pid);
    list_init(&code->recent);
    *codep = code;
    return 0;
}

static void code_drop(struct code *code, struct process_code *process)
{
    map_remove(&code->processes, &process->pid);
    list_remove(&process->recent);
    free(process->ranges);
    free(process);
}

void intake_code_forget(struct code *code)
{
    struct list *link;
    while ((link = list_first(&code->recent)))
        code_drop(code, container_of(link, struct process_code, recent));
}

void intake_code_close(struct code *code)
{
    if (!code)
        return;
    intake_code_forget(code);
    map_close(&code->processes);
    free(code);
}

/* NULL: unknown process. */
static struct process_code *find_process(struct code *code, const struct code_program *program)
{
    struct process_code *process = map_get(&code->processes, &program->pid);
    if (!process || process->since_ns == program->since_ns)
        return process;
    code_drop(code, process);
    return NULL;
}

static struct process_code *add_process(struct code *code, const struct code_program *program)
{
    struct process_code *process = calloc(1, sizeof(*process));
    if (!process)
        return NULL;
    process->pid = program->pid;
    process->since_ns = program->since_ns;
    if (map_put(&code->processes, process, NULL)) {
        free(process);
        return NULL;
    }
    list_append(&code->recent, &process->recent);
    if (code->processes.count > CODE_PROCESSES_MAX) {
        code_drop(code, container_of(list_first(&code->recent), struct process_code, recent));
        stat_add_of(&forgotten, CODE_LIMIT_PROCESSES, 1);
    }
    return process;
}

/* Index of the first range that ends at or above the address. */
static size_t place_of(const struct process_code *process, uint64_t address)
{
    size_t low = 0, high = process->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (process->ranges[middle].last < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_near(uint64_t a_ns, uint64_t b_ns, uint64_t ns)
{
    return (a_ns > b_ns ? a_ns - b_ns : b_ns - a_ns) < ns;
}

static bool names_nothing(const struct process_code *process, uint64_t time_ns)
{
    uint32_t doubled = process->n_none > CODE_NONE_DOUBLED ? CODE_NONE_DOUBLED : process->n_none;
    return process->n_none && is_near(time_ns, process->none_ns, CODE_NONE_NS << (doubled - 1));
}

enum code_state intake_code_find(struct code *code, const struct code_program *program,
                                 uint64_t time_ns, uint64_t address, int64_t *name)
{
    struct process_code *process = find_process(code, program);
    if (!process)
        return CODE_UNKNOWN;
    list_remove(&process->recent);
    list_append(&code->recent, &process->recent);
    if (names_nothing(process, time_ns))
        return CODE_NAMELESS;
    size_t at = place_of(process, address);
    const struct range *range = &process->ranges[at];
    if (at == process->n || range->start > address ||
        !is_near(time_ns, range->time_ns, CODE_KEEP_NS))
        return CODE_UNKNOWN;
    *name = range->name;
    return range->name ? CODE_NAMED : CODE_NAMELESS;
}

static int process_code_reserve(struct process_code *process)
{
    if (process->n == CODE_RANGES_MAX) {
        process->n = 0;
        stat_add_of(&forgotten, CODE_LIMIT_RANGES, 1);
    }
    if (process->n < process->cap)
        return 0;
    size_t cap = process->cap ? 2 * process->cap : 16;
    struct range *ranges = realloc(process->ranges, cap * sizeof(*ranges));
    if (!ranges)
        return -ENOMEM;
    process->ranges = ranges;
    process->cap = cap;
    return 0;
}

/* Inserts a range in place of all ranges that it overlaps. */
static int put_range(struct process_code *process, const struct range *range)
{
    int error = process_code_reserve(process);
    if (error)
        return error;
    size_t at = place_of(process, range->start), end = at;
    while (end < process->n && process->ranges[end].start <= range->last)
        end++;
    memmove(process->ranges + at + 1, process->ranges + end,
            (process->n - end) * sizeof(*process->ranges));
    process->n = process->n - (end - at) + 1;
    process->ranges[at] = *range;
    return 0;
}

int intake_code_answer(struct code *code, const struct code_program *program, uint64_t time_ns,
                       const struct symbolizer_code *told, struct stacks *stacks)
{
    struct process_code *process = find_process(code, program);
    process = process ? process : add_process(code, program);
    if (!process)
        return -ENOMEM;
    process->n_none = told->named ? 0 : process->n_none + 1;
    process->none_ns = time_ns;
    int error = 0;
    for (uint32_t i = 0; i < told->n && !error; i++) {
        struct bytes function = told->ranges[i].function;
        struct range range = {told->ranges[i].start, told->ranges[i].last, time_ns, 0};
        if (function.len)
            error = stacks_named(stacks, function, &range.name);
        error = error ? error : put_range(process, &range);
    }
    return error;
}
