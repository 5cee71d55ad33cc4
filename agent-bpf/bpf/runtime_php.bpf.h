/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * PHP at the tick: its list of frames (php_list.h). Each frame costs up to eight reads of the
 * process's memory, as nothing of it may be there when it is named.
 */
#include "agent-bpf/bpf/record_builder.bpf.h"
#include "agent-bpf/runtimes/runtime_process.h"

#if defined(__TARGET_ARCH_x86)
#define PHP_OPLINE_REGISTER 15 /* unwinding leaves it as it was at the tick */
#endif

/* The instruction that is worked off, if the evaluation function itself was interrupted: it has it
 * in a register, and saves it before it calls. 0: it is saved. */
static __always_inline __u64 php_opline(const struct build *build,
                                        const struct runtime_process *runtime)
{
#if defined(__TARGET_ARCH_x86)
    const struct walk *walk = &build->walk;
    __u64 pc = walk->pc; /* if no frame of it was found */
    if (walk->n_words) {
        __u64 leaf = *(__u64 *)(build->rest + (walk->frames_at & BUILD_AT_MASK));
        if (leaf >> RECORD_FRAME_SHIFT != FRAME_NATIVE_EVAL || !(leaf & RECORD_FRAME_EXACT))
            return 0;
        pc = leaf & (RECORD_FRAME_EXACT - 1);
    }
    if (runtime_ranges_hold(runtime->php.evaluation, pc))
        return walk->registers[PHP_OPLINE_REGISTER];
#endif
    return 0;
}

/* Global functions: each is verified once, for any memory. A build that is not thread-safe runs on
 * one thread, which is the first one: others have no frames. */
__noinline int php_begin(struct build *build, const struct runtime_process *runtime)
{
    if (!build || !runtime || build->header.pid != build->header.tid)
        return RUNTIME_LIST_END;
    return php_list_begin(&runtime->php, php_opline(build, runtime), &build->walk.list.php);
}

__noinline int php_next(struct build *build, const struct runtime_process *runtime)
{
    if (!build || !runtime)
        return RUNTIME_LIST_END;
    return php_list_next(&runtime->php, &build->walk.list.php);
}
