/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Signs of life of a child process. The supervisor kills a child that is silent for seconds
 * (hang_detector.h), so work that may take long on a slow machine calls heartbeat() between its
 * steps, never within one: a step that blocks must stay silent. One receiver per process. Thread:
 * the child's loop (supervisor_client.h).
 */
#include <stdint.h>

#define HEARTBEAT_INTERVAL_NS UINT64_C(500000000)

void heartbeat_to(int control_fd); /* where heartbeat() sends; -1 (initially): nowhere */
void heartbeat(void); /* at most one each HEARTBEAT_INTERVAL_NS is sent; never blocks */
int heartbeat_send(int control_fd); /* one, now; never blocks; 0 or negative errno */

/* For small steps: every 4096th is a heartbeat(). */
static inline void heartbeat_at(uint64_t step)
{
    if (!(step & 4095))
        heartbeat();
}
