/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/intake/intake_refused.h"
#include "base/stats.h"

#define REFUSED(signal, reason)                                                                    \
    STAT_LOSS(refused_##signal##_##reason, "spanprof_requests_refused_total",                      \
              "signal=\"" #signal "\",reason=\"" #reason "\"",                                     \
              "Requests refused for good or for now, by reason.")
#define REFUSED_ALL(signal)                                                                        \
    REFUSED(signal, busy);                                                                         \
    REFUSED(signal, store);                                                                        \
    REFUSED(signal, malformed);                                                                    \
    REFUSED(signal, too_big)
#define TABLE(signal)                                                                              \
    {                                                                                              \
        &refused_##signal##_busy, &refused_##signal##_store, &refused_##signal##_malformed,        \
            &refused_##signal##_too_big                                                            \
    }

REFUSED_ALL(traces);
REFUSED_ALL(profiles);
REFUSED_ALL(metrics);
REFUSED_ALL(logs);

void intake_refused(enum signal signal, enum intake_refusal reason)
{
    static struct metric *const counters[SIGNAL_COUNT][INTAKE_REFUSALS] = {
        [SIGNAL_TRACES] = TABLE(traces),
        [SIGNAL_PROFILES] = TABLE(profiles),
        [SIGNAL_METRICS] = TABLE(metrics),
        [SIGNAL_LOGS] = TABLE(logs),
    };
    stat_add(counters[signal][reason], 1);
}
