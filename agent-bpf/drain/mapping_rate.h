/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How many mappings of a process are taken: a burst of MAPPING_BURST (as many as a process's image
 * holds), and MAPPING_RATE a second after it. A process that maps without pause loses its own
 * mappings, not those of others, and costs nobody more than the look at each record.
 * Limit: MAPPING_RATE_PROCESSES that mapped something lately; one beyond displaces another, which
 * then has a whole burst again. Thread: its owner's.
 */
#include "agent-bpf/process_event.h"
#include <stdbool.h>

#define MAPPING_BURST          PROCESS_MAPPINGS_MAX
#define MAPPING_RATE           500
#define MAPPING_RATE_PROCESSES 1024

struct mapping_rate {
    struct mapping_tokens {
        uint32_t pid; /* 0 = free */
        uint32_t tokens;
        uint64_t time_ns; /* when they were counted last */
    } of[MAPPING_RATE_PROCESSES];
};

/* False: one more than the process may have. time_ns: of the event. */
bool mapping_rate_take(struct mapping_rate *rate, uint32_t pid, uint64_t time_ns);
/* Another process has this number now. */
void mapping_rate_forget(struct mapping_rate *rate, uint32_t pid);
