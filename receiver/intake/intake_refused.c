/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/intake/intake_refused.h"
#include "base/stats.h"

static const char *const reason_names[] = {[REFUSED_BUSY] = "busy",
                                           [REFUSED_STORE] = "store",
                                           [REFUSED_MALFORMED] = "malformed",
                                           [REFUSED_TOO_BIG] = "too_big"};
STAT_LOSSES(refused, "spanprof_requests_refused_total", "Requests refused, by reason.",
            STAT_LABELS("signal", signal_names, SIGNAL_COUNT, "reason", reason_names,
                        INTAKE_REFUSALS));

void intake_refused(enum signal signal, enum intake_refusal reason)
{
    stat_add_of2(&refused, signal, reason, 1);
}
