/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * What v8_step() works on. In the kernel it lies in a map: it is too large for the stack.
 */
#include "agent-bpf/runtimes/v8_process.h"

#define V8_STEP_SLOTS     8  /* words read at rbp */
#define V8_STEP_SHARED    8  /* words read of a SharedFunctionInfo */
#define V8_STEP_CODE      64 /* bytes of code read around the pc of a leaf */
#define V8_STEP_PC        28 /* index of the byte at pc */
#define V8_STEP_AHEAD     24 /* bytes in which the begin or the end of a frame is looked for */
#define V8_STEP_BYTECODES (1u << 30)

#define V8_CODE_BEGINS    0xe5894855 /* push rbp; mov rbp, rsp */
#define V8_CODE_ENDS      0x5de58b48 /* mov rsp, rbp; pop rbp */
#define V8_CODE_ENDS_ALSO 0x5dec8948 /* in the other of two forms */
#define V8_CODE_PUSH      0x55
#define V8_CODE_POP       0x5d
#define V8_CODE_RET       0xc3
#define V8_CODE_RET_ALSO  0xc2 /* and takes arguments from the stack */

/* The first fields are set by the caller, and changed to those of the frame's caller. */
struct v8_step {
    __u64 pc;
    __u64 sp;
    __u64 fp;
    __u64 offset_register;   /* leaf: r9, of the interpreter's bytecode */
    __u64 bytecode_register; /* leaf: r12, its BytecodeArray */
    __u64 function_register; /* leaf: rdi, the function that is called */
    __u32 is_leaf;           /* pc is what runs, not a return address */
    __u32 n_words;           /* of the frame that this step found; 0: none that is worth showing */
    __u64 words[3];
    /* What was read, and what for. */
    __u64 frame;                /* rbp of the frame whose words are in slots */
    __u64 slots[V8_STEP_SLOTS]; /* [frame - 48, frame + 16) */
    __u64 calls[2];             /* at rsp */
    __u64 shared[V8_STEP_SHARED];
    __u64 shared_at; /* 0: shared was not read */
    __u64 code_at_pc;
    __u32 code_hash; /* of it; 0: it was not read */
    __u32 reserved;
    __u8 code[V8_STEP_CODE];
};
