/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The supervisor's sampler, its events on all CPUs and its pace: opened with supervisor_run(), or
 * taken over from the run before. Private to the supervisor. Thread: the supervisor's.
 */
#include "agent-bpf/sampler/cpu_events.h"
#include "agent-bpf/supervisor/supervisor.h"

struct supervisor_sampling {
    struct sampler_settings settings; /* borrows from the run's */
    struct sampling_rate_settings sampling_rate_settings;
    struct sampler *sampler;
    struct cpu_events cpus;
    struct sampling_rate sampling_rate;
};

/* By settings->sampling if there is one with the same settings, which is taken either way, else
 * anew. NULL: it cannot be, and the log says why. The calls of its CPU events are still to be set.
 */
struct supervisor_sampling *supervisor_sampling_open(const struct supervisor_settings *settings);
