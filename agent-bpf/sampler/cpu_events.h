/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The perf events of all online CPUs, those of the sampler's clock and of the process stream,
 * opened and closed as CPUs come and go. Thread: the supervisor's.
 */
#include "agent-bpf/sampler/cpus.h"
#include "agent-bpf/sampler/procstream_cpu.h"

struct sampler;

struct cpu_events {
    struct sampler *sampler;
    struct cpus open;               /* those with events */
    struct procstream_cpu *streams; /* CPUS_MAX; valid where open */
    int uevent_fd;                  /* to be polled for reading; -1: only the check once a second */
    void (*came)(void *context, uint32_t cpu,
                 const struct procstream_cpu *stream); /* may be NULL */
    void (*went)(void *context, uint32_t cpu);
    void *context;
};

/* Opens the events of all online CPUs; failures are logged and skipped. 0 or negative errno.
 */
int cpu_events_open(struct cpu_events *events, struct sampler *sampler);
void cpu_events_close(struct cpu_events *events); /* also when not open */
/* When uevent_fd is readable, and each second. */
void cpu_events_update(struct cpu_events *events);
