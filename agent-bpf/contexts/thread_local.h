/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Locates a thread-local pointer variable of another process, relative to the thread pointer. In
 * two parts: from the ELF file (thread_local_find(), once per file), and from what the dynamic
 * linker has written into the process's memory (thread_local_locate(), once per process). Source:
 * ELF TLS ABI (x86-64 variant II, aarch64 variant I), OTEP 4947. Symbolizer only; both read only
 * through their arguments.
 */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/record.h"

#define THREAD_LOCAL_SLOTS_MAX 4

enum thread_local_slot_kind {
    THREAD_LOCAL_SLOT_DESC,   /* two words: function, argument (offset, or pointer to {module,
                                 offset}) */
    THREAD_LOCAL_SLOT_OFFSET, /* one word: offset from the thread pointer */
    THREAD_LOCAL_SLOT_MODULE, /* two words: module, offset in its block */
    /* Of the file's block as a whole (Local Dynamic): the symbol's offset is added. */
    THREAD_LOCAL_SLOT_DESC_OF_BLOCK,
    THREAD_LOCAL_SLOT_MODULE_OF_BLOCK,
};

struct thread_local_slot {
    enum thread_local_slot_kind kind;
    uint64_t vaddr; /* of its first word, as in the file */
};

struct thread_local_symbol {
    bool defined;       /* in the file, exported or local */
    bool in_executable; /* the file is linked as a program: Local Exec is possible */
    uint16_t machine;
    uint64_t value; /* st_value: offset in the TLS segment */
    uint64_t segment_size;
    uint64_t segment_align;
    /* Relocations that a dynamic linker may process lazily; vaddr, end exclusive. */
    uint64_t lazy_start;
    uint64_t lazy_end;
    uint32_t n_slots;
    struct thread_local_slot slots[THREAD_LOCAL_SLOTS_MAX];
};

/* 0 (also if the file has no such symbol: see .defined), ELF_MALFORMED, negative errno. */
int thread_local_find(const struct elf *elf, const char *name, struct thread_local_symbol *symbol);

/* Who lays out the blocks of threads. */
enum thread_local_libc { THREAD_LOCAL_LIBC_NONE, THREAD_LOCAL_LIBC_GLIBC, THREAD_LOCAL_LIBC_MUSL };

/* By what the file defines: NONE, it is another file than the dynamic linker. 0, ELF_MALFORMED,
 * negative errno. */
int thread_local_libc(const struct elf *elf, enum thread_local_libc *libc);

struct thread_local_process {
    /* Words of the process's memory: 0 or negative errno. */
    int (*read)(void *context, uint64_t address, void *out, size_t size);
    void *context;
    uint64_t bias;      /* of the file: address in memory less vaddr */
    bool is_executable; /* the file is the process's executable */
    enum thread_local_libc libc;
};

enum thread_local_outcome {
    THREAD_LOCAL_UNRESOLVED = 1,   /* not written yet, or not usable: try again later */
    THREAD_LOCAL_UNKNOWN_LIBC = 2, /* in a block whose place the C library knows, which is NONE */
};

/* Fills all but .source. 0, an enum thread_local_outcome, negative errno. */
int thread_local_locate(const struct thread_local_symbol *symbol,
                        const struct thread_local_process *process,
                        struct context_variable *variable);
