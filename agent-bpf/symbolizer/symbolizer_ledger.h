/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who has held the symbolizer or its reader, in memory that outlives both. A process is easily
 * replaced by another one, so its cgroup is banned: nothing of its processes is read for 2 s, the
 * second time for a minute, then longer. A login user's cgroups count as one, for the user may make
 * more. In the root cgroup, which is everybody's, the user is banned instead, and of root's
 * processes the pid. (Elsewhere not the user: containers share user ids.)
 *
 * The ledger also names the process that the symbolizer is looking at, so that the next symbolizer
 * knows whom to ban. One killed for another reason costs the process looked at those 2 s.
 * Limit: 256 bans; the one that ends first is forgotten. NULL is fine everywhere. Thread: the
 * symbolizer's loop.
 */
#include "agent-bpf/symbolizer/symbolizer.h"
#include <stdbool.h>
#include <stdint.h>

enum process_owner_kind { OWNER_NONE, OWNER_CGROUP, OWNER_USER, OWNER_PROCESS };

struct process_owner { /* who answers for a process */
    enum process_owner_kind kind;
    uint32_t pid;
    uint64_t key; /* hash of the cgroup's path, real user id, or pid */
};

/* From texts of /proc/PID, which may be empty: then the process itself answers. Pure. */
void process_owner_from(uint32_t pid, struct bytes cgroup, struct bytes status,
                        struct process_owner *owner);

void symbolizer_ledger_enter(struct symbolizer_ledger *ledger, const struct process_owner *owner);
void symbolizer_ledger_leave(struct symbolizer_ledger *ledger);
/* At the start of a symbolizer: bans the one that the symbolizer before was looking at. Its pid;
 * 0 = none. */
uint32_t symbolizer_ledger_ban_last(struct symbolizer_ledger *ledger, uint64_t now_ns);
void symbolizer_ledger_ban(struct symbolizer_ledger *ledger, const struct process_owner *owner,
                           uint64_t now_ns);
/* False: nobody was ever banned. */
bool symbolizer_ledger_has_bans(const struct symbolizer_ledger *ledger);
/* for_good: bans do not end. */
bool symbolizer_ledger_banned(const struct symbolizer_ledger *ledger,
                              const struct process_owner *owner, uint64_t now_ns, bool for_good);
