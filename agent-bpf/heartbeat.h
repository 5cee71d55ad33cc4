/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Signs of life from within work that may take long on a slow machine: the keeper takes a child for
 * hung that is not heard for seconds. Said at the steps of what is bounded, never within one, so
 * that what blocks stays silent. One receiver a process. Thread: the child's loop (keeper_child.h).
 */
#include <stdint.h>

void beat_to(int control_fd); /* -1: to nobody, as at first */
/* At most one each KEEPER_BEAT_NS is sent; never blocks. */
void beat(void);

/* For small steps: at the first of each 4096. */
static inline void beat_at(uint64_t step)
{
    if (!(step & 4095))
        beat();
}
