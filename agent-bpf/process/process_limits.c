/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of the process table: memory is summed, events that are left out are counted. */
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

void process_count_full(enum process_limit limit)
{
    stat_add_of(&table_full, limit, 1);
}

void *process_alloc(struct process_table *table, size_t size)
{
    if (size > PROCESS_TABLE_BYTES_MAX - table->bytes) {
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
