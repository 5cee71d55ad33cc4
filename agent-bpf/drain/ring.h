/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reads the BPF ring buffer through its shared memory, so a process without capabilities can drain
 * it: the map's fd is enough, before or after setuid(). One reader per ring at a time; a new one
 * continues where the last one stopped. Limits: a drain ends at the given position, and waits at
 * most RING_SPIN_NS for a record that is being written; malformed records (record.h) are counted
 * and skipped. Thread: one (the loop).
 */
#include "agent-bpf/record_frame.h"

struct ring;

#define RING_SPIN_NS 2000000u

enum { RING_BUSY = 1 };

int ring_open(int map_fd, size_t size_bytes, struct ring **ring); /* 0 or negative errno */
void ring_close(struct ring *ring);                               /* NULL is fine */

/* Where the kernel writes next: every record now in the ring is before it. */
uint64_t ring_position(const struct ring *ring);

/* The record and what follows its header are borrowed for the call; see the accessors below. */
typedef void (*ring_record_fn)(void *context, const struct record_header *record);

struct ring_counts {
    uint64_t records;
    uint64_t bytes;
    uint64_t malformed;
};

/*
 * Calls `call` for all records before `until` (from ring_position()), and frees their space in the
 * ring. Sets *counts unless it is NULL. 0; RING_BUSY: a record before `until` was still being
 * written after RING_SPIN_NS; it and those after it come with the next drain.
 */
int ring_drain(struct ring *ring, uint64_t until, ring_record_fn call, void *context,
               struct ring_counts *counts);

/* True: the bytes are exactly one record as in record.h. Pure. */
_Bool ring_record_valid(const void *data, size_t size);

static inline size_t record_padded(size_t attributes_size)
{
    return (attributes_size + 7u) & ~(size_t)7;
}

static inline const uint8_t *record_attributes(const struct record_header *record)
{
    return (const uint8_t *)(record + 1);
}

/* kernel_words, then user_words, then list_words. */
static inline const uint64_t *record_frames(const struct record_header *record)
{
    const void *frames = record_attributes(record) + record_padded(record->attributes_size);
    return (const uint64_t *)frames;
}

/* With a task_size, of which it has so many bytes. */
static inline const struct record_task *record_task(const struct record_header *record)
{
    const void *task =
        record_frames(record) + record->kernel_words + record->user_words + record->list_words;
    return (const struct record_task *)task;
}

/* With RECORD_FLAG_STACK; the copy lies behind it. */
static inline const struct record_stack *record_stack(const struct record_header *record)
{
    const void *stack = (const uint8_t *)record_task(record) + record->task_size;
    return (const struct record_stack *)stack;
}
