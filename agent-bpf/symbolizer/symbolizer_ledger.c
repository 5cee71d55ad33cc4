/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/symbolizer/symbolizer_ledger.h"
#include "base/clock.h"
#include "base/stats.h"
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

STAT_LOSS(hangs, "spanprof_symbolizer_hangs_total",
          "Symbolizers that ended while they were inspecting a process.");

#define BANS_MAX 256

struct ban {
    uint32_t pid;
    uint32_t strikes;
    uint64_t until_ns;
};

struct symbolizer_ledger {
    _Atomic uint32_t current;
    struct ban bans[BANS_MAX];
};

static const uint64_t ban_ns[] = {2 * NS_PER_SEC, 60 * NS_PER_SEC, 600 * NS_PER_SEC,
                                  3600 * NS_PER_SEC};

int symbolizer_ledger_open(struct symbolizer_ledger **out)
{
    void *memory = mmap(NULL, sizeof(struct symbolizer_ledger), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -errno;
    *out = memory;
    return 0;
}

void symbolizer_ledger_close(struct symbolizer_ledger *ledger)
{
    if (ledger)
        munmap(ledger, sizeof(*ledger));
}

void symbolizer_ledger_enter(struct symbolizer_ledger *ledger, uint32_t pid)
{
    if (ledger)
        atomic_store_explicit(&ledger->current, pid, memory_order_relaxed);
}

void symbolizer_ledger_leave(struct symbolizer_ledger *ledger)
{
    if (ledger)
        atomic_store_explicit(&ledger->current, 0, memory_order_relaxed);
}

static struct ban *ban_of(struct symbolizer_ledger *ledger, uint32_t pid)
{
    struct ban *oldest = &ledger->bans[0];
    for (int i = 0; i < BANS_MAX; i++) {
        if (ledger->bans[i].pid == pid)
            return &ledger->bans[i];
        if (ledger->bans[i].until_ns < oldest->until_ns)
            oldest = &ledger->bans[i];
    }
    *oldest = (struct ban){.pid = pid};
    return oldest;
}

uint32_t symbolizer_ledger_ban_last(struct symbolizer_ledger *ledger, uint64_t now_ns)
{
    uint32_t pid = ledger ? atomic_exchange(&ledger->current, 0) : 0;
    if (!pid)
        return 0;
    struct ban *ban = ban_of(ledger, pid);
    uint32_t last = sizeof(ban_ns) / sizeof(*ban_ns) - 1;
    ban->until_ns = now_ns + ban_ns[ban->strikes < last ? ban->strikes : last];
    ban->strikes++;
    stat_add(&hangs, 1);
    return pid;
}

uint64_t symbolizer_ledger_banned(const struct symbolizer_ledger *ledger, uint32_t pid,
                                  uint64_t now_ns)
{
    for (int i = 0; ledger && i < BANS_MAX; i++)
        if (ledger->bans[i].pid == pid && ledger->bans[i].until_ns > now_ns)
            return ledger->bans[i].until_ns;
    return 0;
}
