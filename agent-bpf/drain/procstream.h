/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * fork, exec, exit and every executable mapping on this machine, from a dummy perf event a CPU.
 * The supervisor opens the events and holds their buffers (procstream_cpu.h); the service, without
 * any right, maps the same buffers and drains them, right after the ring: every event that precedes
 * a drained sample is then in hand. A service that starts anew reads what was kept meanwhile.
 * Thread: the loop.
 * Limits: PROCSTREAM_BUFFER_BYTES a CPU; full: PROCESS_LOST once there is room again.
 */
#include "agent-bpf/process_event.h"
#include <stddef.h>

struct procstream;

#define PROCSTREAM_CPUS_MAX 4096
#define PROCSTREAM_EXITED_LEADERS_MAX                                                              \
    4096 /* leaders that are gone while their process may live on */

int procstream_open(struct procstream **stream);  /* no CPU yet */
void procstream_close(struct procstream *stream); /* NULL is fine */

/* Maps a CPU's buffer; fd stays the caller's and may be closed at once. size as in procstream_cpu.
 * Replaces what the CPU had (what it held is delivered with the next drain). */
int procstream_add(struct procstream *stream, uint32_t cpu, int fd, size_t buffer_size);
void procstream_remove(struct procstream *stream, uint32_t cpu); /* the CPU went away */

typedef void (*process_event_fn)(void *context, const struct process_event *event);

/*
 * Hands over all that was written before the call, CPUs merged by time. Returns the number of
 * events. PROCESS_EXITED comes when the leader is gone and no thread of its process is left, with
 * the time at which that was seen (a drain's time).
 */
size_t procstream_drain(struct procstream *stream, process_event_fn call, void *context);
