/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Machine code that V8 made at run time: which Code an address lies in, and what positions in
 * sources it stands for. Outcomes and thread as in v8_heap.h.
 */
#include "agent-bpf/runtimes/v8/v8_function.h"

#define V8_CODE_BYTES_MAX (1u << 20)
#define V8_INLINED_MAX    31 /* calls inlined at one place */

struct v8_code {
    uint64_t start; /* of the instructions */
    uint32_t size;
    uint32_t kind;
    uint64_t object; /* Code */
    uint64_t data;   /* for deoptimization; or the BytecodeArray */
    uint64_t table;  /* of positions; baseline: of bytes of each bytecode */
};

struct v8_code_search { /* zeroed at first, but for the first candidate */
    uint64_t first;     /* the candidate that is looked at first; 0: none */
    uint64_t at;        /* where the next one begins */
    uint64_t window;    /* bytes of code to be read next */
    bool found;
    struct v8_code code;
};

struct v8_call { /* a function, and where in it */
    uint64_t shared;
    int32_t position; /* offset in the script, or one of these: */
};

enum { V8_POSITION_UNKNOWN = -1, V8_POSITION_AT_START = -2 /* of the function */ };

/* -ENOENT: the address lies in none. Goes on where it was when it returned -EAGAIN. */
int v8_code_find(struct v8_heap *heap, uint64_t pc, struct v8_code_search *search);
bool v8_code_is_baseline(const struct v8_heap *heap, const struct v8_code *code);
/* offset: from the start of the code. Calls inlined there, innermost first; the last is the
 * function whose code it is (shared 0: the code does not tell). calls: V8_INLINED_MAX + 1.
 * -ENOENT: its data are not what they should be, so the code is gone. */
int v8_code_calls(struct v8_heap *heap, const struct v8_code *code, uint64_t offset,
                  struct v8_call *calls, size_t *n);
/* Offset in the bytecodes of an address in baseline code; -1: not known. */
int v8_code_bytecode(struct v8_heap *heap, const struct v8_code *code, uint64_t bytecode,
                     uint64_t offset, int32_t *out);
/* Position of an offset in the bytecodes of a BytecodeArray; -1: not known. */
int v8_code_position(struct v8_heap *heap, uint64_t bytecode, uint32_t offset, int32_t *position);
