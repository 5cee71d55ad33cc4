/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Strings of V8: in one piece or of several, one or two bytes a character, inside or outside of the
 * heap. Outcomes and thread as in v8_heap.h.
 */
#include "agent-bpf/runtimes/v8/v8_heap.h"

#define V8_TEXT_MAX 512 /* bytes of a name */

struct v8_characters { /* of a string in one piece */
    uint64_t address;
    uint32_t length; /* characters */
    bool wide;       /* UTF-16; else Latin-1 */
};

/* True: the object is a string. */
int v8_text_is_string(struct v8_heap *heap, uint64_t object, bool *is_string);
/* The string as UTF-8 without control characters, with NUL; cut. */
int v8_text_copy(struct v8_heap *heap, uint64_t string, char out[V8_TEXT_MAX + 1]);
/* -EFAULT: it is not in one piece. */
int v8_text_characters(struct v8_heap *heap, uint64_t string, struct v8_characters *characters);
