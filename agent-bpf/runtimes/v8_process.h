/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * What the steps over V8's frames need of a process: the section of V8 in the sampler's map of
 * runtimes. Written by v8_attach.c, read by v8_step.h in the kernel and in user space. Offsets are
 * bytes from the start of an object, not from its tagged pointer.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#include <stdbool.h>
#endif

#define V8_BUILTINS_MAX 2 /* times that the embedded builtins are mapped */

struct v8_range { /* addresses in the process; both 0: none */
    __u64 start;
    __u64 end;
};

struct v8_process {
    struct v8_range builtins[V8_BUILTINS_MAX]; /* the same code in each */
    __u32 handlers; /* the interpreter's handlers of bytecodes, from the start of the builtins on;
                       0: not known */
    __u32 handlers_end;
    __u64 hidden_frames;   /* a bit for each type of frames that says nothing to a reader */
    __u16 function_shared; /* in a JSFunction: its SharedFunctionInfo */
    __u16 shared_script;   /* in a SharedFunctionInfo */
    __u16 shared_literal;  /* the same: number of the function in its script, int32 */
    __u16 bytecode_data;   /* in a BytecodeArray: the first bytecode */
};

/* Words of FRAME_V8: pc (0: interpreted) | kind; SharedFunctionInfo | tier | hash of the script's
 * address << 48; function_literal_id << 32 | offset of the bytecode or, of machine code, hash of
 * the instructions at pc (0: not known). */
#define V8_FRAME_INTERPRETED  1ULL /* tier */
#define V8_FRAME_SHARED_MASK  0xfffffffffff8ULL
#define V8_FRAME_SCRIPT_SHIFT 48

#define V8_SCRIPT_HASH(script) (((script) >> 3 ^ (script) >> 19) & 0xffff)
#define V8_CODE_HASH(bytes)    ((__u32)((bytes) ^ (bytes) >> 32) | 1) /* of 8, as a number */

_Static_assert(sizeof(struct v8_process) == 56, "v8_process is a part of a BPF map's value");

/* offset: from the start of the builtins. */
static inline bool v8_process_builtin(const struct v8_process *process, __u64 pc, __u64 *offset)
{
    for (int i = 0; i < V8_BUILTINS_MAX; i++) {
        if (pc < process->builtins[i].start || pc >= process->builtins[i].end)
            continue;
        *offset = pc - process->builtins[i].start;
        return true;
    }
    return false;
}
