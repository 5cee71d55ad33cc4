/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/sender_counts.h"
#include "base/stats.h"

#define SENT(signal)                                                                               \
    STAT_COUNTER(sent_##signal, "spanprof_exporter_sent_items_total", "signal=\"" #signal "\"",    \
                 "Items (spans, samples, data points, log records) that a backend has taken.")
SENT(traces);
SENT(profiles);
SENT(metrics);
SENT(logs);
static struct metric *const sent[SIGNAL_COUNT] = {&sent_traces, &sent_profiles, &sent_metrics,
                                                  &sent_logs};

#define DROPPED(name, signal, reason)                                                              \
    STAT_LOSS(name, "spanprof_exporter_dropped_items_total",                                       \
              "signal=\"" #signal "\",reason=\"" reason "\"",                                      \
              "Items that a backend will never get, by reason.")
#define DROPPED_ALL(signal)                                                                        \
    DROPPED(refused_##signal, signal, "refused");                                                  \
    DROPPED(expired_##signal, signal, "max_elapsed_time");                                         \
    DROPPED(not_retried_##signal, signal, "retry_disabled");                                       \
    DROPPED(partial_##signal, signal, "partial_success");                                          \
    DROPPED(unserved_##signal, signal, "no_" #signal "_service");                                  \
    DROPPED(too_big_##signal, signal, "too_big")
#define DROPPED_TABLE(signal)                                                                      \
    {                                                                                              \
        [SENDER_LOST_REFUSED] = &refused_##signal, [SENDER_LOST_EXPIRED] = &expired_##signal,      \
        [SENDER_LOST_NOT_RETRIED] = &not_retried_##signal,                                         \
        [SENDER_LOST_PARTIAL] = &partial_##signal,                                                 \
        [SENDER_LOST_UNIMPLEMENTED] = &unserved_##signal,                                          \
        [SENDER_LOST_TOO_BIG] = &too_big_##signal                                                  \
    }
DROPPED_ALL(traces);
DROPPED_ALL(profiles);
DROPPED_ALL(metrics);
DROPPED_ALL(logs);
static struct metric *const dropped[SIGNAL_COUNT][SENDER_LOSSES] = {
    [SIGNAL_TRACES] = DROPPED_TABLE(traces),
    [SIGNAL_PROFILES] = DROPPED_TABLE(profiles),
    [SIGNAL_METRICS] = DROPPED_TABLE(metrics),
    [SIGNAL_LOGS] = DROPPED_TABLE(logs),
};
STAT_LOSS(rejected_profiles, "spanprof_exporter_rejected_profiles_total", "",
          "Profiles that a partial success named. Their samples, of which a backend says nothing, "
          "are among the items sent.");
STAT_COUNTER(requests_sent, "spanprof_exporter_requests_total", "outcome=\"ok\"",
             "Requests to backends, by outcome.");
STAT_COUNTER(requests_retried, "spanprof_exporter_requests_total", "outcome=\"retry\"",
             "Requests to backends, by outcome.");
STAT_LOSS(requests_refused, "spanprof_exporter_requests_total", "outcome=\"refused\"",
          "Requests to backends, by outcome.");
static struct metric *const requests[SENDER_OUTCOMES] = {[SENDER_OK] = &requests_sent,
                                                         [SENDER_RETRY] = &requests_retried,
                                                         [SENDER_REFUSED] = &requests_refused};

void sender_count_request(enum sender_outcome outcome)
{
    stat_add(requests[outcome], 1);
}

uint64_t sender_count_taken(enum signal signal, uint64_t items, int64_t rejected)
{
    uint64_t n = rejected > 0 ? (uint64_t)rejected : 0;
    n = n < items ? n : items;
    uint64_t lost = signal == SIGNAL_PROFILES ? 0 : n;
    sender_count_request(SENDER_OK);
    sender_count_sent(signal, items - lost);
    sender_count_lost(signal, SENDER_LOST_PARTIAL, lost);
    stat_add(&rejected_profiles, (int64_t)(n - lost));
    return n;
}

void sender_count_sent(enum signal signal, uint64_t items)
{
    stat_add(sent[signal], (int64_t)items);
}

void sender_count_lost(enum signal signal, enum sender_loss loss, uint64_t items)
{
    stat_add(dropped[signal][loss], (int64_t)items);
}
