/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/budget.h"
#include "base/stats.h"
#include <assert.h>

enum reason { REASON_ALL, REASON_CONNECTION, REASON_PEER, REASONS };

static const char *const reason_names[] = {
    [REASON_ALL] = "all", [REASON_CONNECTION] = "connection", [REASON_PEER] = "peer"};
STAT_LOSSES(refused, "spanprof_receiver_budget_refused_total",
            "Requests refused because too many bytes were being received at once, in all, by their "
            "connection, or by their peer.",
            STAT_LABEL("by", reason_names, REASONS));
STAT_GAUGE(used, "spanprof_receiver_budget_bytes", "Bytes of requests being received.");

static bool fits(size_t has, size_t more, size_t limit)
{
    return has <= limit && more <= limit - has;
}

static size_t budget_share(const struct budget *budget, size_t part)
{
    size_t share = budget->limit_bytes / part;
    return share > BUDGET_SHARE_MIN ? share : BUDGET_SHARE_MIN;
}

/* REASONS: it may. */
static enum reason budget_forbids(const struct budget *budget, const struct sender *sender,
                                  size_t size, bool admitted)
{
    if (!fits(budget->used_bytes, size, budget->limit_bytes))
        return REASON_ALL;
    if (!admitted && !fits(sender->beginning_bytes, size, budget_share(budget, 16)))
        return REASON_CONNECTION;
    if (!admitted && !fits(sender->peer->beginning_bytes, size, budget_share(budget, 4)))
        return REASON_PEER;
    return REASONS;
}

bool budget_take(struct budget *budget, struct budget_hold *hold, size_t size, bool admitted)
{
    enum reason reason = budget_forbids(budget, hold->sender, size, admitted);
    if (reason != REASONS) {
        stat_add_of(&refused, reason, 1);
        return false;
    }
    budget->used_bytes += size;
    hold->bytes += size;
    if (!admitted) {
        hold->beginning_bytes += size;
        hold->sender->beginning_bytes += size;
        hold->sender->peer->beginning_bytes += size;
    }
    stat_set(&used, (int64_t)budget->used_bytes);
    return true;
}

void budget_admitted(struct budget_hold *hold)
{
    if (!hold->beginning_bytes)
        return;
    assert(hold->beginning_bytes <= hold->sender->beginning_bytes);
    hold->sender->beginning_bytes -= hold->beginning_bytes;
    hold->sender->peer->beginning_bytes -= hold->beginning_bytes;
    hold->beginning_bytes = 0;
}

void budget_give(struct budget *budget, struct budget_hold *hold)
{
    assert(hold->bytes <= budget->used_bytes);
    budget_admitted(hold);
    budget->used_bytes -= hold->bytes;
    hold->bytes = 0;
    stat_set(&used, (int64_t)budget->used_bytes);
}
