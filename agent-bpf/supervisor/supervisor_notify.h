/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Tells systemd that the supervisor's loop turns (sd_notify(3), WatchdogSec= of the unit). Without
 * a watchdog, or without systemd, nothing is sent. Source of the protocol: sd_notify(3). Thread:
 * the supervisor's.
 */
#include <stdint.h>

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Again: no harm. */
void supervisor_notify_open(void);
/* Each second, from the loop and from nowhere else. */
void supervisor_notify_alive(uint64_t now_ns);
