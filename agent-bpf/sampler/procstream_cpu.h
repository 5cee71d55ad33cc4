/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The supervisor's side of the process stream (drain/procstream.h): one CPU's perf event with its
 * buffer. Thread: the supervisor's.
 */
#include <stddef.h>
#include <stdint.h>

#define PROCSTREAM_BUFFER_BYTES (1u << 20) /* data pages; + 1 page */

struct procstream_cpu {
    int fd; /* -1 = closed */
    void *buffer;
    size_t buffer_size;
};

/* 0 or negative errno; -ENODEV: not online. The buffer is smaller where memory may not be locked
 * (kernel.perf_event_mlock_kb). */
int procstream_cpu_open(uint32_t cpu, struct procstream_cpu *out);
void procstream_cpu_close(struct procstream_cpu *cpu); /* also when closed */
