/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which process the symbolizer is looking at, in memory that outlives it: a symbolizer that was
 * killed there leaves the name of the one that blocked it. That one is left alone for 2 s, the
 * second time for a minute, then longer; a symbolizer killed for another reason costs its subject
 * those 2 s. Thread: the symbolizer's loop. All verbs take NULL. Limit: 256 processes; the ban that
 * ends first is forgotten.
 */
#include "agent-bpf/symbolizer/symbolizer.h"
#include <stdint.h>

void symbolizer_ledger_enter(struct symbolizer_ledger *ledger, uint32_t pid);
void symbolizer_ledger_leave(struct symbolizer_ledger *ledger);
/* At the start of a symbolizer: bans whom the one before did not leave; its pid, 0 = none. */
uint32_t symbolizer_ledger_settle(struct symbolizer_ledger *ledger, uint64_t now_ns);
/* CLOCK_MONOTONIC until when it is banned; 0 = it is not. */
uint64_t symbolizer_ledger_banned(const struct symbolizer_ledger *ledger, uint32_t pid,
                                  uint64_t now_ns);
