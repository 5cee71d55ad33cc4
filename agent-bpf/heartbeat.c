/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/keeper/keeper_child.h"
#include "base/clock.h"

static int beat_fd = -1;
static uint64_t sent_ns;

void beat_to(int control_fd)
{
    beat_fd = control_fd;
    sent_ns = clock_monotonic_ns();
}

void beat(void)
{
    uint64_t now_ns = beat_fd >= 0 ? clock_monotonic_ns() : 0;
    if (beat_fd < 0 || now_ns - sent_ns < KEEPER_BEAT_NS)
        return;
    sent_ns = now_ns;
    (void)keeper_child_beat(beat_fd); /* full: the keeper has unread ones */
}
