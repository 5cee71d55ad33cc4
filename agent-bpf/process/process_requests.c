/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for executables, names and scans, put into the queue to the symbolizer. */
#include "agent-bpf/process/process_table.h"
#include "base/clock.h"

#define SCAN_ASK_NS     (300 * NS_PER_SEC) /* a scan costs as much as the node has processes */
#define MAPPINGS_ASK_NS (10 * NS_PER_SEC)  /* of one process */
#define GENERATIONS_MAX 8 /* looked at: most of these have ended, as in chains of scripts */

/* Ancestors that live, or of which nothing is known, from parent_pid on. */
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

struct symbolizer_executable_ref process_executable_ref(const struct process_table *table,
                                                        const struct process_executable *executable,
                                                        uint32_t parent_pid)
{
    struct symbolizer_executable_ref ref = {.pid = executable->last_pid,
                                            .mapping = executable->mapping};
    memcpy(ref.identity, executable->identity, sizeof(ref.identity));
    find_ancestors(table, parent_pid, &ref);
    return ref;
}

void process_want_executable(struct process_table *table, uint64_t tenant,
                             const struct process_executable *executable)
{
    struct symbolizer_message message = {
        .kind = SYMBOLIZER_EXECUTABLE_WANTED,
        .executable_ref = process_executable_ref(table, executable, executable->last_parent_pid)};
    symbolizer_queue_put_for(table->requests, tenant, &message);
}

void process_want_scan(struct process_table *table, uint64_t time_ns)
{
    table->lost_ns = time_ns > table->lost_ns ? time_ns : table->lost_ns;
    table->scan_wanted = true;
    process_request_scan(table, time_ns);
}

void process_request_scan(struct process_table *table, uint64_t now_ns)
{
    if (!table->scan_wanted ||
        (table->scan_asked_ns && now_ns < table->scan_asked_ns + SCAN_ASK_NS))
        return;
    table->scan_wanted = false;
    table->scan_asked_ns = now_ns;
    symbolizer_queue_put(table->requests,
                         &(struct symbolizer_message){.kind = SYMBOLIZER_SCAN_WANTED});
}

bool process_mappings_are_due(const struct process_table *table, const struct process *process)
{
    return process->seen_ns < table->lost_ns && process->from_ns < table->lost_ns &&
           (!process->mappings_asked_ns ||
            process->sampled_ns > process->mappings_asked_ns + MAPPINGS_ASK_NS);
}

void process_report_left(struct process_table *table, uint32_t pid)
{
    symbolizer_queue_put(
        table->requests,
        &(struct symbolizer_message){.kind = SYMBOLIZER_PROCESS_LEFT, .process = {.pid = pid}});
}

static void want_names(struct process_table *table, uint64_t tenant,
                       const struct symbolizer_message *message, const uint64_t *addresses,
                       size_t n)
{
    uint64_t chunk[SYMBOLIZER_NAMES_MAX];
    for (size_t done = 0; done < n;) {
        size_t now = n - done < SYMBOLIZER_NAMES_MAX ? n - done : SYMBOLIZER_NAMES_MAX;
        memcpy(chunk, addresses + done, now * sizeof(*chunk));
        struct symbolizer_message part = *message;
        part.names_wanted.addresses = chunk;
        part.names_wanted.n = (uint32_t)now;
        symbolizer_queue_put_for(table->requests, tenant, &part);
        done += now;
    }
}

int process_table_want_names(struct process_table *table, uint64_t tenant,
                             const uint8_t identity[16], const uint64_t *addresses, size_t n)
{
    CLAIM_THREAD(&table->owner);
    struct symbolizer_message message = {.kind = SYMBOLIZER_NAMES_WANTED};
    const struct process_executable *executable = map_get(&table->executables, identity);
    if (executable) {
        message.names_wanted.executable =
            process_executable_ref(table, executable, executable->last_parent_pid);
    } else if (table->kernel_known && !memcmp(identity, table->kernel.identity, 16)) {
        message.kind = SYMBOLIZER_KERNEL_NAMES_WANTED;
        memcpy(message.names_wanted.executable.identity, identity, 16);
    } else {
        return PROCESS_UNKNOWN;
    }
    want_names(table, tenant, &message, addresses, n);
    return 0;
}

int process_table_program(struct process_table *table, uint32_t pid, uint64_t time_ns,
                          uint64_t *since_ns, uint64_t *cgroup_id)
{
    CLAIM_THREAD(&table->owner);
    const struct process *process = process_at(table, pid, time_ns);
    if (!process || !process->image || !process->image->n)
        return PROCESS_UNKNOWN;
    *since_ns = process->from_ns;
    *cgroup_id = process->tenant;
    return 0;
}

int process_table_want_code(struct process_table *table, const struct process_code_wanted *wanted)
{
    CLAIM_THREAD(&table->owner);
    uint64_t since_ns, cgroup_id;
    if (process_table_program(table, wanted->pid, wanted->time_ns, &since_ns, &cgroup_id))
        return PROCESS_UNKNOWN;
    struct symbolizer_message message = {.kind = SYMBOLIZER_CODE_WANTED,
                                         .code_wanted = {.ticket = wanted->ticket,
                                                         .pid = wanted->pid,
                                                         .n = wanted->n,
                                                         .frames = wanted->frames}};
    return symbolizer_queue_put(table->requests, &message);
}
