/* SPDX-License-Identifier: Apache-2.0 */
/* One place, for sources that need the kernel's struct metric cannot see that of base/stats.h as
 * well. */
#include "agent-bpf/analyst/analyst_stats.h"
#include "base/stats.h"

STAT_GAUGE(processes, "spanprof_processes", "", "Processes in the process table.");
STAT_GAUGE(process_bytes, "spanprof_process_table_bytes", "", "Memory of the process table.");
STAT_LOSS(table_full, "spanprof_process_table_full_total", "limit=\"processes\"",
          "Process events left out because a limit of the process table was reached.");
STAT_LOSS(mappings_full, "spanprof_process_table_full_total", "limit=\"mappings\"",
          "Process events left out because a limit of the process table was reached.");
STAT_LOSS(bytes_full, "spanprof_process_table_full_total", "limit=\"bytes\"",
          "Process events left out because a limit of the process table was reached.");
STAT_COUNTER(stale_events, "spanprof_process_stale_events_total", "",
             "Findings of a scan that newer events had overtaken.");
STAT_LOSS(requests_dropped, "spanprof_process_requests_dropped_total", "reason=\"queue_full\"",
          "Requests to the analyst left out: too many waiting, or too many for one process.");
STAT_LOSS(budget_spent, "spanprof_process_requests_dropped_total", "reason=\"process_budget\"",
          "Requests to the analyst left out: too many waiting, or too many for one process.");
STAT_LOSS(unresolved, "spanprof_process_addresses_unresolved_total", "",
          "User addresses in no known mapping of a file.");
STAT_COUNTER(attached, "spanprof_analyst_attached_total", "",
             "Analysts that the service was connected to.");
STAT_LOSS(client_dropped, "spanprof_analyst_requests_dropped_total", "reason=\"queue_full\"",
          "Requests to the analyst given up.");
STAT_LOSS(unanswered_dropped, "spanprof_analyst_requests_dropped_total", "reason=\"unanswered\"",
          "Requests to the analyst given up.");
STAT_COUNTER(malformed, "spanprof_analyst_messages_malformed_total", "",
             "Messages of the analyst that were not understood; it was disconnected.");
STAT_LOSS(symbols_left_out, "spanprof_symbols_left_out_total", "",
          "Function symbols beyond the limit of one executable.");
STAT_LOSS(open_refused, "spanprof_executables_not_opened_total", "reason=\"refused\"",
          "Mapped files not read: refused are FIFOs, devices, empty files and FUSE.");
STAT_LOSS(open_different, "spanprof_executables_not_opened_total", "reason=\"different\"",
          "Mapped files not read: refused are FIFOs, devices, empty files and FUSE.");
STAT_LOSS(open_failed, "spanprof_executables_not_opened_total", "reason=\"failed\"",
          "Mapped files not read: refused are FIFOs, devices, empty files and FUSE.");
STAT_LOSS(executables_malformed, "spanprof_executables_malformed_total", "",
          "Mapped files that are no ELF file for this reader.");
STAT_COUNTER(contexts_attached, "spanprof_contexts_attached_total", "",
             "Times that a process's thread context was made readable for the sampler.");
STAT_LOSS(contexts_malformed, "spanprof_contexts_unreadable_total", "reason=\"malformed\"",
          "Times that what a process publishes of its contexts could not be read.");
STAT_LOSS(contexts_busy, "spanprof_contexts_unreadable_total", "reason=\"being_changed\"",
          "Times that what a process publishes of its contexts could not be read.");
STAT_LOSS(contexts_raced, "spanprof_contexts_unreadable_total", "reason=\"process_changed\"",
          "Times that what a process publishes of its contexts could not be read.");
STAT_LOSS(contexts_unresolved, "spanprof_contexts_unreadable_total",
          "reason=\"unresolved_variable\"",
          "Times that what a process publishes of its contexts could not be read.");
STAT_LOSS(contexts_memory, "spanprof_contexts_unreadable_total", "reason=\"memory\"",
          "Times that what a process publishes of its contexts could not be read.");
STAT_LOSS(contexts_version, "spanprof_contexts_unreadable_total", "reason=\"unsupported_labels\"",
          "Times that what a process publishes of its contexts could not be read.");
STAT_LOSS(contexts_go, "spanprof_contexts_unreadable_total", "reason=\"unsupported_go\"",
          "Times that what a process publishes of its contexts could not be read.");
STAT_LOSS(contexts_storage, "spanprof_contexts_unreadable_total", "reason=\"malformed_storage\"",
          "Times that what a process publishes of its contexts could not be read.");
STAT_LOSS(contexts_refused, "spanprof_contexts_unreadable_total", "reason=\"refused_socket\"",
          "Times that what a process publishes of its contexts could not be read.");
STAT_LOSS(contexts_unreachable, "spanprof_contexts_unreadable_total",
          "reason=\"unreachable_socket\"",
          "Times that what a process publishes of its contexts could not be read.");
STAT_LOSS(contexts_environment, "spanprof_contexts_unreadable_total",
          "reason=\"malformed_environment\"",
          "Times that what a process publishes of its contexts could not be read.");
STAT_LOSS(contexts_no_room, "spanprof_contexts_unreadable_total", "reason=\"no_room\"",
          "Times that what a process publishes of its contexts could not be read.");
STAT_GAUGE(readers_otel_thread, "spanprof_context_readers", "source=\"otel_thread\"",
           "Processes whose contexts are read, by source.");
STAT_GAUGE(readers_elastic, "spanprof_context_readers", "source=\"elastic\"",
           "Processes whose contexts are read, by source.");
STAT_GAUGE(readers_go_labels, "spanprof_context_readers", "source=\"go_labels\"",
           "Processes whose contexts are read, by source.");
STAT_GAUGE(readers_custom_labels, "spanprof_context_readers", "source=\"custom_labels\"",
           "Processes whose contexts are read, by source.");
STAT_LOSS(banned, "spanprof_processes_banned_total", "",
          "Looks at a process left out because it had blocked an analyst before.");
STAT_LOSS(hangs, "spanprof_analyst_hangs_total", "",
          "Analysts that ended while they looked at a process.");
STAT_LOSS(queue_full, "spanprof_analyst_queue_full_total", "what=\"work\"",
          "Work that the analyst left out because of a limit.");
STAT_LOSS(processes_full, "spanprof_analyst_queue_full_total", "what=\"processes\"",
          "Work that the analyst left out because of a limit.");
STAT_GAUGE(symbol_bytes, "spanprof_symbol_bytes", "", "Memory of the analyst's symbol tables.");
STAT_LOSS(lines_unreadable, "spanprof_lines_unreadable_total", "",
          "Executables without lines because their DWARF was malformed or too large.");
STAT_LOSS(lines_late, "spanprof_lines_late_total", "",
          "Answers of names in which lines may be missing, because looking took too long.");
STAT_COUNTER(scans, "spanprof_process_scans_total", "", "Complete scans of /proc.");

STAT_COUNTER(unwind_pages_made, "spanprof_unwind_pages_made_total", "",
             "Pages of 64 KiB of code whose unwind rows were decoded.");
STAT_GAUGE(unwind_pages, "spanprof_unwind_pages", "", "Pages of unwind rows in the kernel.");
STAT_GAUGE(unwind_blocks, "spanprof_unwind_blocks", "",
           "Blocks of unwind rows in the kernel, of 4096 bytes each.");
STAT_GAUGE(unwind_table_bytes, "spanprof_unwind_table_bytes", "",
           "What the analyst holds of the unwind information of files, but for rows.");
STAT_COUNTER(unwind_evicted, "spanprof_unwind_pages_evicted_total", "",
             "Pages of unwind rows that made room for others.");
STAT_LOSS(unwind_no_room, "spanprof_unwind_pages_no_room_total", "",
          "Pages of unwind rows, or files, that the kernel's maps had no room for.");
STAT_COUNTER(unwind_unreadable, "spanprof_unwind_files_unreadable_total", "",
             "Executables that could not be read for unwinding, or were too large; unwound by "
             "frame pointers for ten "
             "seconds.");

static struct metric *const stats[COUNT_ANALYST_STATS] = {
    [COUNT_PROCESSES] = &processes,
    [COUNT_PROCESS_BYTES] = &process_bytes,
    [COUNT_PROCESS_TABLE_FULL] = &table_full,
    [COUNT_PROCESS_MAPPINGS_FULL] = &mappings_full,
    [COUNT_PROCESS_BYTES_FULL] = &bytes_full,
    [COUNT_PROCESS_STALE_EVENTS] = &stale_events,
    [COUNT_PROCESS_REQUESTS_DROPPED] = &requests_dropped,
    [COUNT_PROCESS_BUDGET_SPENT] = &budget_spent,
    [COUNT_PROCESS_UNRESOLVED] = &unresolved,
    [COUNT_CLIENT_ATTACHED] = &attached,
    [COUNT_CLIENT_DROPPED] = &client_dropped,
    [COUNT_CLIENT_UNANSWERED_DROPPED] = &unanswered_dropped,
    [COUNT_CLIENT_MALFORMED] = &malformed,
    [COUNT_SYMBOLS_LEFT_OUT] = &symbols_left_out,
    [COUNT_OPEN_REFUSED] = &open_refused,
    [COUNT_OPEN_DIFFERENT] = &open_different,
    [COUNT_OPEN_FAILED] = &open_failed,
    [COUNT_EXECUTABLES_MALFORMED] = &executables_malformed,
    [COUNT_CONTEXTS_ATTACHED] = &contexts_attached,
    [COUNT_CONTEXTS_MALFORMED] = &contexts_malformed,
    [COUNT_CONTEXTS_BUSY] = &contexts_busy,
    [COUNT_CONTEXTS_RACED] = &contexts_raced,
    [COUNT_CONTEXTS_UNRESOLVED] = &contexts_unresolved,
    [COUNT_CONTEXTS_MEMORY] = &contexts_memory,
    [COUNT_CONTEXTS_VERSION] = &contexts_version,
    [COUNT_CONTEXTS_GO_UNSUPPORTED] = &contexts_go,
    [COUNT_CONTEXTS_STORAGE_MALFORMED] = &contexts_storage,
    [COUNT_CONTEXTS_SOCKET_REFUSED] = &contexts_refused,
    [COUNT_CONTEXTS_SOCKET_FAILED] = &contexts_unreachable,
    [COUNT_CONTEXTS_ENVIRONMENT] = &contexts_environment,
    [COUNT_CONTEXTS_NO_ROOM] = &contexts_no_room,
    [COUNT_READERS_OTEL_THREAD] = &readers_otel_thread,
    [COUNT_READERS_ELASTIC] = &readers_elastic,
    [COUNT_READERS_GO_LABELS] = &readers_go_labels,
    [COUNT_READERS_CUSTOM_LABELS] = &readers_custom_labels,
    [COUNT_BANNED] = &banned,
    [COUNT_HANGS] = &hangs,
    [COUNT_ANALYST_QUEUE_FULL] = &queue_full,
    [COUNT_ANALYST_PROCESSES_FULL] = &processes_full,
    [COUNT_SYMBOL_BYTES] = &symbol_bytes,
    [COUNT_LINES_UNREADABLE] = &lines_unreadable,
    [COUNT_LINES_LATE] = &lines_late,
    [COUNT_SCANS] = &scans,
    [COUNT_UNWIND_PAGES_MADE] = &unwind_pages_made,
    [COUNT_UNWIND_PAGES] = &unwind_pages,
    [COUNT_UNWIND_BLOCKS] = &unwind_blocks,
    [COUNT_UNWIND_TABLE_BYTES] = &unwind_table_bytes,
    [COUNT_UNWIND_EVICTED] = &unwind_evicted,
    [COUNT_UNWIND_NO_ROOM] = &unwind_no_room,
    [COUNT_UNWIND_UNREADABLE] = &unwind_unreadable,
};

void analyst_count(enum analyst_stat stat, int64_t delta)
{
    stat_add(stats[stat], delta);
}

void analyst_gauge(enum analyst_stat stat, int64_t value)
{
    stat_set(stats[stat], value);
}

int64_t analyst_counted(enum analyst_stat stat)
{
    return stat_get(stats[stat]);
}
