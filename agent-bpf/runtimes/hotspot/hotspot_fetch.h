/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Collects what is to be read of a process, so that one request reads it. Thread: its owner's.
 * Errors are kept: after the first nothing is read any more, and all ends in hotspot_fetch_run().
 */
#include "agent-bpf/runtimes/runtime_memory.h"
#include <errno.h>

static inline int hotspot_memory_read(struct runtime_memory *memory, struct reader_range *ranges,
                                      size_t n)
{
    return n ? memory->read(memory->context, ranges, n) : 0;
}

struct hotspot_fetch {
    struct runtime_memory *memory;
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
