/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What analyst, analyst client and process table count; the table of names and sentences is in the
 * .c. Thread: any.
 */
#include <stddef.h>
#include <stdint.h>

enum analyst_stat {
    /* process table */
    COUNT_PROCESSES,
    COUNT_PROCESS_BYTES,
    COUNT_PROCESS_TABLE_FULL,
    COUNT_PROCESS_MAPPINGS_FULL,
    COUNT_PROCESS_BYTES_FULL,
    COUNT_PROCESS_STALE_EVENTS,
    COUNT_PROCESS_REQUESTS_DROPPED,
    COUNT_PROCESS_BUDGET_SPENT,
    COUNT_PROCESS_UNRESOLVED,
    /* analyst client */
    COUNT_CLIENT_ATTACHED,
    COUNT_CLIENT_DROPPED,
    COUNT_CLIENT_UNANSWERED_DROPPED,
    COUNT_CLIENT_MALFORMED,
    /* analyst */
    COUNT_SYMBOLS_LEFT_OUT,
    COUNT_OPEN_REFUSED,
    COUNT_OPEN_DIFFERENT,
    COUNT_OPEN_FAILED,
    COUNT_EXECUTABLES_MALFORMED,
    COUNT_CONTEXTS_ATTACHED,
    COUNT_CONTEXTS_MALFORMED,
    COUNT_CONTEXTS_BUSY,
    COUNT_CONTEXTS_RACED,
    COUNT_BANNED,
    COUNT_HANGS,
    COUNT_ANALYST_QUEUE_FULL,
    COUNT_ANALYST_PROCESSES_FULL,
    COUNT_SYMBOL_BYTES,
    COUNT_SCANS,
    COUNT_ANALYST_STATS
};

void analyst_count(enum analyst_stat stat, int64_t delta);
void analyst_gauge(enum analyst_stat stat, int64_t value);
int64_t analyst_counted(enum analyst_stat stat);
