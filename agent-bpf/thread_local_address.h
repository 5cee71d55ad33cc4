/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Where a thread has its thread-local variable: one source for the BPF programs and user space.
 * The includer first defines step_read(out, size, address): 0, or nonzero if the memory cannot be
 * read. Source: ELF TLS ABI; struct context_variable of record.h.
 */
#include "agent-bpf/record.h"

/* 0 = it has none (yet). */
static inline __attribute__((always_inline)) __u64
thread_local_address(const struct context_variable *variable, __u64 tp)
{
    if (variable->thread_local_model == THREAD_LOCAL_STATIC)
        return tp + (__u64)variable->offset;
    if (variable->thread_local_model != THREAD_LOCAL_DYNAMIC)
        return 0;
    __u64 dtv = 0, block = 0;
    if (step_read(&dtv, sizeof(dtv), tp + (__u64)variable->dtv_offset) || !dtv)
        return 0;
    if (step_read(&block, sizeof(block), dtv + variable->module * variable->dtv_entry_size))
        return 0;
    if (!block || block == ~0ULL) /* glibc: not allocated for this thread yet */
        return 0;
    return block + (__u64)variable->offset;
}
