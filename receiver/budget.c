/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/budget.h"
#include "base/stats.h"
#include <assert.h>

STAT_LOSS(refused, "spanprof_receiver_budget_refused_total",
          "Requests refused because too many bytes were being received at once.");
STAT_GAUGE(used, "spanprof_receiver_budget_bytes", "Bytes of requests being received.");

bool budget_take(struct budget *budget, size_t size)
{
    if (size > budget->limit_bytes - budget->used_bytes) {
        stat_add(&refused, 1);
        return false;
    }
    budget->used_bytes += size;
    stat_set(&used, (int64_t)budget->used_bytes);
    return true;
}

void budget_give(struct budget *budget, size_t size)
{
    assert(size <= budget->used_bytes);
    budget->used_bytes -= size;
    stat_set(&used, (int64_t)budget->used_bytes);
}
