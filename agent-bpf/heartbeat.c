/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/control.h"
#include "base/clock.h"

static int heartbeat_fd = -1;
static uint64_t sent_ns;

void heartbeat_to(int control_fd)
{
    heartbeat_fd = control_fd;
    sent_ns = clock_monotonic_ns();
}

int heartbeat_send(int control_fd)
{
    return control_send(control_fd, &(struct control_message){.kind = CONTROL_HEARTBEAT}, -1);
}

void heartbeat(void)
{
    uint64_t now_ns = heartbeat_fd >= 0 ? clock_monotonic_ns() : 0;
    if (heartbeat_fd < 0 || now_ns - sent_ns < HEARTBEAT_INTERVAL_NS)
        return;
    sent_ns = now_ns;
    (void)heartbeat_send(heartbeat_fd); /* full: the supervisor has unread ones */
}
