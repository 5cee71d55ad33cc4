/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of the process table: memory is summed, who goes when room is short is chosen, events
 * that are left out are counted. */
#include "agent-bpf/process/process_table.h"
#include "base/limits.h"
#include "base/stats.h"
#include <assert.h>
#include <stdlib.h>

LIMIT(table, LIMIT_SERVICE, "processes and their mappings", .bytes = PROCESS_TABLE_BYTES_MAX);

static const char *const limit_names[] = {[PROCESS_LIMIT_PROCESSES] = "processes",
                                          [PROCESS_LIMIT_MAPPINGS] = "mappings",
                                          [PROCESS_LIMIT_BYTES] = "bytes"};
STAT_LOSSES(table_full, "spanprof_process_table_full_total",
            "Process events that are ignored, because a limit of the process table is reached.",
            STAT_LABEL("limit", limit_names, PROCESS_LIMITS));

STAT_LOSS(
    forgotten, "spanprof_processes_forgotten_total",
    "Living processes forgotten because the process table was full. They are asked about again "
    "when they are sampled.");

void process_count_full(enum process_limit limit)
{
    stat_add_of(&table_full, limit, 1);
}

void *process_alloc(struct process_table *table, size_t size)
{
    if (size > process_table_free(table)) {
        process_count_full(PROCESS_LIMIT_BYTES);
        return NULL;
    }
    void *memory = calloc(1, size);
    if (memory)
        table->bytes += size;
    return memory;
}

void process_free(struct process_table *table, void *memory, size_t size)
{
    if (!memory)
        return;
    assert(table->bytes >= size);
    table->bytes -= size;
    free(memory);
}

/* ---- who goes when room is short ---- */

void process_uncharge(struct process_table *table, struct process *process)
{
    list_remove(&process->age);
    fair_share_give(&table->share, process->tenant, process->charged);
    process->charged = 0;
}

void process_charge(struct process_table *table, struct process *process, uint64_t tenant)
{
    process_uncharge(table, process);
    process->tenant = tenant;
    process->charged = sizeof(*process) + process_image_bytes(process->image);
    fair_share_take(&table->share, tenant, process->charged);
    list_append(&table->sampled[fair_share_index(&table->share, tenant)], &process->age);
}

/* One that lives, with its incarnations. */
static void forget_process(struct process_table *table, struct process *process)
{
    uint32_t pid = process->pid;
    if (process->told)
        process_report_left(table, pid);
    stat_add(&forgotten, 1);
    while ((process = process_newest(table, pid)))
        process_remove(table, process);
}

static bool forget_oldest(struct process_table *table)
{
    struct list *oldest = list_first(&table->ended);
    if (oldest) {
        process_remove(table, container_of(oldest, struct process, ended));
        return true;
    }
    oldest = list_first(&table->never_sampled);
    if (!oldest)
        oldest = list_first(&table->sampled[fair_share_largest(&table->share)]);
    if (oldest)
        forget_process(table, container_of(oldest, struct process, age));
    return oldest;
}

void process_table_make_room(struct process_table *table)
{
    while (table->n_processes >= PROCESS_TABLE_MAX && forget_oldest(table))
        ;
    while (process_table_free(table) < PROCESS_ROOM_BYTES &&
           (process_executable_forget(table) || forget_oldest(table)))
        ;
}
