/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The keeper's sampler, its events on all CPUs and its pace: opened with keeper_run(), or taken
 * over from the run before. Private to the keeper. Thread: the keeper's.
 */
#include "agent-bpf/sampler/cpu_events.h"
#include "agent-bpf/keeper/keeper.h"

struct keeper_sampling {
    struct sampler_settings settings; /* borrows from the run's */
    struct pace_settings pace_settings;
    struct sampler *sampler;
    struct cpu_events cpus;
    struct pace pace;
};

/* By settings->sampling if there is one with the same settings, which is taken either way, else
 * anew. NULL: it cannot be, and the log says why. The calls of its CPU events are still to be set.
 */
struct keeper_sampling *keeper_sampling_open(const struct keeper_settings *settings);
