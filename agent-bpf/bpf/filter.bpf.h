/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Decides whether a task is sampled, before anything is read of it. Without rules
 * (filter_kinds is 0 when the program is loaded) the verifier removes all of this.
 */
#include "agent-bpf/filter_key.h"

#define FILTER_CGROUP_LEVELS 32 /* rules on cgroups further down are not seen */

/* Set before loading. */
const volatile __u32 filter_kinds;    /* FILTER_BIT of those that rules are of */
const volatile __u32 filter_includes; /* there are include rules */

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* resized before loading */
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct filter_key);
    __type(value, struct filter_verdict);
} filters SEC(".maps");

struct filter_look {
    struct filter_key key;
    struct filter_verdict found; /* by all rules so far */
};

static __always_inline bool filter_has(__u32 kind)
{
    return (filter_kinds & FILTER_BIT(kind)) != 0;
}

static __always_inline void filter_key_begin(struct filter_look *look, __u32 kind)
{
    __builtin_memset(&look->key, 0, sizeof(look->key));
    look->key.kind = kind;
}

static __always_inline void filter_look_up(struct filter_look *look)
{
    struct filter_verdict *verdict = bpf_map_lookup_elem(&filters, &look->key);
    if (!verdict)
        return;
    look->found.included |= verdict->included;
    if (verdict->excluded_by)
        look->found.excluded_by = verdict->excluded_by;
}

/* Its own cgroup and all above it. */
static __always_inline void filter_look_up_cgroups(struct filter_look *look)
{
    filter_key_begin(look, FILTER_CGROUPS);
    for (int level = 0; level < FILTER_CGROUP_LEVELS; level++) {
        look->key.id = bpf_get_current_ancestor_cgroup_id(level);
        if (!look->key.id)
            break;
        filter_look_up(look);
    }
}

static __always_inline void filter_look_up_executable(struct filter_look *look,
                                                      struct task_struct *task)
{
    filter_key_begin(look, FILTER_EXECUTABLES);
    const struct dentry *dentry = BPF_CORE_READ(task, mm, exe_file, f_path.dentry);
    const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);
    long size = bpf_probe_read_kernel_str(look->key.name, FILTER_NAME_MAX, name);
    if (size > 1 && size < FILTER_NAME_MAX) /* not one that was cut */
        filter_look_up(look);
}

/* SAMPLER_SAMPLES: to be sampled; otherwise the counter of the reason. */
static __noinline __u32 filter(struct task_struct *task, __u32 pid)
{
    struct filter_look look = {0};
    if (filter_has(FILTER_PIDS)) {
        filter_key_begin(&look, FILTER_PIDS);
        look.key.id = pid;
        filter_look_up(&look);
    }
    if (filter_has(FILTER_COMMS)) {
        filter_key_begin(&look, FILTER_COMMS);
        bpf_get_current_comm(look.key.name, RECORD_COMM);
        filter_look_up(&look);
    }
    if (filter_has(FILTER_CGROUPS) || filter_has(FILTER_CONTAINERS))
        filter_look_up_cgroups(&look);
    if (filter_has(FILTER_EXECUTABLES) && task->mm)
        filter_look_up_executable(&look, task);
    if (look.found.excluded_by)
        return look.found.excluded_by;
    return filter_includes && !look.found.included ? SAMPLER_FILTERED_NOT_INCLUDED
                                                   : SAMPLER_SAMPLES;
}
