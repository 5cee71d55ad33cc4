/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which process the analyst is looking at, in memory that outlives it: an analyst that was killed
 * there leaves the name of the one that blocked it. That one is left alone for 2 s, the second time
 * for a minute, then longer; an analyst killed for another reason costs its subject those 2 s.
 * Thread: the analyst's loop. All verbs take NULL. Limit: 256 processes; the ban that ends first is
 * forgotten.
 */
#include "agent-bpf/analyst/analyst.h"
#include <stdint.h>

void analyst_ledger_enter(struct analyst_ledger *ledger, uint32_t pid);
void analyst_ledger_leave(struct analyst_ledger *ledger);
/* At the start of an analyst: bans whom the one before did not leave; its pid, 0 = none. */
uint32_t analyst_ledger_settle(struct analyst_ledger *ledger, uint64_t now_ns);
/* CLOCK_MONOTONIC until when it is banned; 0 = it is not. */
uint64_t analyst_ledger_banned(const struct analyst_ledger *ledger, uint32_t pid, uint64_t now_ns);
