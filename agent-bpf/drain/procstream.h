/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * fork, exec, exit and every executable mapping on this machine, from one dummy perf event per CPU.
 * The supervisor opens the events and holds their buffers (procstream_cpu.h). The service maps the
 * same buffers without any capability and drains them right after the ring, so it has every event
 * that precedes a drained sample. A restarted service reads what was buffered meanwhile.
 * Limits: PROCSTREAM_BUFFER_BYTES per CPU; after an overflow PROCESS_LOST is reported. Mappings of
 * one process beyond mapping_rate.h are left out. Thread: the loop.
 */
#include "agent-bpf/process_event.h"
#include <stdbool.h>
#include <stddef.h>

struct procstream;

#define PROCSTREAM_CPUS_MAX 4096

int procstream_open(struct procstream **stream);  /* no CPU yet */
void procstream_close(struct procstream *stream); /* NULL is fine */

/* Maps a CPU's buffer; fd stays the caller's and may be closed at once. size as in
 * procstream_cpu. Replaces the CPU's previous buffer, whose events come with the next drain. */
int procstream_add(struct procstream *stream, uint32_t cpu, int fd, size_t buffer_size);
void procstream_remove(struct procstream *stream, uint32_t cpu); /* the CPU went away */

typedef void (*process_event_fn)(void *context, const struct process_event *event);

/*
 * Calls `call` for all events written before, in order of time over all CPUs. Returns their number.
 * PROCESS_EXITED comes when no thread of the process is left, with the time at which a drain
 * noticed it.
 */
size_t procstream_drain(struct procstream *stream, process_event_fn call, void *context);
/* The last drain found a buffer so full that the next one should come soon. */
bool procstream_is_filling(const struct procstream *stream);
