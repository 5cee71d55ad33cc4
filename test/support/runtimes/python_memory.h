/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reads a process's memory as the reader process does, for tests of what reads the structures of
 * its runtime; and the tick's list of Python frames by the same source (step_read()).
 */
#include "agent-bpf/runtimes/runtime_memory.h"
#include <errno.h>
#include <sys/types.h>
#include <sys/uio.h>

static pid_t memory_pid;
static size_t memory_calls;

static inline int memory_read_one(void *out, size_t size, uint64_t address)
{
    struct iovec to = {.iov_base = out, .iov_len = size};
    struct iovec from = {.iov_base = (void *)address, .iov_len = size};
    return process_vm_readv(memory_pid, &to, 1, &from, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

static inline int memory_read(void *context, struct reader_range *ranges, size_t n)
{
    struct runtime_memory *memory = context;
    size_t bytes = 0;
    memory_calls++;
    for (size_t i = 0; i < n; i++) {
        bytes += ranges[i].size;
        ranges[i].error = memory_read_one(ranges[i].out, ranges[i].size, ranges[i].address);
    }
    if (n > READER_RANGES_MAX || bytes > READER_BYTES_MAX || bytes > memory->bytes_left)
        return -E2BIG;
    memory->bytes_left -= bytes;
    return 0;
}

/* *memory: of memory_pid, for one request of at most so many bytes. */
static inline void memory_open(struct runtime_memory *memory, size_t bytes)
{
    *memory = (struct runtime_memory){.read = memory_read, .context = memory, .bytes_left = bytes};
}

#define step_read(out, size, address) memory_read_one(out, size, address)
