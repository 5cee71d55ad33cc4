/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Memory of a process as the readers of runtimes see it: one call is one request to another process
 * (50 to 100 us, whatever it reads), so what can be asked together is asked together. Limits:
 * READER_RANGES_MAX ranges with READER_BYTES_MAX bytes a call; bytes_left over all calls. Thread:
 * the symbolizer's loop.
 */
#include "agent-bpf/files/reader_client.h"

struct runtime_memory {
    /* 0: each range has its outcome; -EAGAIN: no answer now; -E2BIG: beyond bytes_left; -ETIME: the
     * time of this request is over; another
     * negative errno. */
    int (*read)(void *context, struct reader_range *ranges, size_t n);
    void *context;
    uint64_t program;  /* whose memory: no other program of any process has this number */
    size_t bytes_left; /* of this request; the reader of the memory counts them */
    struct bytes maps; /* text of /proc/PID/maps; empty: not known */
};
