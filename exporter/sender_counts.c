/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/sender_counts.h"
#include "base/stats.h"

STAT_COUNTERS(sent, "spanprof_exporter_sent_items_total",
              "Items (spans, samples, data points, log records) that a backend has taken.",
              STAT_LABEL("signal", signal_names, SIGNAL_COUNT));

/* The reason for a missing service names the signal. So each signal has its own reason, and the
 * reasons of other signals are absent. */
enum { REASONS = SENDER_LOST_UNIMPLEMENTED + SIGNAL_COUNT };
_Static_assert(SENDER_LOST_UNIMPLEMENTED == SENDER_LOSSES - 1, "the reasons of signals are last");
#define NO_SERVICE(of, missing) STAT_BIT((of)*REASONS + SENDER_LOST_UNIMPLEMENTED + (missing))
#define NO_SERVICE_OF_OTHERS(of)                                                                   \
    ((NO_SERVICE(of, SIGNAL_COUNT) - NO_SERVICE(of, 0)) & ~NO_SERVICE(of, of))

static const char *const reason_names[] = {
    [SENDER_LOST_REFUSED] = "refused",
    [SENDER_LOST_EXPIRED] = "max_elapsed_time",
    [SENDER_LOST_NOT_RETRIED] = "retry_disabled",
    [SENDER_LOST_PARTIAL] = "partial_success",
    [SENDER_LOST_TOO_BIG] = "too_big",
    [SENDER_LOST_UNIMPLEMENTED + SIGNAL_TRACES] = "no_traces_service",
    [SENDER_LOST_UNIMPLEMENTED + SIGNAL_PROFILES] = "no_profiles_service",
    [SENDER_LOST_UNIMPLEMENTED + SIGNAL_METRICS] = "no_metrics_service",
    [SENDER_LOST_UNIMPLEMENTED + SIGNAL_LOGS] = "no_logs_service",
};
STAT_LOSSES(dropped, "spanprof_exporter_dropped_items_total",
            "Items that a backend will never get, by reason.",
            STAT_LABELS("signal", signal_names, SIGNAL_COUNT, "reason", reason_names, REASONS),
            .absent = NO_SERVICE_OF_OTHERS(SIGNAL_TRACES) | NO_SERVICE_OF_OTHERS(SIGNAL_PROFILES) |
                      NO_SERVICE_OF_OTHERS(SIGNAL_METRICS) | NO_SERVICE_OF_OTHERS(SIGNAL_LOGS));
STAT_LOSS(rejected_profiles, "spanprof_exporter_rejected_profiles_total",
          "Profiles that backends rejected in a partial success. Backends do not say how many "
          "samples these had: the samples count as sent.");

static const char *const outcome_names[] = {
    [SENDER_OK] = "ok", [SENDER_RETRY] = "retry", [SENDER_REFUSED] = "refused"};
STAT_COUNTERS(requests, "spanprof_exporter_requests_total", "Requests to backends, by outcome.",
              STAT_LABEL("outcome", outcome_names, SENDER_OUTCOMES),
              .losses = STAT_BIT(SENDER_REFUSED));

void sender_count_request(enum sender_outcome outcome)
{
    stat_add_of(&requests, outcome, 1);
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
    stat_add_of(&sent, signal, (int64_t)items);
}

void sender_count_lost(enum signal signal, enum sender_loss loss, uint64_t items)
{
    unsigned reason = loss;
    if (loss == SENDER_LOST_UNIMPLEMENTED)
        reason += signal;
    stat_add_of2(&dropped, signal, reason, (int64_t)items);
}
