/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * A frame of V8: JavaScript, or one of V8's builtins (agent-bpf/runtimes/v8/v8_step.h). Nothing is
 * read but what the thread's stack and registers lead to; each read may fail.
 */
#include "agent-bpf/bpf/arch.bpf.h"
#include "agent-bpf/bpf/unwind_mapping.bpf.h"

#define V8_REGISTER_FUNCTION 5 /* by DWARF number: rdi, r9, r12 */
#define V8_REGISTER_OFFSET   9
#define V8_REGISTER_BYTECODE 12

static __always_inline int v8_step_read(void *context, void *out, __u32 size, __u64 address)
{
    return bpf_probe_read_user(out, size, (void *)address) != 0;
}

static __always_inline bool v8_step_is_code(void *context, const struct v8_process *process,
                                            __u64 address)
{
    struct build *build = context;
    __u64 offset;
    if (v8_process_builtin(process, address, &offset))
        return true;
    if (!mapping_find(build, address))
        return false;
    return !build->walk.mappings[build->walk.mapping % WALK_MAPPINGS].file.inode;
}

#include "agent-bpf/runtimes/v8/v8_step.h"

/* What the walk does after a step. */
static __always_inline int v8_walk_outcome(int outcome, __u64 pc)
{
    switch (outcome) {
    case V8_STEP_GOES_ON:
        return pc ? WALK_GOES_ON : UNWIND_END_OF_STACK;
    case V8_STEP_NO_MEMORY:
        return UNWIND_END_NO_MEMORY;
    case V8_STEP_NO_PROGRESS:
        return UNWIND_END_NO_PROGRESS;
    default:
        return UNWIND_END_UNKNOWN;
    }
}

/* V8's code is in no file, or is one of its builtins, which are in its own. walk->mapping is that
 * of the address. */
static __always_inline bool v8_has_code(const struct build *build,
                                        const struct runtime_process *runtime, __u64 address)
{
    __u64 offset;
    const struct walk *walk = &build->walk;
    if (!(runtime->sections & RUNTIME_SECTION_V8))
        return false;
    return !walk->mappings[walk->mapping % WALK_MAPPINGS].file.inode ||
           v8_process_builtin(&runtime->v8, address, &offset);
}

static __always_inline void v8_add_frame(struct build *build)
{
    const struct v8_step *step = &build->walk.v8;
    for (__u32 i = 0; i < RECORD_FRAME_WORDS_MAX; i++)
        if (i < step->n_words)
            walk_add_word(build, step->words[i]);
    build->walk.n_frames += !!step->n_words;
}

/* Adds the frame at walk->pc and goes to its caller. A global function: verified once. */
__noinline int v8_walk(struct build *build, const struct runtime_process *runtime)
{
    if (!build || !runtime)
        return UNWIND_END_UNKNOWN;
    struct walk *walk = &build->walk;
    struct v8_step *step = &walk->v8;
    if (!(walk->known >> ARCH_FP & 1) || !(walk->known >> ARCH_SP & 1))
        return UNWIND_END_UNKNOWN;
    step->pc = walk->pc;
    step->sp = walk->registers[ARCH_SP];
    step->fp = walk->registers[ARCH_FP];
    step->is_leaf = !walk->is_return;
    step->offset_register = walk->registers[V8_REGISTER_OFFSET];
    step->bytecode_register = walk->registers[V8_REGISTER_BYTECODE];
    step->function_register = walk->registers[V8_REGISTER_FUNCTION];
    int outcome = v8_step(&runtime->v8, step, build);
    v8_add_frame(build);
    walk->pc = step->pc;
    walk->registers[ARCH_SP] = step->sp;
    walk->registers[ARCH_FP] = step->fp;
    walk->known = 1u << ARCH_SP | 1u << ARCH_FP;
    walk->is_return = !step->is_leaf;
    return v8_walk_outcome(outcome, step->pc);
}
