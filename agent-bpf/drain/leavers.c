/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process is gone is asked of the kernel by kill(pid, 0), which any process may: a leader
 * that has left stays a zombie while threads of its group run, and until it is waited for.
 */
#include "agent-bpf/drain/leavers.h"
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/types.h>

static int16_t *head_of(struct leavers *leavers, uint32_t pid)
{
    return &leavers->heads[pid % LEAVERS_BUCKETS];
}

/* The link that points to the entry, or to the end of its bucket. */
static int16_t *link_of(struct leavers *leavers, uint32_t pid)
{
    int16_t *link = head_of(leavers, pid);
    while (*link >= 0 && leavers->pids[*link] != pid)
        link = &leavers->next[*link];
    return link;
}

void leavers_init(struct leavers *leavers)
{
    leavers->count = 0;
    for (int i = 0; i < LEAVERS_BUCKETS; i++)
        leavers->heads[i] = -1;
}

int leavers_add(struct leavers *leavers, uint32_t pid)
{
    if (*link_of(leavers, pid) >= 0)
        return 0;
    if (leavers->count == LEAVERS_MAX)
        return LEAVERS_FULL;
    int16_t entry = (int16_t)leavers->count++;
    int16_t *head = head_of(leavers, pid);
    leavers->pids[entry] = pid;
    leavers->next[entry] = *head;
    *head = entry;
    return 0;
}

bool leavers_remove(struct leavers *leavers, uint32_t pid)
{
    int16_t *link = link_of(leavers, pid);
    int16_t entry = *link;
    if (entry < 0)
        return false;
    *link = leavers->next[entry];
    int16_t last = (int16_t)--leavers->count;
    if (entry == last)
        return true;
    /* the last one moves into the gap */
    link = link_of(leavers, leavers->pids[last]);
    assert(*link == last);
    leavers->pids[entry] = leavers->pids[last];
    leavers->next[entry] = leavers->next[last];
    *link = entry;
    return true;
}

uint32_t leavers_next_gone(struct leavers *leavers, uint32_t *cursor)
{
    for (; *cursor < leavers->count; (*cursor)++) {
        uint32_t pid = leavers->pids[*cursor];
        if (kill((pid_t)pid, 0) < 0 && errno == ESRCH) {
            leavers_remove(leavers, pid);
            return pid;
        }
    }
    return 0;
}
