/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Memory of a process with V8, as one request sees it. A decoder that reads what is not here yet
 * gets -EAGAIN, and the place is noted. Then all noted places are fetched at once, and the decoders
 * begin again. So each fetch takes all frames of a request one pointer further. Lines of
 * V8_HEAP_LINE bytes are kept until the end of the request, so a second read of the same gives the
 * same. All of it is foreign: an object counts only by its type.
 *
 * Limits: V8_HEAP_LINES_MAX lines; the memory's bytes_left. Outcomes: 0; -EAGAIN: fetch; -EFAULT:
 * not readable, or not what it should be; -E2BIG: the request has read enough. Thread: the
 * symbolizer's loop.
 */
#include "agent-bpf/runtimes/runtime_memory.h"
#include "agent-bpf/runtimes/v8/v8_file.h"

#define V8_HEAP_LINE      256
#define V8_HEAP_LINES_MAX 4096
#define V8_HEAP_INDEX     8192 /* slots of the hash table */

struct v8_heap {
    const struct v8_file *file;
    struct runtime_memory *memory;
    uint8_t (*lines)[V8_HEAP_LINE];
    uint64_t *addresses; /* of lines; bit 0: not readable */
    uint16_t *index;     /* 1 + number of a line, by the hash of its address; 0 = free */
    uint32_t n_lines;    /* there, or wanted */
    uint32_t n_fetched;
    uint64_t
        touched[V8_HEAP_LINES_MAX / 64]; /* bits of lines that were read since v8_heap_begin() */
    uint64_t stream_map; /* Map of objects that hold code, once one was seen; 0 = not yet */
    bool exhausted;
};

/* 0 or -ENOMEM. */
int v8_heap_open(struct v8_heap *heap, const struct v8_file *file, struct runtime_memory *memory);
void v8_heap_close(struct v8_heap *heap);
/* Fetches what is wanted. 0: some of it is there now; -ENODATA: nothing was wanted; negative errno.
 */
int v8_heap_fetch(struct v8_heap *heap);

int v8_heap_read(struct v8_heap *heap, uint64_t address, void *out, size_t size);
/* Forgets what was read so far; and the addresses of the lines that were read since: up to max of
 * them. */
void v8_heap_begin(struct v8_heap *heap);
size_t v8_heap_touched(const struct v8_heap *heap, uint64_t *lines, size_t max);
/* Notes that it will be read. */
void v8_heap_want(struct v8_heap *heap, uint64_t address, size_t size);

static inline bool v8_heap_is_object(uint64_t word)
{
    return (word & 3) == 1 && word > 4096 && word < UINT64_C(1) << 47;
}

static inline bool v8_heap_is_smi(uint64_t word)
{
    return !(word & UINT32_MAX);
}

static inline int32_t v8_heap_smi(uint64_t word)
{
    return (int32_t)(word >> 32);
}

/* object: a tagged pointer, as words of the heap have it; offset: from the object's start. */
int v8_heap_field(struct v8_heap *heap, uint64_t object, size_t offset, void *out, size_t size);
int v8_heap_word(struct v8_heap *heap, uint64_t object, size_t offset, uint64_t *word);
/* A Smi that is not negative; -EFAULT: it is something else. */
int v8_heap_count(struct v8_heap *heap, uint64_t object, size_t offset, uint32_t *count);
int v8_heap_type(struct v8_heap *heap, uint64_t object, uint16_t *type);
/* -EFAULT: it is of another type. */
int v8_heap_check(struct v8_heap *heap, uint64_t object, uint16_t type);
/* A FixedArray, an array of bytes: -EFAULT if it is none. */
int v8_heap_length(struct v8_heap *heap, uint64_t array, uint32_t *length);
int v8_heap_bytes(struct v8_heap *heap, uint64_t array, uint32_t *length);
/* An array of words, of any kind. */
int v8_heap_words(struct v8_heap *heap, uint64_t array, uint32_t *length);
/* An element of one; a weak pointer is given as another one. */
int v8_heap_element(struct v8_heap *heap, uint64_t array, uint32_t index, uint64_t *word);

#define V8_ARRAY_DATA 16 /* offset of the first element */
