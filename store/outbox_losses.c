/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stats.h"
#include "store/outbox_parts.h"

#define LOST(signal, reason)                                                                       \
    STAT_LOSS(lost_##signal##_##reason, "spanprof_outbox_dropped_items_total",                     \
              "signal=\"" #signal "\",reason=\"" #reason "\"",                                     \
              "Items of waiting requests that were given up, by why.")
#define LOST_ALL(signal)                                                                           \
    LOST(signal, full);                                                                            \
    LOST(signal, no_destination)
#define TABLE(signal)                                                                              \
    {                                                                                              \
        &lost_##signal##_full, &lost_##signal##_no_destination                                     \
    }

LOST_ALL(traces);
LOST_ALL(profiles);
LOST_ALL(metrics);
LOST_ALL(logs);

void outbox_count_lost(enum signal signal, enum outbox_loss reason, int64_t items)
{
    static struct metric *const counters[SIGNAL_COUNT][OUTBOX_LOSSES] = {
        [SIGNAL_TRACES] = TABLE(traces),
        [SIGNAL_PROFILES] = TABLE(profiles),
        [SIGNAL_METRICS] = TABLE(metrics),
        [SIGNAL_LOGS] = TABLE(logs),
    };
    stat_add(counters[signal][reason], items);
}
