/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is wrong, in words that say what to do. Private to exporter/pages_status*.c.
 */
#include "base/json_write.h"
#include "base/stats.h"
#include "exporter/pages/pages_route.h"
#include "store/window/coverage.h"

struct pages_queue {
    const char *exporter; /* id */
    int signal;           /* enum signal */
    uint64_t items, bytes, oldest_s;
};

/* The array "problems". */
void pages_status_problems(const struct pages_facts *facts, const struct pages_queue *queues,
                           size_t n_queues, struct json_writer *json);
/* Member "waiting_samples": samples that still wait for their span or their window, and so are in
 * no answer yet. */
void pages_status_waiting(struct json_writer *json);
/* Of a counter, over all its labels. */
int64_t pages_status_total(const char *name);
/* Why the samples of a process do not all have their span; process: of the history, coverage: of
 * the same, NULL if it has none. */
const char *pages_status_why(const struct history_series *process,
                             const struct coverage_process *coverage);
