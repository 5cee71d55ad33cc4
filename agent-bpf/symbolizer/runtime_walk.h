/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Steps over frames of runtimes where a stack is walked in user space: the same as in the tick,
 * over the copy of the stack, and for the rest over the process's memory, which goes on meanwhile.
 * That is read by pages, each a request to the reader, which are kept for RUNTIME_PAGE_NS: stacks
 * that wait together go through the same code. Limits: RUNTIME_WALK_READS pages for a stack,
 * RUNTIME_PAGES in all. Thread: the symbolizer's loop.
 */
#include "agent-bpf/symbolizer/process_runtimes.h"
#include "agent-bpf/unwind/unwind.h"

#define RUNTIME_WALK_READS 64
#define RUNTIME_PAGES_BITS 7
#define RUNTIME_PAGES      (1 << RUNTIME_PAGES_BITS)
#define RUNTIME_PAGE_BYTES 4096
#define RUNTIME_PAGE_NS    (200 * NS_PER_MS)

struct runtime_page {
    uint64_t program; /* as in runtime_memory; 0: unused */
    uint64_t address;
    uint64_t read_ns;
    uint8_t data[RUNTIME_PAGE_BYTES];
};

struct runtime_walk {
    const struct process_runtimes *runtimes; /* NULL: none whose frames are read */
    uint32_t pid;
    uint64_t stack_start;
    struct bytes stack;         /* the copy */
    struct runtime_page *pages; /* RUNTIME_PAGES of them; by their hash */
    uint64_t now_ns;
    unsigned reads; /* of the process's memory so far */
    /* True: code that is in no file is at the address. */
    bool (*is_anonymous)(void *context, uint64_t address);
    void *context;
};

/* As of struct unwind_input. */
int runtime_walk_step(struct runtime_walk *walk, uint64_t address, struct unwind_step *step);
uint64_t runtime_walk_evaluates(const struct runtime_walk *walk, uint64_t address);
