/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether a child that has not been heard for a while hangs, or only waits for a CPU: on a node
 * with too few of them, or below a quota, it may take long for its next step, and would not be
 * faster as a new process.
 * Source of the figures: /proc/PID/schedstat and stat (proc(5), the kernel's sched-stats document).
 * Thread: the supervisor's. The parser and the judgement are pure.
 */
#include "base/bytes.h"
#include <sys/types.h>

struct cpu_need { /* of the main thread */
    bool known;
    bool runnable;      /* runs, or waits for a CPU now */
    uint64_t ran_ns;    /* in all */
    uint64_t waited_ns; /* in all, for a CPU, up to the last time it got one */
};

struct hang_detector {
    uint64_t since_ns; /* CLOCK_MONOTONIC */
    struct cpu_need need;
};

/* All zero if the kernel does not tell. */
void cpu_need_read(pid_t pid, struct cpu_need *need);
bool cpu_need_parse(struct bytes stat, struct bytes schedstat, struct cpu_need *need);

void hang_detector_reset(struct hang_detector *hang, pid_t pid, uint64_t now_ns);
/* It was silent for allowed_ns in which it could have said something. */
bool hang_detector_is_hang(const struct hang_detector *hang, const struct cpu_need *need,
                           uint64_t now_ns, uint64_t allowed_ns);
