/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/* Frames of HotSpot in the tick: the steps that user space takes too (hotspot_step.h). */
#include "agent-bpf/bpf/arch.bpf.h"

#define HOTSPOT_READ(walk, out, size, address)                                                     \
    bpf_probe_read_user((out), (size), (const void *)(address))
#include "agent-bpf/runtimes/hotspot/hotspot_anchor.h"
#include "agent-bpf/runtimes/hotspot/hotspot_step.h"

#if defined(__TARGET_ARCH_x86)
static __always_inline void hotspot_set_registers(struct walk *walk)
{
    struct hotspot_walk *hotspot = &walk->hotspot;
    hotspot->pc = walk->pc;
    hotspot->sp = walk->registers[ARCH_SP];
    hotspot->fp = walk->registers[ARCH_FP];
    hotspot->rax = walk->registers[0];
    hotspot->rbx = walk->registers[3];
    hotspot->r13 = walk->registers[13];
    hotspot->is_leaf = !walk->is_return;
    hotspot->has_registers = walk->known == 0xffff;
}

/* Adds the frame at pc, which hotspot_holds(), and goes to its caller: WALK_GOES_ON, or why not. A
 * global function: verified once. */
__noinline int hotspot_step(struct build *build, const struct hotspot_process *process)
{
    if (!build || !process)
        return UNWIND_END_UNKNOWN;
    struct walk *walk = &build->walk;
    struct hotspot_walk *hotspot = &walk->hotspot;
    if ((walk->known & (1u << ARCH_SP | 1u << ARCH_FP)) != (1u << ARCH_SP | 1u << ARCH_FP))
        return UNWIND_END_UNKNOWN;
    hotspot_set_registers(walk);
    int end = hotspot_walk_step(hotspot, process);
    for (int i = 0; i < HOTSPOT_WORDS_MAX; i++) {
        if (i >= hotspot->n_words || walk->n_words >= RECORD_MAX_USER_WORDS)
            break;
        walk_add_word(build, hotspot->words[i]);
    }
    walk->n_frames += hotspot->n_frames;
    if (end != HOTSPOT_UNWINDS)
        return end;
    walk->pc = hotspot->pc;
    walk->registers[ARCH_SP] = hotspot->sp;
    walk->registers[ARCH_FP] = hotspot->fp;
    walk->known = 1u << ARCH_SP | 1u << ARCH_FP;
    walk->is_return = 1;
    return HOTSPOT_UNWINDS; /* WALK_GOES_ON */
}

/* The thread's JavaThread; 0: it has none. */
static __always_inline __u64 hotspot_thread(const struct hotspot_thread_layout *layout, __u64 tp)
{
    const struct context_variable variable = {.thread_local_model = THREAD_LOCAL_DYNAMIC,
                                              .dtv_entry_size = 16,
                                              .dtv_offset = 8,
                                              .module = layout->module,
                                              .offset = layout->variable};
    __u64 at = layout->module ? thread_local_address(&variable, tp) : 0, thread = 0;
    return at && !step_read(&thread, sizeof(thread), at) ? thread : 0;
}

/* The caller of the native frame at sp could not be found (end), or by a guess that may lead past
 * frames of Java. From the last frame of Java on, with a mark: WALK_GOES_ON; else as it was. */
__noinline int hotspot_resume(struct build *build, const struct hotspot_process *process, __u64 tp,
                              __u64 sp, int end)
{
    if (!build || !process)
        return end;
    struct walk *walk = &build->walk;
    struct hotspot_walk *hotspot = &walk->hotspot;
    __u64 thread = hotspot_thread(&process->thread, tp);
    hotspot->sp = sp;
    bool has_room =
        walk->n_words < RECORD_MAX_USER_WORDS && walk->n_frames < RECORD_MAX_USER_FRAMES;
    if (!thread || !has_room || !hotspot_find_anchor(hotspot, process, thread))
        return end;
    if (end == HOTSPOT_UNWINDS && walk->registers[ARCH_SP] <= hotspot->caller.sp)
        return end;
    walk_add_word(build, (__u64)FRAME_JVM_GAP << RECORD_FRAME_SHIFT | HOTSPOT_GAP_NATIVE);
    walk->n_frames++;
    walk->pc = hotspot->caller.pc;
    walk->registers[ARCH_SP] = hotspot->caller.sp;
    walk->registers[ARCH_FP] = hotspot->caller.fp;
    walk->known = 1u << ARCH_SP | 1u << ARCH_FP;
    walk->is_return = 1;
    return HOTSPOT_UNWINDS; /* WALK_GOES_ON */
}
#endif
