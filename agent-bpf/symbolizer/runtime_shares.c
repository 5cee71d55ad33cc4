/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/symbolizer/runtime_shares.h"
#include "agent-bpf/runtimes/runtime_process.h"

int runtime_shares_open(struct runtime_shares *shares)
{
    int error = fair_share_init(&shares->entries, RUNTIME_PROCESSES_MAX);
    shares->window_ns = 0;
    return error ? error : fair_share_init(&shares->time, RUNTIME_TIME_NS);
}

bool runtime_shares_have_time(struct runtime_shares *shares, uint64_t tenant, uint64_t now_ns)
{
    if (now_ns - shares->window_ns >= RUNTIME_WINDOW_NS) {
        fair_share_clear(&shares->time);
        shares->window_ns = now_ns;
    }
    return fair_share_has_room(&shares->time, tenant, 0);
}

void runtime_shares_spend(struct runtime_shares *shares, uint64_t tenant, uint64_t from_ns,
                          uint64_t now_ns)
{
    fair_share_take(&shares->time, tenant, now_ns - from_ns);
}

bool runtime_shares_take_entry(struct runtime_shares *shares, uint64_t tenant)
{
    if (!fair_share_has_room(&shares->entries, tenant, 1))
        return false;
    fair_share_take(&shares->entries, tenant, 1);
    return true;
}

void runtime_shares_give_entry(struct runtime_shares *shares, uint64_t tenant)
{
    fair_share_give(&shares->entries, tenant, 1);
}
