/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/sample_losses.h"
#include "base/stats.h"

static const char *const reason_names[] = {[SAMPLE_LOST_RING_FULL] = "ring_full",
                                           [SAMPLE_LOST_MALFORMED] = "malformed",
                                           [SAMPLE_LOST_MEMORY] = "memory",
                                           [SAMPLE_LOST_FULL] = "full",
                                           [SAMPLE_LOST_STORE] = "store"};
STAT_LOSSES(lost, "spanprof_samples_lost_total", "Samples lost, by reason.",
            STAT_LABEL("reason", reason_names, SAMPLE_LOSSES));

void sample_count_lost(enum sample_loss reason, int64_t n)
{
    stat_add_of(&lost, reason, n);
}
