/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * One step from a frame of HotSpot to its caller, x86-64; one source for kernel and user space
 * (hotspot_walk.h). A frame is compiled code (an nmethod, also the wrappers of native methods),
 * interpreted, or a stub (any other code that the JVM makes). Each has its words in the record
 * before its caller is known: the leaf is true even if the walk ends there.
 *
 * Compiled code has frames of a fixed size, and rbp is a register like any other in it. The
 * interpreter's frames are linked by rbp. docs/design/runtimes.md has the rules and what they were
 * compared with.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_leaf.h"

#define HOTSPOT_FRAMELESS     (~0u) /* instead of a size: stubs that save registers at most */
#define HOTSPOT_PADDING_WORDS 5     /* calls into the runtime may align the stack */
#define HOTSPOT_SCANNED_WORDS 24
#define HOTSPOT_INTERPRETED_MAX                                                                    \
    (1u << 20) /* bytes of a frame: 65,535 words of locals and stack                               \
                */
#define HOTSPOT_STUB_FRAME_MAX   4096
#define HOTSPOT_CALL_STUB_BEFORE 512 /* bytes of the call stub in front of its call */

static __always_inline void hotspot_add(struct hotspot_walk *walk, enum record_frame_kind kind,
                                        __u64 payload)
{
    __u64 word = (payload & (RECORD_FRAME_EXACT - 1)) | (__u64)kind << RECORD_FRAME_SHIFT;
    if (walk->is_leaf)
        word |= RECORD_FRAME_EXACT;
    walk->words[0] = word;
    walk->n_words = 1;
    walk->n_frames = 1;
}

static __always_inline void hotspot_add_stub(struct hotspot_walk *walk, __u64 blob)
{
    hotspot_add(walk, FRAME_JVM_STUB, walk->pc);
    walk->words[1] = blob;
    walk->n_words = 2;
}

/* ---- interpreted ---- */

/* bcp: into the bytecodes, or anything; bcp_register: 0 or what is tried first. */
static __always_inline void hotspot_add_interpreted(struct hotspot_walk *walk,
                                                    const struct hotspot_process *process,
                                                    __u64 method, __u64 bcp, __u64 bcp_register)
{
    __u64 const_method = 0, bci = HOTSPOT_NO_BCI;
    __u16 code_size = 0;
    hotspot_add(walk, FRAME_JVM_INTERPRETED, method);
    if (!hotspot_read(walk, &const_method, sizeof(const_method),
                      method + process->method.const_method) &&
        !hotspot_read(walk, &code_size, sizeof(code_size),
                      const_method + process->method.code_size)) {
        __u64 bytecodes = const_method + process->method.bytecodes;
        if (bcp_register - bytecodes < code_size)
            bci = bcp_register - bytecodes;
        else if (bcp - bytecodes < code_size)
            bci = bcp - bytecodes;
    }
    walk->words[1] = (const_method & HOTSPOT_ADDRESS_MASK) | bci << 48;
    walk->n_words = 2;
}

/* A frame that the frame pointer leads to. */
static __always_inline int hotspot_step_frame(struct hotspot_walk *walk,
                                              const struct hotspot_process *process)
{
    struct hotspot_caller *caller = &walk->caller;
    __u64 method = 0, bcp = 0;
    if (walk->fp % 8 || walk->fp < walk->sp || walk->fp - walk->sp > HOTSPOT_INTERPRETED_MAX)
        return UNWIND_END_UNKNOWN;
    if (!hotspot_word(walk, walk->fp - (process->method.bcp_slot & 0x78), &bcp) ||
        !hotspot_word(walk, walk->fp - 24, &method) ||
        !hotspot_word(walk, walk->fp - 8, &caller->sp) ||
        !hotspot_word(walk, walk->fp, &caller->fp) ||
        !hotspot_word(walk, walk->fp + 8, &caller->pc))
        return UNWIND_END_NO_MEMORY;
    __u64 bcp_register = walk->is_leaf && walk->has_registers ? walk->r13 : 0;
    hotspot_add_interpreted(walk, process, method, bcp, bcp_register);
    return HOTSPOT_UNWINDS;
}

/* A method entry that is making its frame. */
static __always_inline int hotspot_step_entry(struct hotspot_walk *walk,
                                              const struct hotspot_process *process,
                                              enum hotspot_entry_state state, bool saved_sp)
{
    struct hotspot_caller *caller = &walk->caller;
    __u64 at = walk->sp;
    hotspot_add_interpreted(walk, process, walk->rbx, 0, 0);
    walk->words[1] &= HOTSPOT_ADDRESS_MASK; /* before its first bytecode */
    caller->sp = walk->r13;
    caller->fp = walk->fp;
    caller->pc = walk->rax;
    if (state == HOTSPOT_ENTRY_IN_RAX)
        return HOTSPOT_UNWINDS;
    if (state == HOTSPOT_ENTRY_FRAME) {
        at = walk->fp;
        if (saved_sp && !hotspot_word(walk, at - 8, &caller->sp))
            return UNWIND_END_NO_MEMORY;
    }
    if (state != HOTSPOT_ENTRY_ON_TOP) {
        if (!hotspot_word(walk, at, &caller->fp))
            return UNWIND_END_NO_MEMORY;
        at += 8;
    }
    return hotspot_word(walk, at, &caller->pc) ? HOTSPOT_UNWINDS : UNWIND_END_NO_MEMORY;
}

/* A bytecode that has left its frame. The frame still lies below the stack pointer. */
static __always_inline int hotspot_step_exit(struct hotspot_walk *walk,
                                             const struct hotspot_process *process, int state)
{
    struct hotspot_caller *caller = &walk->caller;
    __u64 method = 0, fp = walk->sp - (state == HOTSPOT_EXIT_ON_TOP ? 8 : 16);
    caller->fp = walk->fp;
    caller->sp = walk->rbx;
    caller->pc = walk->r13;
    if (state == HOTSPOT_EXIT_ON_TOP && !hotspot_word(walk, walk->sp, &caller->pc))
        return UNWIND_END_NO_MEMORY;
    if (state == HOTSPOT_EXIT_ON_JUMP)
        hotspot_add_stub(walk, 0);
    else if (hotspot_word(walk, fp - 24, &method))
        hotspot_add_interpreted(walk, process, method, 0, 0);
    return HOTSPOT_UNWINDS;
}

/* An intrinsic that calls a stub: it has no frame, but the stack may be aligned. */
static __always_inline int hotspot_step_intrinsic(struct hotspot_walk *walk,
                                                  const struct hotspot_process *process)
{
    struct hotspot_caller *caller = &walk->caller;
    hotspot_add_stub(walk, 0);
    caller->fp = walk->fp;
    for (int i = 1; i <= 2; i++) {
        caller->sp = walk->sp + (__u64)i * 8;
        if (!hotspot_word(walk, caller->sp - 8, &caller->pc))
            return UNWIND_END_NO_MEMORY;
        if (hotspot_is_return(walk, process, caller->pc))
            return HOTSPOT_UNWINDS;
    }
    return UNWIND_END_UNKNOWN;
}

HOTSPOT_FUNCTION int hotspot_step_interpreter(struct hotspot_walk *walk,
                                              const struct hotspot_process *process)
{
    if (!walk || !process)
        return UNWIND_END_UNKNOWN;
    bool saved_sp;
    enum hotspot_entry_state entry = hotspot_entry_state(process, walk->pc, &saved_sp);
    if (!walk->is_leaf && entry == HOTSPOT_ENTRY_ON_TOP)
        return hotspot_step_intrinsic(walk, process);
    if (!walk->is_leaf || !walk->has_registers)
        return hotspot_step_frame(walk, process);
    if (entry != HOTSPOT_ENTRY_NONE)
        return hotspot_step_entry(walk, process, entry, saved_sp);
    hotspot_read_code(walk);
    int exit = hotspot_exit_state(walk);
    if (exit != HOTSPOT_EXIT_NONE)
        return hotspot_step_exit(walk, process, exit);
    return hotspot_step_frame(walk, process);
}

/* ---- of a fixed size ---- */

/* The return address at the end of a frame of that size, or a few words behind it. */
HOTSPOT_FUNCTION int hotspot_sized_caller(struct hotspot_walk *walk,
                                          const struct hotspot_process *process, __u64 size)
{
    if (!walk || !process)
        return false;
    struct hotspot_caller *caller = &walk->caller;
    for (int i = 0; i <= HOTSPOT_PADDING_WORDS; i++) {
        __u64 end = walk->sp + size + (__u64)i * 8;
        if (!hotspot_word(walk, end - 16, &caller->fp) || !hotspot_word(walk, end - 8, &caller->pc))
            return false;
        caller->sp = end;
        if (hotspot_holds(process, caller->pc))
            return true;
    }
    return false;
}

static __always_inline __u32 hotspot_frame_bytes(const struct hotspot_walk *walk,
                                                 const struct hotspot_process *process)
{
    __u32 words = hotspot_u32(walk, process->blob.frame_size);
    if (words == HOTSPOT_FRAMELESS)
        return words;
    return words <= HOTSPOT_FRAME_MAX / 8 ? words * 8 : 0;
}

/* A frame whose method was deoptimized returns to a handler; its own pc is kept in the frame. */
static __always_inline void hotspot_original_pc(struct hotspot_walk *walk,
                                                const struct hotspot_process *process)
{
    const struct hotspot_blob_layout *layout = &process->blob;
    __u64 pc = 0;
    __u32 offset = hotspot_u32(walk, layout->original_pc);
    bool is_offset = layout->deopt_is_offset;
    bool deoptimized = walk->pc == hotspot_blob_address(walk, layout->deopt, is_offset);
    if (layout->deopt_method_handle != HOTSPOT_NONE)
        deoptimized |=
            walk->pc == hotspot_blob_address(walk, layout->deopt_method_handle, is_offset);
    if (deoptimized && offset < HOTSPOT_FRAME_MAX && hotspot_word(walk, walk->sp + offset, &pc) &&
        pc >= walk->code_begin && pc < walk->code_end)
        walk->pc = pc;
}

static __always_inline void hotspot_add_compiled(struct hotspot_walk *walk,
                                                 const struct hotspot_process *process)
{
    const struct hotspot_blob_layout *layout = &process->blob;
    __u64 level = layout->level_bytes == 1 ? hotspot_u8(walk, layout->level)
                                           : hotspot_u32(walk, layout->level) & 0xff;
    hotspot_add(walk, FRAME_JVM_COMPILED, walk->pc);
    walk->words[1] = walk->blob;
    walk->words[2] = hotspot_u32(walk, layout->compile_id) | level << 32;
    walk->n_words = 3;
}

static __always_inline int hotspot_compiled_state(struct hotspot_walk *walk,
                                                  const struct hotspot_process *process, __u32 size)
{
    const struct hotspot_blob_layout *layout = &process->blob;
    __s32 complete = layout->frame_complete_bytes == 2
                         ? (__s16)hotspot_u16(walk, layout->frame_complete)
                         : (__s32)hotspot_u32(walk, layout->frame_complete);
    hotspot_read_code(walk);
    if (complete > 0 && walk->pc - walk->code_begin < (__u64)complete)
        return hotspot_prologue_state(walk, size);
    return hotspot_epilogue_state(walk, size);
}

HOTSPOT_FUNCTION int hotspot_step_compiled(struct hotspot_walk *walk,
                                           const struct hotspot_process *process)
{
    if (!walk || !process)
        return UNWIND_END_UNKNOWN;
    struct hotspot_caller *caller = &walk->caller;
    __u32 size = hotspot_frame_bytes(walk, process);
    if (!walk->is_leaf)
        hotspot_original_pc(walk, process);
    hotspot_add_compiled(walk, process);
    if (size < 16 || size == HOTSPOT_FRAMELESS)
        return UNWIND_END_UNKNOWN;
    if (walk->is_leaf) {
        int state = hotspot_compiled_state(walk, process, size);
        if (state != HOTSPOT_FRAME_COMPLETE && hotspot_partial_caller(walk, state, size) &&
            hotspot_holds(process, caller->pc))
            return HOTSPOT_UNWINDS;
    }
    return hotspot_sized_caller(walk, process, size) ? HOTSPOT_UNWINDS : UNWIND_END_UNKNOWN;
}

/* ---- stubs ---- */

static __always_inline bool hotspot_linked_caller(struct hotspot_walk *walk, __u64 fp)
{
    struct hotspot_caller *caller = &walk->caller;
    if (fp % 8 || fp < walk->sp || fp - walk->sp > HOTSPOT_STUB_FRAME_MAX)
        return false;
    caller->sp = fp + 16;
    return hotspot_word(walk, fp, &caller->fp) && hotspot_word(walk, fp + 8, &caller->pc) &&
           hotspot_skip_free_word(walk);
}

static __always_inline bool hotspot_in_call_stub(const struct hotspot_walk *walk,
                                                 const struct hotspot_process *process)
{
    return walk->pc + HOTSPOT_CALL_STUB_BEFORE - process->call_stub_return <
           2 * HOTSPOT_CALL_STUB_BEFORE;
}

/* Among the first words of the stack the first that a call returns to. Calls of this stub come
 * first: those that go to the highest address, as other stubs of its CodeBlob lie in front of it.
 * What is pushed last before a return address is the frame pointer, so what is found below one
 * may be it; not in a stub that has no frame, but saves registers. */
HOTSPOT_FUNCTION int hotspot_scanned_caller(struct hotspot_walk *walk,
                                            const struct hotspot_process *process, __u32 size)
{
    __u64 below, word, target = 0;
    int found = HOTSPOT_RETURN_NONE;
    if (!walk || !process)
        return false;
    below = walk->fp;
    for (int i = 0; i < HOTSPOT_SCANNED_WORDS; i++) {
        if (!hotspot_may_go_on(walk) || !hotspot_word(walk, walk->sp + (__u64)i * 8, &word))
            break;
        int is_return = hotspot_is_return(walk, process, word);
        bool is_higher = is_return == HOTSPOT_RETURN_SURE && walk->target > target;
        if (is_return > found || is_higher) {
            found = is_return;
            target = is_return == HOTSPOT_RETURN_SURE ? walk->target : 0;
            walk->caller.pc = word;
            walk->caller.sp = walk->sp + (__u64)i * 8 + 8;
            walk->caller.fp = size == HOTSPOT_FRAMELESS ? walk->fp : below;
        }
        below = word;
    }
    return found != HOTSPOT_RETURN_NONE;
}

/* Adapters between compiled and interpreted code hold the return address in rax, and have the
 * caller's stack pointer in r13. */
static __always_inline __u64 hotspot_adapter_sp(const struct hotspot_walk *walk, __u64 otherwise)
{
    return walk->r13 % 8 == 0 && walk->r13 - otherwise < HOTSPOT_STUB_FRAME_MAX ? walk->r13
                                                                                : otherwise;
}

/* The return address is on top of the stack. */
static __always_inline int hotspot_topmost_caller(struct hotspot_walk *walk,
                                                  const struct hotspot_process *process)
{
    struct hotspot_caller *caller = &walk->caller;
    caller->fp = walk->fp;
    caller->sp = walk->sp + 8;
    if (!hotspot_word(walk, walk->sp, &caller->pc) || !hotspot_skip_free_word(walk))
        return HOTSPOT_RETURN_NONE;
    if (walk->has_registers && walk->rax == caller->pc)
        caller->sp = hotspot_adapter_sp(walk, caller->sp);
    return hotspot_is_return(walk, process, caller->pc);
}

/* Native code calls a few stubs, which make no frame; by their address. */
static __always_inline bool hotspot_native_caller(struct hotspot_walk *walk,
                                                  const struct hotspot_process *process)
{
    struct hotspot_caller *caller = &walk->caller;
    __u8 code[HOTSPOT_CALL_BYTES] = {0};
    caller->fp = walk->fp;
    caller->sp = walk->sp + 8;
    return hotspot_word(walk, walk->sp, &caller->pc) && !hotspot_holds(process, caller->pc) &&
           !hotspot_read(walk, code, sizeof(code), caller->pc - sizeof(code)) &&
           hotspot_calls_indirectly(code);
}

static __always_inline int hotspot_linked_return(struct hotspot_walk *walk,
                                                 const struct hotspot_process *process)
{
    return hotspot_linked_caller(walk, walk->fp) ? hotspot_is_return(walk, process, walk->caller.pc)
                                                 : HOTSPOT_RETURN_NONE;
}

static __always_inline bool hotspot_adapter_caller(struct hotspot_walk *walk,
                                                   const struct hotspot_process *process)
{
    if (!walk->has_registers || !hotspot_is_return(walk, process, walk->rax))
        return false;
    walk->caller.pc = walk->rax;
    walk->caller.fp = walk->fp;
    walk->caller.sp = hotspot_adapter_sp(walk, walk->sp);
    return true;
}

/* The frame is being made or taken down. */
static __always_inline bool hotspot_stub_partial_caller(struct hotspot_walk *walk,
                                                        const struct hotspot_process *process)
{
    hotspot_read_code(walk);
    int state = hotspot_stub_state(walk);
    return state != HOTSPOT_FRAME_COMPLETE && hotspot_partial_caller(walk, state, 0) &&
           walk->caller.pc &&
           (!hotspot_holds(process, walk->caller.pc) ||
            hotspot_is_return(walk, process, walk->caller.pc));
}

/* An interrupted stub. Most make a frame by the frame pointer, or none: the stack may hold return
 * addresses of the past, so what calls this stub comes first. */
HOTSPOT_FUNCTION int hotspot_stub_leaf(struct hotspot_walk *walk,
                                       const struct hotspot_process *process, __u32 size)
{
    if (!walk || !process)
        return false;
    if (hotspot_stub_partial_caller(walk, process))
        return true;
    if (size != HOTSPOT_FRAMELESS && hotspot_linked_return(walk, process) == HOTSPOT_RETURN_SURE)
        return true;
    int topmost = hotspot_topmost_caller(walk, process);
    if (topmost == HOTSPOT_RETURN_SURE)
        return true;
    if (size == HOTSPOT_FRAMELESS)
        return hotspot_scanned_caller(walk, process, size);
    struct hotspot_caller *caller = &walk->caller;
    if (size && hotspot_word(walk, walk->sp + size - 16, &caller->fp) &&
        hotspot_word(walk, walk->sp + size - 8, &caller->pc) &&
        hotspot_is_return(walk, process, caller->pc)) {
        caller->sp = walk->sp + size;
        return true;
    }
    if (topmost)
        return hotspot_topmost_caller(walk, process) != HOTSPOT_RETURN_NONE;
    if (hotspot_adapter_caller(walk, process))
        return true;
    if (hotspot_linked_return(walk, process) ||
        (hotspot_in_call_stub(walk, process) && hotspot_linked_caller(walk, walk->fp)))
        return true;
    return hotspot_native_caller(walk, process) || hotspot_scanned_caller(walk, process, size);
}

/* The frame of native code that calls back has a size, and its caller lies in no code heap. */
HOTSPOT_FUNCTION int hotspot_step_stub(struct hotspot_walk *walk,
                                       const struct hotspot_process *process)
{
    if (!walk || !process)
        return UNWIND_END_UNKNOWN;
    struct hotspot_caller *caller = &walk->caller;
    __u32 size = hotspot_frame_bytes(walk, process);
    hotspot_add_stub(walk, walk->blob);
    if (walk->is_leaf)
        return hotspot_stub_leaf(walk, process, size) ? HOTSPOT_UNWINDS : UNWIND_END_UNKNOWN;
    if (size >= 16 && size != HOTSPOT_FRAMELESS) {
        if (hotspot_sized_caller(walk, process, size))
            return HOTSPOT_UNWINDS;
        caller->sp = walk->sp + size;
        return hotspot_word(walk, caller->sp - 16, &caller->fp) &&
                       hotspot_word(walk, caller->sp - 8, &caller->pc)
                   ? HOTSPOT_UNWINDS
                   : UNWIND_END_NO_MEMORY;
    }
    if (hotspot_linked_caller(walk, walk->fp) || hotspot_scanned_caller(walk, process, size))
        return HOTSPOT_UNWINDS;
    return UNWIND_END_UNKNOWN;
}

/* ---- all ---- */

/* The frame below returns into a virtual thread's frames that are not on this stack. Its frame
 * pointer is that of the frame which entered the virtual thread, on the carrier's stack. */
static __always_inline int hotspot_add_frozen(struct hotspot_walk *walk)
{
    struct hotspot_caller *caller = &walk->caller;
    walk->words[walk->n_words % HOTSPOT_WORDS_MAX] = (__u64)FRAME_JVM_GAP << RECORD_FRAME_SHIFT;
    walk->n_words++;
    walk->n_frames++;
    walk->sp = caller->sp;
    return hotspot_linked_caller(walk, caller->fp) ? HOTSPOT_UNWINDS : UNWIND_END_UNKNOWN;
}

/* The frame at pc, which hotspot_holds(), into words; and on to its caller: HOTSPOT_UNWINDS, or
 * enum unwind_end. */
static __always_inline int hotspot_walk_step(struct hotspot_walk *walk,
                                             const struct hotspot_process *process)
{
    struct hotspot_caller *caller = &walk->caller;
    int end = HOTSPOT_UNWINDS;
    walk->n_words = walk->n_frames = 0;
    walk->blob = 0;
    if (hotspot_in_interpreter(process, walk->pc)) {
        end = hotspot_step_interpreter(walk, process);
    } else {
        end = hotspot_find_blob(walk, process, walk->pc);
        if (end == HOTSPOT_UNWINDS)
            end = hotspot_is_nmethod(walk, &process->blob) ? hotspot_step_compiled(walk, process)
                                                           : hotspot_step_stub(walk, process);
    }
    if (!walk->n_words)
        hotspot_add_stub(walk, walk->blob);
    if (end == HOTSPOT_UNWINDS && caller->pc == process->return_barrier && caller->pc)
        end = hotspot_add_frozen(walk);
    if (end != HOTSPOT_UNWINDS)
        return end;
    /* A leaf without a frame, whose return address is in a register, is as high as its caller-> */
    if (caller->sp + walk->is_leaf <= walk->sp || caller->sp % 8)
        return UNWIND_END_NO_PROGRESS;
    walk->pc = caller->pc;
    walk->sp = caller->sp;
    walk->fp = caller->fp;
    walk->is_leaf = 0;
    return walk->pc ? HOTSPOT_UNWINDS : UNWIND_END_OF_STACK;
}
