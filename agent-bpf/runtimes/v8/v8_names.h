/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Frames of V8 to functions of JavaScript, with file, line and column, calls inlined there
 * included. A frame (words of FRAME_V8, v8_step.h) names objects that may have been moved or freed
 * since: it counts only if the object is a function's, with the number in its script and the script
 * that the frame says. Limits: of v8_heap.h and v8_script.h; a frame that needs more than
 * V8_NAMES_ROUNDS fetches is given up. Where the way to a frame's names went is kept (v8_trail.h),
 * so frames that were named before take one or two fetches together. Thread: the symbolizer's loop.
 */
#include "agent-bpf/runtimes/v8/v8_code.h"
#include "agent-bpf/runtimes/v8/v8_script.h"

#define V8_NAMES_ROUNDS 96

struct v8_name { /* texts are valid UTF-8 without control characters, empty: not known */
    const char *function;
    const char *file;
    uint32_t line; /* from 1 on; 0: not known */
    uint32_t column;
    uint32_t start_line;
};

enum v8_names_outcome { V8_NAMED, V8_STALE, V8_UNREADABLE, V8_UNKNOWN };

/* Called once for each frame, in any order. names: n of them, innermost first, borrowed. Negative
 * errno ends it. */
typedef int v8_names_take(void *context, size_t frame, enum v8_names_outcome outcome,
                          const struct v8_name *names, size_t n);

struct v8_names_request {
    const struct v8_file *file;
    const struct v8_process *process;
    struct runtime_memory *memory;
    const struct v8_store *store; /* NULL: none */
    const uint64_t (*frames)[3];  /* words of each */
    size_t n;
};

/* 0, or negative errno: of take(), -ENOMEM, or of the memory. */
int v8_names_find(const struct v8_names_request *request, v8_names_take *take, void *context);
