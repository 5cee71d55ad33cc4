/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Stacks as tagged words (record.h). The kernel unwinds its own stack. The user stack is unwound
 * here, frame by frame, with the rules that the symbolizer loaded. Where a rule is missing,
 * unwind.c continues in user space, with a copy of the stack and the registers of that frame.
 */
#include "agent-bpf/bpf/arch.bpf.h"
#include "agent-bpf/bpf/unwind_rule.bpf.h"
#include "agent-bpf/bpf/runtime.bpf.h"

/* Set before loading. */
const volatile __u8 stacks_always; /* copied, with the registers of the tick: to be compared */

static __always_inline bool walk_register(const struct walk *walk, __u32 reg, __u64 *value)
{
    if (reg >= UNWIND_REGISTERS_MAX || !(walk->known >> reg & 1))
        return false;
    *value = walk->registers[reg];
    return true;
}

static __always_inline int walk_find_cfa(struct walk *walk)
{
    const struct unwind_rule *rule = &walk->rule;
    __u64 base, index = 0;
    if (rule->cfa == UNWIND_UNKNOWN || !walk_register(walk, rule->base, &base))
        return UNWIND_END_UNKNOWN;
    __u64 cfa = base + (__u64)(__s64)rule->cfa_offset;
    if (rule->cfa == UNWIND_INDEXED && !walk_register(walk, UNWIND_INDEX(rule), &index))
        return UNWIND_END_UNKNOWN;
    if (rule->cfa == UNWIND_DEREF || rule->cfa == UNWIND_INDEXED) {
        if (bpf_probe_read_user(&cfa, sizeof(cfa), (void *)(cfa + index * UNWIND_WORD)))
            return UNWIND_END_NO_MEMORY;
        cfa += rule->cfa == UNWIND_DEREF ? (__u64)(__s64)rule->cfa_add : UNWIND_INDEXED_ADD(rule);
    }
    if (rule->cfa == UNWIND_PLT && (__s64)(walk->pc & 15) >= rule->cfa_add)
        cfa += UNWIND_WORD;
    walk->cfa = cfa;
    return WALK_GOES_ON;
}

/* The caller's value of what a slot stands for. */
static __always_inline int walk_slot(const struct walk *walk, __u32 slot, __u64 *value)
{
    const struct unwind_rule *rule = &walk->rule;
    __u32 place = UNWIND_PLACE(rule, slot);
    __u64 from = walk->cfa;
    if (place == UNWIND_IN_REGISTER)
        return walk_register(walk, (__u16)rule->offsets[slot], value) ? WALK_GOES_ON
                                                                      : UNWIND_END_UNKNOWN;
    if (place != UNWIND_AT_CFA &&
        !walk_register(walk, place == UNWIND_AT_SP ? ARCH_SP : ARCH_FP, &from))
        return UNWIND_END_UNKNOWN;
    from += (__u64)((__s64)rule->offsets[slot] * UNWIND_WORD);
    return bpf_probe_read_user(value, sizeof(*value), (void *)from) ? UNWIND_END_NO_MEMORY
                                                                    : WALK_GOES_ON;
}

/* A frame lies below its caller's. Only a leaf may have none of its own (aarch64), and a signal may
 * have come on another stack. */
static __always_inline bool walk_climbs(const struct walk *walk)
{
    __u64 sp;
    if (walk->rule.flags & (UNWIND_SIGNAL_FRAME | UNWIND_OTHER_STACK))
        return true;
    if (!walk_register(walk, ARCH_SP, &sp))
        return false;
    return walk->cfa > sp || (walk->cfa == sp && !walk->is_return);
}

/* Nothing is known of the function: it may have a frame that begins with the caller's frame pointer
 * and the return address, as the ABIs have it. A frame pointer of 0 is what programs begin with. */
static __always_inline int walk_by_frame_pointer(struct walk *walk)
{
    __u64 fp = 0, sp = 0;
    bool known = walk_register(walk, ARCH_FP, &fp);
    walk->is_guess = 1;
    if (known && !fp)
        return UNWIND_END_OF_STACK;
    if (!known || !walk_register(walk, ARCH_SP, &sp) || fp < sp || fp % UNWIND_WORD)
        return UNWIND_END_UNKNOWN;
    walk->rule.cfa = UNWIND_REGISTER;
    walk->rule.base = ARCH_FP;
    walk->rule.cfa_offset = 2 * UNWIND_WORD;
    walk->rule.offsets[UNWIND_RA] = -1;
    walk->rule.offsets[UNWIND_FP] = -2;
    walk->rule.offsets[UNWIND_THIRD] = UNWIND_LOST;
    walk->rule.places = UNWIND_IN_REGISTER << 2 * UNWIND_THIRD;
    return WALK_GOES_ON;
}

static __always_inline bool walk_is_outermost(const struct walk *walk)
{
    return UNWIND_PLACE(&walk->rule, UNWIND_RA) == UNWIND_IN_REGISTER &&
           walk->rule.offsets[UNWIND_RA] == UNWIND_LOST;
}

/* To the caller by walk->rule: WALK_GOES_ON, or why there is none. */
__noinline int walk_to_caller(struct build *build)
{
    if (!build)
        return UNWIND_END_UNKNOWN;
    struct walk *walk = &build->walk;
    __u64 pc = 0, fp = 0, third = 0;
    int end = WALK_GOES_ON;
    if (walk->rule.cfa == UNWIND_NO_INFO)
        end = walk_by_frame_pointer(walk);
    if (end == WALK_GOES_ON && walk_is_outermost(walk))
        end = UNWIND_END_OF_STACK;
    if (end == WALK_GOES_ON)
        end = walk_find_cfa(walk);
    if (end == WALK_GOES_ON && !walk_climbs(walk))
        end = UNWIND_END_NO_PROGRESS;
    if (end == WALK_GOES_ON)
        end = walk_slot(walk, UNWIND_RA, &pc);
    if (end != WALK_GOES_ON) /* after a switch to another stack this is its end */
        return walk->rule.flags & UNWIND_OTHER_STACK ? UNWIND_END_OF_STACK : end;
    __u32 known = 1u << ARCH_SP;
    if (walk_slot(walk, UNWIND_FP, &fp) == WALK_GOES_ON)
        known |= 1u << ARCH_FP;
    if (walk_slot(walk, UNWIND_THIRD, &third) == WALK_GOES_ON)
        known |= 1u << ARCH_THIRD;
    walk->registers[ARCH_SP] = walk->cfa;
    walk->registers[ARCH_FP] = fp;
    walk->registers[ARCH_THIRD] = third;
    walk->known = known;
    walk->pc = pc & ARCH_ADDRESS_MASK;
    walk->is_return = !(walk->rule.flags & UNWIND_SIGNAL_FRAME);
    return walk->pc ? WALK_GOES_ON : UNWIND_END_OF_STACK;
}

/* Native code: by its rule. evaluates: not 0 if it works off an interpreter's list; then its CFA
 * goes with it, in this tag. */
static __always_inline int walk_native(struct build *build, bool is_code, __u64 evaluates)
{
    struct walk *walk = &build->walk;
    /* What a signal handler returns to has not called it. */
    bool exact = !walk->is_return || (is_code && walk->rule.flags & UNWIND_SIGNAL_FRAME);
    if (!evaluates || !is_code) {
        walk_add_frame(build, FRAME_NATIVE, exact);
        return is_code ? walk_to_caller(build) : UNWIND_END_BAD_ADDRESS;
    }
    walk_add_frame(build, FRAME_NATIVE_EVAL, exact);
    walk->cfa = 0;
    int end = walk_to_caller(build);
    walk_add_word(build, (walk->cfa & (RECORD_EVAL_INNER - 1)) | evaluates);
    if (walk->n_evaluations < 2)
        walk->evaluations[walk->n_evaluations++ & 1] = walk->cfa;
    return end;
}

/* Adds the frame at pc and goes to its caller: WALK_GOES_ON, or why not. runtime: NULL, the process
 * has none whose frames are known. */
__noinline int walk_step(struct build *build, const struct runtime_process *runtime)
{
    if (!build)
        return UNWIND_END_UNKNOWN;
    struct walk *walk = &build->walk;
    __u64 address =
        walk->pc - !!walk->is_return; /* a call may be its function's last instruction */
    bool is_code = mapping_find(build, address);
    walk->is_guess = 0;
    if (!is_code && walk->n_frames)
        return UNWIND_END_BAD_ADDRESS;
    if (walk->n_frames >= RECORD_MAX_USER_FRAMES)
        return UNWIND_END_TRUNCATED;
    if (runtime && is_code) {
        int outcome = runtime_step(build, runtime, address);
        if (outcome != RUNTIME_NOT_ITS_CODE)
            return outcome;
    }
    if (is_code && !rule_find(build, address))
        return UNWIND_END_WANTED;
    return walk_native(build, is_code, runtime ? runtime_process_evaluates(runtime, address) : 0);
}

/* True: the caller of a frame was not found, and will not be. */
static __always_inline bool walk_has_failed(int end)
{
    return end == UNWIND_END_NO_MEMORY || end == UNWIND_END_NO_PROGRESS ||
           end == UNWIND_END_BAD_ADDRESS || end == UNWIND_END_UNKNOWN;
}

static __always_inline void walk_note(struct walk *walk)
{
    struct record_stack *stack = &walk->stack;
    const struct walk_mapping *mapping = &walk->mappings[walk->mapping % WALK_MAPPINGS];
    __builtin_memcpy(stack->registers, walk->registers, sizeof(stack->registers));
    stack->pc = walk->pc;
    stack->start = walk->registers[ARCH_SP] - RECORD_RED_ZONE;
    stack->size = 0;
    stack->known = walk->known;
    stack->is_return = walk->is_return != 0;
    stack->file = mapping->file;
}

struct walk_loop { /* what walk_frame() is given */
    struct build *build;
    const struct runtime_process *runtime; /* NULL: none whose frames are known */
    __u64 thread_pointer;
    int end;
};

/* One frame of the walk, and to its caller. Returns 1 to end the loop. */
static long walk_frame(__u32 i, struct walk_loop *loop)
{
    struct build *build = loop->build;
    const struct runtime_process *runtime = loop->runtime;
    __u64 sp = build->walk.registers[ARCH_SP];
    int end = walk_step(build, runtime);
    if (runtime && (build->walk.is_guess || walk_has_failed(end)))
        end = runtime_resume(build, runtime, loop->thread_pointer, sp, end);
    if (end == WALK_GOES_ON && runtime && i >= WALK_FREE_FRAMES && walk_is_late(build))
        end = UNWIND_END_TRUNCATED;
    loop->end = end;
    return end != WALK_GOES_ON;
}

/* Frames behind `at` in rest. With bpf_loop() the verifier checks the body once. It checks that of
 * a `for` loop for each of the 512 rounds, which made loading take twice as long. */
static __always_inline void walk_user_stack(struct build *build, struct task_struct *task, __u32 at)
{
    struct walk *walk = &build->walk;
    struct walk_loop loop = {.build = build,
                             .runtime = runtime_of(build, task),
                             .thread_pointer = arch_thread_pointer(task),
                             .end = UNWIND_END_TRUNCATED};
    mapping_begin(walk, task->mm);
    hotspot_begin(&walk->hotspot);
    walk->frames_at = at;
    walk->is_return = 0;
    walk->now_s = (__u32)(build->header.time_ns / 1000000000);
    if (stacks_always) {
        walk_note(walk);
        __builtin_memset(&walk->stack.file, 0, sizeof(walk->stack.file));
    }
    bpf_loop(RECORD_MAX_USER_FRAMES + 1, walk_frame, &loop, 0);
    walk->end = loop.end == WALK_GOES_ON ? UNWIND_END_TRUNCATED : (__u32)loop.end;
    if (walk->end == UNWIND_END_WANTED)
        walk_note(walk);
    if (loop.runtime) {
        runtime_list_add(build, loop.runtime, loop.thread_pointer);
        runtime_task_add(build, loop.runtime);
    }
}

/* Fills a copy where pages cannot be read: not a valid address. */
static const __u8 stack_hole[BUILD_CHUNK] = {[0 ... BUILD_CHUNK - 1] = 0xff};

/* Where the mapping that the stack lies in ends; 0: not found. The first thread's stack ends where
 * exec() put arguments and environment: these may be secrets, and no frame lies there. */
static __always_inline __u64 stack_end(struct build *build)
{
    const struct walk *walk = &build->walk;
    __u64 sp = walk->stack.start + RECORD_RED_ZONE;
    if (mapping_find_vma(build, sp))
        return 0;
    const struct vm_area_struct *vma = (const struct vm_area_struct *)walk->vma;
    const struct mm_struct *mm = (const struct mm_struct *)walk->mm;
    __u64 end = BPF_CORE_READ(vma, vm_end), first = BPF_CORE_READ(mm, start_stack);
    return sp < first && first < end ? first : end;
}

/* Copies what can be read from walk->stack.start on to rest[at]; the bytes of it. Large frames have
 * pages that were never touched: what lies behind those is copied too. */
__noinline int stack_copy(struct build *build, __u32 at)
{
    if (!build)
        return 0;
    __u64 start = build->walk.stack.start, end = stack_end(build);
    __u32 done = 0, size = 0;
    for (int i = 0; i <= RECORD_STACK_MAX / BUILD_CHUNK; i++) {
        __u64 from = start + done;
        __u32 chunk = BUILD_CHUNK - (from & (BUILD_CHUNK - 1));
        if (done >= RECORD_STACK_MAX)
            break;
        __u8 *to = build->rest + (at & BUILD_AT_MASK) + sizeof(struct record_stack) + done;
        done += chunk;
        if (!bpf_probe_read_user(to, chunk, (void *)from))
            size = done;
        else if (from + chunk < end)
            bpf_probe_read_kernel(to, chunk, stack_hole);
        else
            break;
    }
    if (end && size > end - start)
        size = (__u32)(end - start);
    if (size > RECORD_STACK_MAX)
        size = RECORD_STACK_MAX;
    return size & ~7u;
}

/* The kernel's frames: kind into the top byte of each word. A global function: verified once, for
 * any arguments, instead of for each length of a stack. */
__noinline int unwind_tag_kernel(struct build *build, __u32 at, __u32 words)
{
    if (!build)
        return 0;
    for (__u32 i = 0; i < RECORD_MAX_KERNEL_FRAMES; i++) {
        if (i >= words)
            break;
        build->rest[((at + i * 8) & BUILD_AT_MASK) + 7] = FRAME_KERNEL;
    }
    return 0;
}

static __always_inline __u32 unwind_kernel(void *ctx, struct build *build, __u32 at)
{
    long bytes = bpf_get_stack(ctx, build->rest + at, RECORD_MAX_KERNEL_FRAMES * 8, 0);
    __u32 words = bytes > 0 ? ((__u32)bytes / 8) & 0x7f : 0;
    unwind_tag_kernel(build, at, words);
    return words;
}

/* From some point of an exec on the memory is the new program's, and the registers are the old
 * one's: nothing is read of either. */
static __always_inline bool exec_under_way(struct task_struct *task)
{
    return bpf_core_field_exists(task->in_execve) && BPF_CORE_READ_BITFIELD(task, in_execve);
}

/* Frames at rest[at], at <= RECORD_MAX_ATTRIBUTES. Sets the header's counts; returns words. */
static __always_inline __u32 unwind(struct bpf_perf_event_data *ctx, struct build *build,
                                    struct task_struct *task, __u32 at)
{
    struct record_header *header = &build->header;
    struct walk *walk = &build->walk;
    __u32 kernel_words = 0;
    bool user_mode = header->flags & RECORD_FLAG_USER_MODE;
    walk->n_frames = walk->n_words = walk->n_list = walk->n_task = walk->n_evaluations = 0;
    walk->evaluations[0] = walk->evaluations[1] = 0;
    walk->end = UNWIND_END_OF_STACK;
    if (!user_mode)
        kernel_words = unwind_kernel(ctx, build, at);
    header->kernel_words = (__u16)kernel_words;
    if (!(header->flags & RECORD_FLAG_KERNEL_THREAD) && task->mm && !exec_under_way(task)) {
        if (arch_user_registers(ctx, user_mode, walk))
            walk_user_stack(build, task, at + kernel_words * 8);
        else
            walk->end = UNWIND_END_FOREIGN;
    }
    header->end = (__u8)walk->end;
    if (walk->end != UNWIND_END_OF_STACK)
        header->flags |= RECORD_FLAG_TRUNCATED;
    header->user_words = (__u16)walk->n_words;
    header->list_words = (__u16)walk->n_list;
    header->task_size = (__u16)(walk->n_task * 8);
    return kernel_words + walk->n_words + walk->n_list + walk->n_task;
}
