/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Collects what is to be read of a process, so that one request reads it. Thread: its owner's.
 * Errors are kept: after the first nothing is read any more, and all ends in hotspot_fetch_run().
 */
#include "agent-bpf/runtimes/runtime_memory.h"
#include "base/arena.h"
#include <errno.h>

#define HOTSPOT_AHEAD_MAX   2048 /* places; further ones are not read ahead */
#define HOTSPOT_AHEAD_SLOTS 4096 /* a power of two above it */
#define HOTSPOT_AHEAD_BYTES (256u << 10)

static inline int hotspot_memory_read(struct runtime_memory *memory, struct reader_range *ranges,
                                      size_t n)
{
    return n ? memory->read(memory->context, ranges, n) : 0;
}

/* What is read in front of all steps, for those that will want it. Zeroed at first. */
struct hotspot_ahead {
    struct arena *arena;
    size_t n;
    size_t bytes;
    struct hotspot_ahead_place {
        uint64_t address;
        size_t size;
        uint8_t *data;
        bool read;
    } places[HOTSPOT_AHEAD_MAX];
    uint16_t slots[HOTSPOT_AHEAD_SLOTS]; /* index of a place + 1, by the hash of its address */
};

struct hotspot_fetch {
    struct runtime_memory *memory;
    const struct hotspot_ahead *ahead; /* NULL: all is read of the process */
    int error;
    size_t n;
    size_t bytes;
    struct reader_range ranges[READER_RANGES_MAX];
    bool *done[READER_RANGES_MAX];
};

/* Both pointers must be valid until the run. *done: false now, true when it was read. size: at most
 * READER_BYTES_MAX. */
void hotspot_fetch_add(struct hotspot_fetch *fetch, uint64_t address, void *out, size_t size,
                       bool *done);
/* 0, or why not all was looked at. */
int hotspot_fetch_run(struct hotspot_fetch *fetch);

/* Adds a place to what is read ahead; it is there after the next run. 0 or -ENOMEM. */
int hotspot_ahead_add(struct hotspot_ahead *ahead, struct hotspot_fetch *fetch, uint64_t address,
                      size_t size);
