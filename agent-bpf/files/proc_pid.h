/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Small readers of /proc/PID, for texts that the process cannot withhold: stat, schedstat, status,
 * cgroup, mountinfo and links. Not for maps, whose lock it may hold. The parsers are pure.
 * Outcomes: 0; negative errno (-ENOENT, -ESRCH: the process is gone); -E2BIG: longer than the
 * limit.
 */
#include "base/buf.h"

/* The whole of /proc/PID/name; replaces what the buf held. Limit: the buf's. */
int proc_pid_read(uint32_t pid, const char *name, struct buf *out);
/* Target of a link such as "exe"; raw bytes, not NUL-terminated. */
int proc_pid_link(uint32_t pid, const char *name, char *out, size_t size, size_t *len);

bool proc_parse_start_ticks(struct bytes stat, uint64_t *ticks);
bool proc_parse_cpu_ticks(struct bytes stat,
                          uint64_t *ticks); /* user and kernel time of all threads */
/* CPU time and time spent waiting for a CPU. */
bool proc_parse_schedstat(struct bytes schedstat, uint64_t *ran_ns, uint64_t *waited_ns);
/* CLOCK_BOOTTIME of its start, rounded down to a clock tick (10 ms). */
bool proc_parse_start_ns(struct bytes stat, uint64_t *start_ns);
/* Its pid in its innermost PID namespace. */
bool proc_parse_own_pid(struct bytes status, uint32_t *own_pid);
/* Addresses of its initial environment; 0 if the kernel hides them. */
bool proc_parse_environment(struct bytes stat, uint64_t *start, uint64_t *end);
