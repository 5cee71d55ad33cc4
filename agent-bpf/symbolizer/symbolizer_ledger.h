/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names the process that the symbolizer is inspecting, in memory that outlives the symbolizer. If
 * the symbolizer is killed meanwhile, that process is banned: for 2 s, the second time for a
 * minute, then longer. A symbolizer killed for another reason also costs the inspected process
 * those 2 s. Limit: 256 processes; the ban that ends first is forgotten. NULL is fine everywhere.
 * Thread: the symbolizer's loop.
 */
#include "agent-bpf/symbolizer/symbolizer.h"
#include <stdint.h>

void symbolizer_ledger_enter(struct symbolizer_ledger *ledger, uint32_t pid);
void symbolizer_ledger_leave(struct symbolizer_ledger *ledger);
/* At the start of a symbolizer: bans the process that the one before was inspecting. Its pid; 0 =
 * none. */
uint32_t symbolizer_ledger_ban_last(struct symbolizer_ledger *ledger, uint64_t now_ns);
/* CLOCK_MONOTONIC of the end of its ban; 0 = it is not banned. */
uint64_t symbolizer_ledger_banned(const struct symbolizer_ledger *ledger, uint32_t pid,
                                  uint64_t now_ns);
