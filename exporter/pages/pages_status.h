/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Problems of this node, in sentences that say what to do. Private to exporter/pages/.
 */
#include "base/json_write.h"
#include "base/stats.h"
#include "exporter/pages/pages_programs.h"

struct pages_queue {
    const char *exporter; /* id */
    int signal;           /* enum signal */
    uint64_t items, bytes, oldest_s;
};

/* Writes the array "problems". */
void pages_status_problems(const struct pages_facts *facts, const struct pages_programs *programs,
                           const struct pages_queue *queues, size_t n_queues,
                           struct json_writer *json);
/* Writes the member "waiting_samples": samples that still wait for their span or their window. No
 * answer contains them yet. */
void pages_status_waiting(struct json_writer *json);
/* A counter's sum over all its labels. */
int64_t pages_status_total(const char *name);
