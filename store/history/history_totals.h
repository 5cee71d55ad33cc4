/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How much CPU time each of the traces that came lately has in blocks so far. Bounded: of traces
 * that are too many, those stay that are not over, and of them those with most. What is forgotten
 * begins at zero again. Thread: whoever holds it.
 */
#include "base/bytes.h"

struct history_totals;

int history_totals_open(struct history_totals **totals);  /* -ENOMEM; errno of getrandom() */
void history_totals_close(struct history_totals *totals); /* NULL is fine */
void history_totals_clear(struct history_totals *totals);
uint64_t history_totals_get(const struct history_totals *totals, const uint8_t trace_id[16]);
/* is_over: its root has come, so mostly nothing comes any more. */
void history_totals_set(struct history_totals *totals, const uint8_t trace_id[16], uint64_t cpu_ns,
                        bool is_over);
/* Another block: what has not been set for long gives way first. */
void history_totals_age(struct history_totals *totals);
