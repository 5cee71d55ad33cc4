/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process is gone is asked of the kernel by kill(pid, 0), which any process may: a leader
 * that has left stays a zombie while threads of its group run, and until it is waited for.
 */
#include "agent-bpf/drain/exited_leaders.h"
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/types.h>

static int16_t *head_of(struct exited_leaders *exited_leaders, uint32_t pid)
{
    return &exited_leaders->heads[pid % EXITED_LEADERS_BUCKETS];
}

/* The link that points to the entry, or to the end of its bucket. */
static int16_t *link_of(struct exited_leaders *exited_leaders, uint32_t pid)
{
    int16_t *link = head_of(exited_leaders, pid);
    while (*link >= 0 && exited_leaders->pids[*link] != pid)
        link = &exited_leaders->next[*link];
    return link;
}

void exited_leaders_init(struct exited_leaders *exited_leaders)
{
    exited_leaders->count = 0;
    for (int i = 0; i < EXITED_LEADERS_BUCKETS; i++)
        exited_leaders->heads[i] = -1;
}

int exited_leaders_add(struct exited_leaders *exited_leaders, uint32_t pid)
{
    if (*link_of(exited_leaders, pid) >= 0)
        return 0;
    if (exited_leaders->count == EXITED_LEADERS_MAX)
        return EXITED_LEADERS_FULL;
    int16_t entry = (int16_t)exited_leaders->count++;
    int16_t *head = head_of(exited_leaders, pid);
    exited_leaders->pids[entry] = pid;
    exited_leaders->next[entry] = *head;
    *head = entry;
    return 0;
}

bool exited_leaders_remove(struct exited_leaders *exited_leaders, uint32_t pid)
{
    int16_t *link = link_of(exited_leaders, pid);
    int16_t entry = *link;
    if (entry < 0)
        return false;
    *link = exited_leaders->next[entry];
    int16_t last = (int16_t)--exited_leaders->count;
    if (entry == last)
        return true;
    /* the last one moves into the gap */
    link = link_of(exited_leaders, exited_leaders->pids[last]);
    assert(*link == last);
    exited_leaders->pids[entry] = exited_leaders->pids[last];
    exited_leaders->next[entry] = exited_leaders->next[last];
    *link = entry;
    return true;
}

uint32_t exited_leaders_next_gone(struct exited_leaders *exited_leaders, uint32_t *cursor)
{
    for (; *cursor < exited_leaders->count; (*cursor)++) {
        uint32_t pid = exited_leaders->pids[*cursor];
        if (kill((pid_t)pid, 0) < 0 && errno == ESRCH) {
            exited_leaders_remove(exited_leaders, pid);
            return pid;
        }
    }
    return 0;
}
