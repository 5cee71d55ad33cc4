/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Where the caller of an interrupted frame is: while a frame is made or taken down, its size or the
 * frame pointer says nothing. What HotSpot's assemblers write there is recognised by the bytes
 * around pc, on x86-64. Source: disassembled code of 11, 17, 21 and 25; MacroAssembler and
 * InterpreterMacroAssembler of their sources.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_blob.h"

enum hotspot_frame_state {
    HOTSPOT_FRAME_COMPLETE,
    HOTSPOT_FRAME_NONE,    /* the return address is on top of the stack */
    HOTSPOT_FRAME_FP_ONLY, /* on top is the frame pointer, then the return address */
    HOTSPOT_FRAME_FP_LIVE, /* it has its size, but the frame pointer is not saved */
};

/* True: the instruction at `at` adds to or subtracts from rsp, by that much. opcode: 0x4883ec with
 * a byte, 0x4881ec with an int for sub; c4 instead of ec for add. */
static __always_inline bool hotspot_code_moves_sp(const struct hotspot_walk *walk, int at,
                                                  __u32 modrm, __u32 bytes)
{
    __u32 opcode = hotspot_code3(walk, at);
    return (opcode == (0x488300 | modrm) && hotspot_code(walk, at + 3) == bytes && bytes < 128) ||
           (opcode == (0x488100 | modrm) && hotspot_code_int(walk, at + 3) == bytes);
}

/* mov [rsp + x], rbp */
static __always_inline bool hotspot_code_saves_fp(const struct hotspot_walk *walk, int at)
{
    __u32 opcode = hotspot_code3(walk, at);
    return (opcode == 0x48896c || opcode == 0x4889ac) && hotspot_code(walk, at + 3) == 0x24;
}

/* sub rsp, bytes: its code as a number, the first byte lowest; ~0: it has no such form. */
static __always_inline __u64 hotspot_sub_short(__u32 bytes)
{
    return bytes < 128 ? 0xec8348 | (__u64)bytes << 24 : ~0ULL;
}

static __always_inline __u64 hotspot_sub_long(__u32 bytes)
{
    return 0xec8148 | (__u64)bytes << 24;
}

/* In front of frame_complete: push rbp; [mov rbp, rsp;] sub rsp, size - 16, or sub rsp, size - 8;
 * mov [rsp + size - 16], rbp; then what has nothing to do with the frame. */
HOTSPOT_FUNCTION int hotspot_prologue_state(const struct hotspot_walk *walk, __u32 size)
{
    if (!walk)
        return HOTSPOT_FRAME_COMPLETE;
    bool saves = hotspot_code_saves_fp(walk, 0);
    __u64 short_saved = hotspot_sub_short(size - 16), long_saved = hotspot_sub_long(size - 16);
    __u64 short_all = hotspot_sub_short(size - 8), long_all = hotspot_sub_long(size - 8);
    for (int at = -4; at >= -HOTSPOT_CODE_BEFORE; at--) {
        __u64 code = hotspot_code8(walk, at);
        __u64 four = code & 0xffffffff, seven = at <= -7 ? code & 0xffffffffffffff : 0;
        if (four == short_saved || seven == long_saved)
            return HOTSPOT_FRAME_COMPLETE;
        if (four == short_all || seven == long_all)
            return saves && at == (four == short_all ? -4 : -7) ? HOTSPOT_FRAME_FP_LIVE
                                                                : HOTSPOT_FRAME_COMPLETE;
    }
    __u32 before = hotspot_code3(walk, -3);
    bool pushed = hotspot_code(walk, -1) == 0x55 &&
                  (hotspot_code3(walk, 0) == 0x488bec || hotspot_code3(walk, 0) == 0x4889e5 ||
                   hotspot_code_moves_sp(walk, 0, 0xec, size - 16));
    bool moved = (before == 0x488bec || before == 0x4889e5) && hotspot_code(walk, -4) == 0x55;
    return pushed || moved ? HOTSPOT_FRAME_FP_ONLY : HOTSPOT_FRAME_NONE;
}

/* True: a check for a safepoint begins here: cmp rsp, [r15 + x] (17 and later), mov r10, [r15 + x]
 * (11), test [rip + x], eax (8). */
static __always_inline bool hotspot_code_polls(const struct hotspot_walk *walk, int at)
{
    __u32 code = hotspot_code3(walk, at);
    return code == 0x493ba7 || code == 0x493b67 || code == 0x4d8b97 || code == 0x4d8b57 ||
           code >> 8 == 0x8505;
}

/* Wrappers of native methods: leave; cmp qword [r15 + x], 0; jne; ret. */
static __always_inline bool hotspot_code_has_left_wrapper(const struct hotspot_walk *walk)
{
    __u32 now = hotspot_code3(walk, 0);
    if (hotspot_code(walk, -1) == 0xc9 && (now == 0x49837f || now == 0x4983bf))
        return true;
    if (now >> 8 != 0x0f85 || hotspot_code(walk, 6) != 0xc3)
        return false;
    return (hotspot_code(walk, -6) == 0xc9 && hotspot_code3(walk, -5) == 0x49837f) ||
           (hotspot_code(walk, -9) == 0xc9 && hotspot_code3(walk, -8) == 0x4983bf);
}

/* Behind the body: add rsp, size - 16; pop rbp; check for a safepoint; ret. */
HOTSPOT_FUNCTION int hotspot_epilogue_state(const struct hotspot_walk *walk, __u32 size)
{
    if (!walk)
        return HOTSPOT_FRAME_COMPLETE;
    bool added = hotspot_code_moves_sp(walk, -4, 0xc4, size - 16) ||
                 hotspot_code_moves_sp(walk, -7, 0xc4, size - 16);
    bool added_before = hotspot_code_moves_sp(walk, -5, 0xc4, size - 16) ||
                        hotspot_code_moves_sp(walk, -8, 0xc4, size - 16);
    __u32 now = hotspot_code(walk, 0), before = hotspot_code(walk, -1);
    if (now == 0xc3)
        return HOTSPOT_FRAME_NONE;
    if (now == 0x5d && (added || hotspot_code_polls(walk, 1) || hotspot_code(walk, 1) == 0xc3))
        return HOTSPOT_FRAME_FP_ONLY;
    if (before == 0x5d && (added_before || hotspot_code_polls(walk, 0)))
        return HOTSPOT_FRAME_NONE;
    if (hotspot_code_has_left_wrapper(walk))
        return HOTSPOT_FRAME_NONE;
    /* ja, behind the comparison; test [r10], eax */
    if ((now == 0x0f && hotspot_code(walk, 1) == 0x87 && hotspot_code(walk, 6) == 0xc3) ||
        (hotspot_code3(walk, 0) == 0x418502 && hotspot_code(walk, 3) == 0xc3))
        return HOTSPOT_FRAME_NONE;
    return HOTSPOT_FRAME_COMPLETE;
}

/* A stub's frame begins with push rbp; mov rbp, rsp, and ends with leave, or pop rbp; ret. */
static __always_inline int hotspot_stub_state(const struct hotspot_walk *walk)
{
    __u32 now = hotspot_code3(walk, 0);
    bool pushed = hotspot_code(walk, -1) == 0x55 && (now == 0x488bec || now == 0x4889e5);
    bool pushes = now == 0x55488b || now == 0x554889;
    if (pushed || now >> 8 == 0x5dc3)
        return HOTSPOT_FRAME_FP_ONLY;
    return pushes || now >> 16 == 0xc3 ? HOTSPOT_FRAME_NONE : HOTSPOT_FRAME_COMPLETE;
}

/* The barrier of nmethods keeps a word free below its return address: push -1. */
static __always_inline bool hotspot_skip_free_word(struct hotspot_walk *walk)
{
    struct hotspot_caller *caller = &walk->caller;
    if (caller->pc != ~0ULL)
        return true;
    caller->sp += 8;
    return hotspot_word(walk, caller->sp - 8, &caller->pc);
}

/* The caller of a frame that is not complete. */
static __always_inline bool hotspot_partial_caller(struct hotspot_walk *walk, int state, __u32 size)
{
    struct hotspot_caller *caller = &walk->caller;
    caller->fp = walk->fp;
    if (state == HOTSPOT_FRAME_FP_ONLY) {
        caller->sp = walk->sp + 16;
        return hotspot_word(walk, walk->sp, &caller->fp) &&
               hotspot_word(walk, walk->sp + 8, &caller->pc) && hotspot_skip_free_word(walk);
    }
    caller->sp = walk->sp + (state == HOTSPOT_FRAME_NONE ? 8 : size);
    return hotspot_word(walk, caller->sp - 8, &caller->pc) && hotspot_skip_free_word(walk);
}

/* ---- the interpreter ---- */

enum hotspot_entry_state {
    HOTSPOT_ENTRY_NONE,    /* pc lies in no method entry, or its frame is complete */
    HOTSPOT_ENTRY_ON_TOP,  /* no frame: the return address is on top of the stack */
    HOTSPOT_ENTRY_IN_RAX,  /* no frame: the return address is in rax */
    HOTSPOT_ENTRY_FP_ONLY, /* on top is the frame pointer, then the return address */
    HOTSPOT_ENTRY_FRAME,   /* the frame pointer is right, and the Method not yet saved */
};

/* *saved_sp: the caller's stack pointer is in the frame, else in r13. */
static __always_inline enum hotspot_entry_state
hotspot_entry_state(const struct hotspot_process *process, __u64 pc, bool *saved_sp)
{
    __u32 at = (__u32)(pc - process->interpreter);
    *saved_sp = false;
    if (at < process->entries_start || at >= process->entries_end)
        return HOTSPOT_ENTRY_NONE;
    for (int i = 0; i < HOTSPOT_ENTRIES_MAX; i++) {
        const struct hotspot_entry *entry = &process->entries[i];
        if (at < entry->start || at >= entry->end)
            continue;
        if (at >= entry->saved)
            return HOTSPOT_ENTRY_NONE;
        if (at <= entry->pop)
            return HOTSPOT_ENTRY_ON_TOP;
        if (at <= entry->push)
            return HOTSPOT_ENTRY_IN_RAX;
        if (at <= entry->push + HOTSPOT_PUSH_RBP)
            return HOTSPOT_ENTRY_ON_TOP;
        if (at <= entry->push + HOTSPOT_MOV_RBP)
            return HOTSPOT_ENTRY_FP_ONLY;
        *saved_sp = at >= entry->push + HOTSPOT_SAVED_SP;
        return HOTSPOT_ENTRY_FRAME;
    }
    return HOTSPOT_ENTRY_ON_TOP; /* an intrinsic: it makes no frame */
}

/* A bytecode that returns: leave; pop r13; mov rsp, rbx; [what is due to continuations;] jmp r13,
 * with the caller's stack pointer in rbx. */
enum hotspot_exit_state {
    HOTSPOT_EXIT_NONE,
    HOTSPOT_EXIT_ON_TOP,  /* the frame pointer is the caller's */
    HOTSPOT_EXIT_POPPED,  /* the return address is in r13 */
    HOTSPOT_EXIT_ON_JUMP, /* and rsp is the caller's */
};

/* pop r13; mov rsp, rbx */
static __always_inline bool hotspot_code_pops(const struct hotspot_walk *walk, int at)
{
    return hotspot_code3(walk, at) == 0x415d48 && hotspot_code(walk, at + 3) == 0x8b &&
           hotspot_code(walk, at + 4) == 0xe3;
}

/* leave, with mov byte [r15 + x], y behind it from 25 on */
static __always_inline bool hotspot_code_has_left(const struct hotspot_walk *walk)
{
    bool notes_now = hotspot_code3(walk, 0) == 0x41c687;
    bool notes_before = hotspot_code3(walk, -8) == 0x41c687;
    return (hotspot_code(walk, -1) == 0xc9 && hotspot_code_pops(walk, notes_now ? 8 : 0)) ||
           (notes_before && hotspot_code(walk, -9) == 0xc9 && hotspot_code_pops(walk, 0));
}

HOTSPOT_FUNCTION int hotspot_exit_state(const struct hotspot_walk *walk)
{
    if (!walk)
        return HOTSPOT_EXIT_NONE;
    if (hotspot_code_has_left(walk))
        return HOTSPOT_EXIT_ON_TOP;
    if (hotspot_code_pops(walk, -2))
        return HOTSPOT_EXIT_POPPED;
    if (hotspot_code3(walk, 0) == 0x41ffe5)
        return HOTSPOT_EXIT_ON_JUMP;
    /* cmp rsp, [r15 + x] (7 bytes); jb (2); mov [r15 + x], 0 */
    bool continuations = (hotspot_code_pops(walk, -12) && hotspot_code3(walk, -7) == 0x493ba7) ||
                         (hotspot_code_pops(walk, -14) && hotspot_code3(walk, -9) == 0x493ba7);
    return continuations || hotspot_code_pops(walk, -5) ? HOTSPOT_EXIT_ON_JUMP : HOTSPOT_EXIT_NONE;
}
