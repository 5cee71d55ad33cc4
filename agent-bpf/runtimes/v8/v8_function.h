/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A function of JavaScript, as its SharedFunctionInfo describes it. Outcomes and thread as in
 * v8_heap.h.
 */
#include "agent-bpf/runtimes/v8/v8_text.h"

struct v8_shared { /* words of a SharedFunctionInfo */
    uint64_t data;
    uint64_t name;
    uint64_t script; /* an object, but not always a Script */
    int32_t literal; /* number of the function in its script */
};

/* -EFAULT: it is none. */
int v8_function_shared(struct v8_heap *heap, uint64_t shared, struct v8_shared *out);

struct v8_function {
    char name[V8_TEXT_MAX + 1]; /* empty: it has none */
    int32_t start;              /* offsets in the script; -1: not known */
    int32_t end;
};

int v8_function_describe(struct v8_heap *heap, const struct v8_shared *shared,
                         struct v8_function *out);
/* The function's BytecodeArray. -ENOENT: it has none. */
int v8_function_bytecode(struct v8_heap *heap, uint64_t data, uint64_t *bytecode);
/* Bytes of the bytecodes, at the BytecodeArray's data. */
int v8_function_bytecode_length(struct v8_heap *heap, uint64_t bytecode, uint32_t *length);
/* The table of positions of a BytecodeArray. -ENOENT: V8 has not made it. */
int v8_function_positions(struct v8_heap *heap, uint64_t bytecode, uint64_t *table);
