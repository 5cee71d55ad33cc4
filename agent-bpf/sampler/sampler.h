/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Loads sampler.bpf.c and ticks on every online CPU: the supervisor's side of sampling.
 * Thread: the supervisor's only one, with rights (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN).
 * What remains on an idle CPU: the clock interrupt of the perf event itself (frequency times a
 * second, a fraction of a microsecond each); the program does not run there (exclude_idle).
 */
#include "agent-bpf/connection.h"
#include "agent-bpf/sampler/filter.h"
#include "agent-bpf/unwind/unwind_maps.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sampler;

#define SAMPLER_DIAGNOSIS_MAX 512
#define SAMPLER_RING_MIN      (64u << 10)
#define SAMPLER_RING_MAX      (1u << 30)
#define SAMPLER_UNWIND_BLOCK  4096 /* bytes of memory that a block of unwind rows takes */

enum { SAMPLER_UNAVAILABLE = 1 };

struct sampler_settings {
    uint32_t frequency_hz;    /* 1..1000 */
    uint64_t ring_size_bytes; /* rounded up to a power of two, at least SAMPLER_RING_MIN */
    const char *obi_map;      /* path of its pin (obi_map.h), borrowed; NULL or "": not read */
    uint64_t unwind_bytes;    /* limit of unwind tables in the kernel */
    bool stacks_always;       /* each sample has a copy of its stack: to compare unwinders */
    bool ticks_timed;         /* for sampler_tick_time_ns(); one more reading of a clock each */
    struct filter_settings filters; /* borrows its values; none: all is sampled */
    /* Ports of spanprof: who opens connections to them is noted (agent-bpf/connection.h). Zeros are
     * left out. */
    uint16_t ports[CONNECTION_PORTS_MAX];
};

/* True: opening perf events asks for CAP_SYS_ADMIN here, as Debian's kernels do by default. */
bool sampler_wants_admin(void);

/*
 * 0; SAMPLER_UNAVAILABLE: this kernel, its settings or our rights do not allow it, and `why` is a
 * sentence for the operator that says what to do; -ENOMEM.
 */
int sampler_open(const struct sampler_settings *settings, struct sampler **sampler, char *why,
                 size_t why_size);
void sampler_close(struct sampler *sampler); /* NULL is fine */
/* Settings that are equal but for the ports; borrows from them from now on. */
void sampler_follow(struct sampler *sampler, const struct sampler_settings *settings);

/* Starts and ends the clock of one CPU. start: 0 or negative errno (-ENODEV: not online). */
int sampler_start_cpu(struct sampler *sampler, uint32_t cpu);
void sampler_stop_cpu(struct sampler *sampler, uint32_t cpu); /* also when not started */
/*
 * Another rate, 1..1000 Hz, for CPUs that are started now or later. The first negative errno: that
 * CPU keeps its old rate. Every sample states the true period of its tick. On a change each CPU's
 * current period starts again.
 */
int sampler_set_frequency(struct sampler *sampler, uint32_t frequency_hz);
/* No ticks on any CPU, also one that is started meanwhile, until called with false. */
void sampler_pause(struct sampler *sampler, bool paused);
/* Adds what the kernel counted since the last call to the shared counters (base/stats.h). */
void sampler_count(struct sampler *sampler);
/* Time that ticks took on all CPUs so far, as of the last sampler_count(); 0 if they are not timed.
 */
uint64_t sampler_tick_time_ns(const struct sampler *sampler);

/* Checks for OBI's map, or another one in its place, and has it read. Does not block. */
void sampler_obi_poll(struct sampler *sampler);
/* Finds the cgroups that match the filters. Does not block. */
void sampler_filter_poll(struct sampler *sampler);

int sampler_ring_fd(const struct sampler *sampler); /* for ring_open(); borrowed */
size_t sampler_ring_size(const struct sampler *sampler);
int sampler_contexts_fd(const struct sampler *sampler);    /* u32 pid -> struct context_process */
int sampler_runtimes_fd(const struct sampler *sampler);    /* u32 pid -> struct runtime_process */
int sampler_connections_fd(const struct sampler *sampler); /* agent-bpf/connection.h */
struct unwind_maps sampler_unwind_maps(const struct sampler *sampler);
uint64_t sampler_period_ns(const struct sampler *sampler); /* at present */
