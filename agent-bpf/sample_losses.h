/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Samples that are lost on their way from the kernel to the store, counted by reason. Thread: any.
 */
#include <stdint.h>

enum sample_loss {
    SAMPLE_LOST_RING_FULL, /* the kernel's */
    SAMPLE_LOST_MALFORMED,
    SAMPLE_LOST_MEMORY,
    SAMPLE_LOST_FULL, /* the writer's queue */
    SAMPLE_LOST_STORE,
    SAMPLE_LOSSES
};

void sample_count_lost(enum sample_loss reason, int64_t n);
