/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * One step over a frame of V8 (x86-64): from code that V8 made, or from one of its builtins, to the
 * caller. One source for the sampler's BPF program and for user space. The includer defines before:
 *     int v8_step_read(void *context, void *out, __u32 size, __u64 address);    0: all was read
 *     bool v8_step_is_code(void *context, const struct v8_process *process, __u64 address);
 * the second of which says whether V8's code lies at an address.
 *
 * A frame begins with the caller's rbp and the return address at rbp. Below lies the context of a
 * JavaScript function (tagged), then the function; or, in other frames, their type (a Smi).
 * Interpreted frames have their BytecodeArray and the offset in it in further words. Only where the
 * thread runs, in the leaf, rbp may be that of the caller: before a function has made its frame,
 * behind the end of it, and in builtins that have none. Source: V8's frame-constants.h, and what
 * code of Node 16 to 26 does (docs/design/runtimes.md).
 */
#include "agent-bpf/record.h"
#include "agent-bpf/runtimes/v8/v8_step_state.h"

enum v8_step_outcome { V8_STEP_GOES_ON, V8_STEP_NO_MEMORY, V8_STEP_NO_PROGRESS, V8_STEP_UNKNOWN };

/* What of its frame a leaf has. */
enum v8_leaf {
    V8_LEAF_HAS_FRAME, /* rbp is its own */
    V8_LEAF_CALLED,    /* none: rsp is at the return address */
    V8_LEAF_PUSHED,    /* none, but the caller's rbp is pushed */
    V8_LEAF_MAKES,     /* rbp is its own, but the words below are not written */
    V8_LEAF_RETURNS,   /* none any more: rsp is at the return address */
};

static inline bool v8_is_tagged(__u64 word)
{
    return (word & 3) == 1;
}

static inline bool v8_is_smi(__u64 word)
{
    return !(word & 0xffffffff);
}

static inline void v8_step_native(struct v8_step *step)
{
    __u64 pc = step->pc & (RECORD_FRAME_EXACT - 1);
    step->words[0] = pc | (__u64)FRAME_NATIVE << RECORD_FRAME_SHIFT;
    if (step->is_leaf)
        step->words[0] |= RECORD_FRAME_EXACT;
    step->n_words = 1;
}

/* offset: of the bytecode; negative: the code at pc tells. */
static inline void v8_step_javascript(const struct v8_process *process, struct v8_step *step,
                                      __s64 offset)
{
    v8_step_native(step);
    step->words[0] &= RECORD_FRAME_EXACT | (RECORD_FRAME_EXACT - 1);
    step->words[0] |= (__u64)FRAME_V8 << RECORD_FRAME_SHIFT;
    step->words[1] = step->words[2] = 0;
    step->n_words = 3;
    if (step->shared_at) {
        __u64 script = step->shared[(process->shared_script / 8) & (V8_STEP_SHARED - 1)];
        __u64 literal = step->shared[(process->shared_literal / 8) & (V8_STEP_SHARED - 1)] >> 32;
        step->words[1] = (step->shared_at & V8_FRAME_SHARED_MASK) | V8_SCRIPT_HASH(script)
                                                                        << V8_FRAME_SCRIPT_SHIFT;
        step->words[2] = literal << 32;
    }
    if (offset < 0) {
        step->words[2] |= step->code_hash;
        return;
    }
    step->words[0] &= ~(RECORD_FRAME_EXACT - 1);
    step->words[1] |= V8_FRAME_INTERPRETED;
    step->words[2] |= (__u32)offset;
}

/* Reads what the function (a tagged pointer) shares with others of the same source. */
static inline void v8_step_shared(const struct v8_process *process, struct v8_step *step,
                                  __u64 function, void *context)
{
    __u64 shared;
    step->shared_at = 0;
    if (!v8_is_tagged(function) ||
        v8_step_read(context, &shared, sizeof(shared), function - 1 + process->function_shared) ||
        !v8_is_tagged(shared) ||
        v8_step_read(context, step->shared, sizeof(step->shared), shared - 1))
        return;
    step->shared_at = shared - 1;
}

static inline __u32 v8_step_code_u32(const struct v8_step *step, __u32 at)
{
    const __u8 *code = &step->code[at & (V8_STEP_CODE - 1)];
    return code[0] | (__u32)code[1] << 8 | (__u32)code[2] << 16 | (__u32)code[3] << 24;
}

/* Code that V8 has freed may soon be replaced by other code of the same function: what is at pc
 * tells them apart. */
static inline void v8_step_hash(struct v8_step *step, void *context)
{
    if (!v8_step_read(context, &step->code_at_pc, sizeof(step->code_at_pc), step->pc))
        step->code_hash = V8_CODE_HASH(step->code_at_pc);
}

/* The frame that begins at pc or soon behind it: push rbp; mov rbp, rsp. What comes before in a
 * function checks whether its code may still be used. */
static inline bool v8_step_is_before(const struct v8_step *step)
{
    for (__u32 i = 0; i < V8_STEP_AHEAD; i++)
        if (v8_step_code_u32(step, V8_STEP_PC + i) == V8_CODE_BEGINS)
            return true;
    return false;
}

/* The frame's end, mov rsp, rbp; pop rbp, lies shortly before pc. */
static inline bool v8_step_is_behind(const struct v8_step *step)
{
    for (__u32 i = 4; i < 4 + V8_STEP_AHEAD; i++) {
        __u32 code = v8_step_code_u32(step, V8_STEP_PC - i);
        if (code == V8_CODE_ENDS || code == V8_CODE_ENDS_ALSO)
            return true;
    }
    return false;
}

/* Of code made at run time. */
static inline enum v8_leaf v8_step_leaf(const struct v8_process *process, struct v8_step *step,
                                        void *context)
{
    if (v8_step_read(context, step->code, sizeof(step->code), step->pc - V8_STEP_PC))
        return V8_LEAF_HAS_FRAME;
    step->code_at_pc =
        v8_step_code_u32(step, V8_STEP_PC) | (__u64)v8_step_code_u32(step, V8_STEP_PC + 4) << 32;
    step->code_hash = V8_CODE_HASH(step->code_at_pc);
    __u8 now = step->code[V8_STEP_PC], last = step->code[V8_STEP_PC - 1];
    if (step->sp > step->fp - 16 && step->sp <= step->fp && now != V8_CODE_POP)
        return V8_LEAF_MAKES;
    if (last == V8_CODE_PUSH &&
        (v8_step_code_u32(step, V8_STEP_PC) & 0xffffff) == V8_CODE_BEGINS >> 8)
        return V8_LEAF_PUSHED;
    if (v8_step_is_before(step))
        return V8_LEAF_CALLED;
    if ((now == V8_CODE_RET || now == V8_CODE_RET_ALSO || v8_step_is_behind(step)) &&
        !v8_step_read(context, step->calls, sizeof(step->calls), step->sp) &&
        v8_step_is_code(context, process, step->calls[0]))
        return V8_LEAF_RETURNS;
    return V8_LEAF_HAS_FRAME;
}

static inline int v8_step_slots(struct v8_step *step, __u64 fp, void *context)
{
    step->frame = fp;
    return v8_step_read(context, step->slots, sizeof(step->slots), fp - 48) ? V8_STEP_NO_MEMORY
                                                                            : V8_STEP_GOES_ON;
}

static inline int v8_step_to(struct v8_step *step, __u64 pc, __u64 sp, __u64 fp)
{
    step->pc = pc;
    step->sp = sp;
    step->fp = fp;
    step->is_leaf = 0;
    return V8_STEP_GOES_ON;
}

/* By the frame at rbp. */
static inline int v8_step_by_frame(struct v8_step *step)
{
    if (step->fp < step->sp)
        return V8_STEP_NO_PROGRESS;
    return v8_step_to(step, step->slots[7], step->fp + 16, step->slots[6]);
}

/* A leaf that has not made its frame: it is called, so a register has its function. */
static inline int v8_step_called(const struct v8_process *process, struct v8_step *step,
                                 enum v8_leaf leaf, void *context)
{
    if (v8_step_read(context, step->calls, sizeof(step->calls), step->sp))
        return V8_STEP_NO_MEMORY;
    v8_step_shared(process, step, step->function_register, context);
    v8_step_javascript(process, step, -1);
    if (leaf == V8_LEAF_PUSHED)
        return v8_step_to(step, step->calls[1], step->sp + 16, step->calls[0]);
    return v8_step_to(step, step->calls[0], step->sp + 8, step->fp);
}

/* The words of the frame that has ended lie below rsp still, if nothing else was pushed. */
static inline int v8_step_returns(const struct v8_process *process, struct v8_step *step,
                                  void *context)
{
    step->shared_at = 0;
    if (!v8_step_slots(step, step->sp - 8, context) && step->slots[6] == step->fp)
        v8_step_shared(process, step, step->slots[4], context);
    v8_step_javascript(process, step, -1);
    return v8_step_to(step, step->calls[0], step->sp + 8, step->fp);
}

static inline bool v8_step_in_handlers(const struct v8_process *process, __u64 at)
{
    return at >= process->handlers && at < process->handlers_end;
}

/* Offset of the bytecode of the interpreted frame in slots; -1: it is none. at: of pc in the
 * builtins. A handler of a bytecode has it in a register, and the frame that of an earlier one. */
static inline __s64 v8_step_bytecode(const struct v8_process *process, const struct v8_step *step,
                                     __u64 at)
{
    __u64 word = step->slots[1], offset = word >> 32, header = process->bytecode_data - 1ULL;
    bool may_be_handler = !process->handlers_end || v8_step_in_handlers(process, at);
    if (!v8_is_tagged(step->slots[2]) || !v8_is_smi(word) || !v8_is_tagged(step->shared[1]))
        return -1;
    if (step->is_leaf && may_be_handler && step->bytecode_register == step->slots[2])
        offset = step->offset_register;
    return offset >= header && offset - header < V8_STEP_BYTECODES ? (__s64)(offset - header) : -1;
}

/* A leaf in a builtin that has no frame, or none yet, called by the function of the frame at rbp.
 * False: the frame is the builtin's. */
static inline bool v8_step_frameless(const struct v8_process *process, struct v8_step *step,
                                     __u64 at, void *context)
{
    if (!step->is_leaf || v8_step_in_handlers(process, at) || !v8_is_tagged(step->shared[1]) ||
        v8_step_read(context, step->calls, sizeof(step->calls), step->sp))
        return false;
    __u32 i = v8_step_is_code(context, process, step->calls[0]) ? 0 : 1;
    if (i && !v8_step_is_code(context, process, step->calls[1]))
        return false;
    v8_step_native(step);
    v8_step_to(step, step->calls[i], step->sp + 8 * (i + 1), step->fp);
    return true;
}

/* A frame of a JavaScript function, at rbp. */
static inline int v8_step_function(const struct v8_process *process, struct v8_step *step,
                                   void *context)
{
    __u64 at = 0;
    bool builtin = v8_process_builtin(process, step->pc, &at);
    if (step->is_leaf && builtin && step->sp > step->fp - 16) { /* the frame is being made */
        v8_step_native(step);
        return v8_step_by_frame(step);
    }
    v8_step_shared(process, step, step->slots[4], context);
    if (!step->shared_at) {
        v8_step_native(step);
        return v8_step_by_frame(step);
    }
    if (!builtin && !step->is_leaf)
        v8_step_hash(step, context);
    __s64 bytecode = builtin ? v8_step_bytecode(process, step, at) : -1;
    if (builtin && v8_step_frameless(process, step, at, context))
        return V8_STEP_GOES_ON;
    v8_step_javascript(process, step, bytecode);
    return v8_step_by_frame(step);
}

/* enum v8_step_outcome. The frame is right also if there is no way on from it. */
static inline int v8_step(const struct v8_process *process, struct v8_step *step, void *context)
{
    __u64 at;
    enum v8_leaf leaf = V8_LEAF_HAS_FRAME;
    step->n_words = 0;
    step->shared_at = 0;
    step->code_hash = 0;
    if (step->is_leaf && !v8_process_builtin(process, step->pc, &at))
        leaf = v8_step_leaf(process, step, context);
    if (leaf == V8_LEAF_CALLED || leaf == V8_LEAF_PUSHED)
        return v8_step_called(process, step, leaf, context);
    if (leaf == V8_LEAF_RETURNS)
        return v8_step_returns(process, step, context);
    v8_step_native(step);
    if (step->fp % 8 || step->fp < step->sp)
        return V8_STEP_UNKNOWN;
    if (v8_step_slots(step, step->fp, context))
        return V8_STEP_NO_MEMORY;
    if (leaf == V8_LEAF_MAKES) {
        v8_step_shared(process, step, step->function_register, context);
        v8_step_javascript(process, step, -1);
        return v8_step_by_frame(step);
    }
    if (v8_is_tagged(step->slots[5]))
        return v8_step_function(process, step, context);
    __u64 type = (step->slots[5] & 0x7f) >> 1; /* of a frame that is no function's */
    if (!step->is_leaf && type < 64 && process->hidden_frames >> type & 1)
        step->n_words = 0;
    return v8_step_by_frame(step);
}
