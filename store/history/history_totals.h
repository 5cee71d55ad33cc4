/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * CPU time of recent traces in all blocks so far. Bounded: when there are too many traces, those
 * that are not over stay, and among them those with the most time. A forgotten trace starts at zero
 * again. Thread: the owner's.
 */
#include "base/bytes.h"

struct history_totals;

int history_totals_open(struct history_totals **totals);  /* -ENOMEM; errno of getrandom() */
void history_totals_close(struct history_totals *totals); /* NULL is fine */
void history_totals_clear(struct history_totals *totals);
uint64_t history_totals_get(const struct history_totals *totals, const uint8_t trace_id[16]);
/* is_over: the trace's root span has arrived, so usually no more data follows. */
void history_totals_set(struct history_totals *totals, const uint8_t trace_id[16], uint64_t cpu_ns,
                        bool is_over);
/* Call it for each block: totals that were not set for long are removed first. */
void history_totals_age(struct history_totals *totals);
