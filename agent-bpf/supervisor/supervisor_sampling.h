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

/* Continues the sampling that *settings->sampling holds if its settings are the same, else closes
 * it and starts a new one; *settings->sampling is NULL afterwards. NULL: sampling is not possible,
 * and the log says why. The caller sets the callbacks of the CPU events. */
struct supervisor_sampling *supervisor_sampling_open(const struct supervisor_settings *settings);
