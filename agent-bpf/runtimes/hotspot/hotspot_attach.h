/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * HotSpot in a file and in a process. Constants come from the file alone. The tables are read from
 * each process (2 ms), because a process may forge its own.
 * Thread: the symbolizer's loop.
 */
#include "agent-bpf/runtimes/hotspot_process.h"
#include "agent-bpf/runtimes/hotspot/hotspot_tables.h"
#include "agent-bpf/runtimes/runtime_reader.h"

struct hotspot_constants {
    struct hotspot_exports exports;
    uint64_t return_barrier; /* ELF addresses of variables; 0: none */
    uint64_t stub_list;
    uint64_t thread_module; /* address of what has the number of its thread-local module; 0: none */
    uint16_t thread;        /* in the block: Thread::_thr_current */
};

/* 0; -ENOENT: the file is no HotSpot; another negative errno. */
int hotspot_open(const struct elf *elf, struct hotspot_constants *constants);
/* Fills its section. 0; -EAGAIN: not ready, ask again later; -ENOTSUP and why; another negative
 * errno of reading. */
int hotspot_attach(const struct hotspot_constants *constants, uint64_t load_bias,
                   struct runtime_memory *memory, struct hotspot_process *process,
                   enum runtime_refusal *why);
