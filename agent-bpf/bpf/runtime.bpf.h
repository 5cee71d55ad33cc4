/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Frames of runtimes: where the walk leaves native code, and lists of interpreters. Each runtime
 * has a file of its own, runtime_NAME.bpf.h, that includes the steps of its room.
 */
#include "agent-bpf/bpf/arch.bpf.h"
#include "agent-bpf/bpf/runtime_hotspot.bpf.h"
#include "agent-bpf/bpf/runtime_list.bpf.h"
#if defined(__TARGET_ARCH_x86)
#include "agent-bpf/bpf/runtime_v8.bpf.h"
#endif
#include "agent-bpf/runtimes/runtime_process.h"

enum { RUNTIME_NOT_ITS_CODE = -2 }; /* of a step: the code at pc is none of a runtime's */

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, RUNTIME_PROCESSES_MAX);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, __u32);
    __type(value, struct runtime_process);
} runtimes SEC(".maps");

/* NULL: the process has none whose frames are known. */
static __always_inline const struct runtime_process *runtime_of(const struct build *build,
                                                                const struct task_struct *task)
{
    __u32 pid = build->header.pid;
    const struct runtime_process *runtime = pid ? bpf_map_lookup_elem(&runtimes, &pid) : NULL;
    if (!runtime || !starts_equal(runtime->process_start_ns, build->header.process_start_ns))
        return NULL;
    return runtime;
}

/* If the code at the address, walk->pc or in the call before it, is a runtime's: adds its frame and
 * goes to its caller. WALK_GOES_ON, why there is none, or RUNTIME_NOT_ITS_CODE. */
static __always_inline int runtime_step(struct build *build, const struct runtime_process *runtime,
                                        __u64 address)
{
#if defined(__TARGET_ARCH_x86) /* elsewhere nothing is attached */
    if (runtime->sections & RUNTIME_SECTION_HOTSPOT &&
        hotspot_holds(&runtime->hotspot, build->walk.pc))
        return hotspot_step(build, &runtime->hotspot);
    if (v8_has_code(build, runtime, address))
        return v8_walk(build, runtime);
#endif
    return RUNTIME_NOT_ITS_CODE;
}

/* Behind a step from the native frame at sp, to a caller that was guessed, or that failed: goes on
 * where the runtime has noted it. Returns end, or WALK_GOES_ON. */
static __always_inline int runtime_resume(struct build *build,
                                          const struct runtime_process *runtime, __u64 tp, __u64 sp,
                                          int end)
{
#if defined(__TARGET_ARCH_x86)
    if (runtime->sections & RUNTIME_SECTION_HOTSPOT)
        return hotspot_resume(build, &runtime->hotspot, tp, sp, end);
#endif
    return end;
}
