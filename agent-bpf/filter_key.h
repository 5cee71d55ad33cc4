/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * The `filters` map: rules by the property of a task that they match. Written by filter.c, read at
 * each tick (filter.bpf.h).
 */
#include "agent-bpf/record.h"

enum filter_kind {
    FILTER_PIDS,
    FILTER_COMMS,
    FILTER_EXECUTABLES,
    FILTER_CGROUPS,
    FILTER_CONTAINERS, /* found by the ids of their cgroups: their keys are FILTER_CGROUPS */
    FILTER_KINDS,
};
#define FILTER_BIT(kind) (1u << (kind)) /* in masks of kinds */

#define FILTER_NAME_MAX 64 /* bytes of an executable's name, with its NUL */

struct filter_key {
    __u32 kind;
    __u32 reserved;
    union {
        __u64 id; /* pid, in spanprof's PID namespace; cgroup id of the unified hierarchy */
        char name[FILTER_NAME_MAX]; /* NUL-terminated, zeros behind */
    };
};

struct filter_verdict {
    __u32 included;
    __u32 excluded_by; /* enum sampler_counter; 0: not excluded */
};

_Static_assert(sizeof(struct filter_key) == 8 + FILTER_NAME_MAX, "filter_key is a BPF map key");
_Static_assert(sizeof(struct filter_verdict) == 8, "filter_verdict is a BPF map value");
