/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Memory of a process as the readers of runtimes see it: one call is one request to another process
 * (50 to 100 us, whatever it reads), so what can be asked together is asked together. Limits:
 * READER_RANGES_MAX ranges with READER_BYTES_MAX bytes a call; bytes_left over all calls. Thread:
 * the symbolizer's loop.
 */
#include "agent-bpf/files/reader_client.h"
#include "base/clock.h"

struct runtime_memory {
    /* 0: each range has its outcome; -EAGAIN: no answer now; -E2BIG: beyond bytes_left; -ETIME: the
     * time of this request is over; another negative errno. */
    int (*read)(void *context, struct reader_range *ranges, size_t n);
    void *context;
    uint64_t program;  /* whose memory: no other program of any process has this number */
    uint64_t tenant;   /* who answers for the process; 0: not known */
    size_t bytes_left; /* of this request; the reader of the memory counts them */
    uint64_t until_ns; /* CLOCK_MONOTONIC: when its time is over; 0: never */
    struct bytes maps; /* text of /proc/PID/maps; empty: not known */
};

/* What was read may take long to decode, too: readers ask in front of each frame. */
static inline bool runtime_memory_is_late(const struct runtime_memory *memory)
{
    return memory->until_ns && clock_monotonic_ns() > memory->until_ns;
}
