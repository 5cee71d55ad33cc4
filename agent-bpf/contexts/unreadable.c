/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/contexts/unreadable.h"
#include "base/stats.h"

STAT_LOSSES(unreadable, "spanprof_contexts_unreadable_total",
            "Times that a context which a process publishes could not be read.",
            STAT_LABEL("reason", context_unreadable_names, CONTEXT_UNREADABLES));

void context_count_unreadable(enum context_unreadable reason)
{
    stat_add_of(&unreadable, reason, 1);
}
