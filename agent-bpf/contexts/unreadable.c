/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/contexts/unreadable.h"
#include "base/stats.h"

static const char *const reason_names[] = {
    [CONTEXT_UNREADABLE_MALFORMED] = "malformed",
    [CONTEXT_UNREADABLE_BEING_CHANGED] = "being_changed",
    [CONTEXT_UNREADABLE_PROCESS_CHANGED] = "process_changed",
    [CONTEXT_UNREADABLE_VARIABLE] = "unresolved_variable",
    [CONTEXT_UNREADABLE_NO_VARIABLE] = "no_variable",
    [CONTEXT_UNREADABLE_LIBC] = "unknown_libc",
    [CONTEXT_UNREADABLE_RECORDS] = "records",
    [CONTEXT_UNREADABLE_TOO_MANY] = "too_many",
    [CONTEXT_UNREADABLE_MEMORY] = "memory",
    [CONTEXT_UNREADABLE_LABELS] = "unsupported_labels",
    [CONTEXT_UNREADABLE_GO] = "unsupported_go",
    [CONTEXT_UNREADABLE_STORAGE] = "malformed_storage",
    [CONTEXT_UNREADABLE_SOCKET_REFUSED] = "refused_socket",
    [CONTEXT_UNREADABLE_SOCKET_FAILED] = "unreachable_socket",
    [CONTEXT_UNREADABLE_ENVIRONMENT] = "malformed_environment",
    [CONTEXT_UNREADABLE_NO_ROOM] = "no_room",
};
STAT_LOSSES(unreadable, "spanprof_contexts_unreadable_total",
            "Times that a context which a process publishes could not be read.",
            STAT_LABEL("reason", reason_names, CONTEXT_UNREADABLES));

void context_count_unreadable(enum context_unreadable reason)
{
    stat_add_of(&unreadable, reason, 1);
}

const char *context_unreadable_name(enum context_unreadable reason)
{
    return reason_names[reason];
}
