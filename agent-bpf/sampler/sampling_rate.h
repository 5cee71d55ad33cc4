/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How much of the node's time is sampled: whether it samples at all in the present interval, drawn
 * once for each (a fleet then samples a share of its nodes at any time), and how fast, within a
 * budget of CPU time for spanprof's processes and their ticks.
 * Thread: the supervisor's.
 *
 * Samples are never scaled: they carry the period at which they were taken, and time that is not
 * sampled is missing. See the metrics spanprof_sampling_active and _frequency_hz.
 *
 * The budget is in percent of all online CPUs. The rate is lowered, at most by half at a time, when
 * the usage of the last SAMPLING_RATE_BUDGET_NS is above the budget; it is raised in small steps
 * while the usage at the higher rate would be below. It stays between 1 Hz and the configured rate,
 * on primes, which do not resonate with periodic work. While paused the rate is not changed. The
 * clock interrupts themselves are not part of the usage.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sampler;

#define SAMPLING_RATE_BUDGET_NS UINT64_C(2000000000)
#define SAMPLING_RATE_PROCESSES 3 /* beside the calling one */

struct sampling_rate_settings {
    uint32_t frequency_hz;  /* as configured: the highest */
    double probability;     /* of sampling in an interval, 0..1; 0 and 1: always */
    uint64_t interval_ns;   /* CLOCK_MONOTONIC, from the start on */
    double max_cpu_percent; /* 0 = no budget */
};

struct sampling_rate_process {
    pid_t pid;
    uint64_t cpu_ns;
};

struct sampling_rate {
    struct sampling_rate_settings settings;
    struct sampler *sampler;
    bool active; /* it samples now */
    uint64_t draw_due_ns;
    uint32_t frequency_hz; /* now */
    uint64_t judge_due_ns;
    uint64_t judged_ns; /* the three at the last judgement */
    uint64_t tick_ns;
    struct sampling_rate_process processes[SAMPLING_RATE_PROCESSES + 1]; /* first the calling one */
};

/* Before CPUs are started, so that they tick only if they shall. */
void sampling_rate_open(struct sampling_rate *sampling_rate,
                        const struct sampling_rate_settings *settings, struct sampler *sampler,
                        uint64_t now_ns);
/* After each sampler_count(), about once a second. pids: spanprof's other processes; 0: not
 * running.
 */
void sampling_rate_update(struct sampling_rate *sampling_rate,
                          const pid_t pids[SAMPLING_RATE_PROCESSES], uint64_t now_ns);

/* The rate after one at which `percent` was used. Pure. */
uint32_t sampling_rate_next_frequency(const struct sampling_rate_settings *settings,
                                      uint32_t frequency_hz, double percent);
