/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where the way from a frame's words to its names went the last time: the lines of memory, and the
 * start of its code. V8 moves objects and frees code, so a name is always read again, and by the
 * same checks; but what is wanted of all frames of a request is fetched at once, and the code of an
 * address need not be searched. Thread: the symbolizer's loop.
 */
#include "agent-bpf/runtimes/v8/v8_heap.h"
#include "agent-bpf/runtimes/v8/v8_store.h"

#define V8_TRAIL_LINES 128 /* of a frame; further ones are not noted. Seen: 40 */
#define V8_AHEAD_LINES (V8_HEAP_LINES_MAX / 2) /* of a request: the others are for what is new */

/* Notes as wanted what was read the last time. *code: start of its instructions; 0: not known. */
void v8_trail_follow(const struct v8_store *store, struct v8_heap *heap, const uint64_t words[3],
                     uint64_t *code);
/* Keeps what was read since v8_heap_begin(). */
void v8_trail_put(const struct v8_store *store, const struct v8_heap *heap, const uint64_t words[3],
                  uint64_t code);
