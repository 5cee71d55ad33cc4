/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Bytes looked for in the loaded segments of an ELF file, window by window. Thread: whoever holds
 * the file. Limits: bytes_max over all segments, one window of memory. Outcomes as elf.h.
 */
#include "agent-bpf/files/elf.h"

#define ELF_SEARCH_AROUND 64 /* readable bytes in front of a match, and from its first byte on */

struct elf_search {
    uint32_t segment_flags; /* PF_*: which a segment must have */
    struct bytes needle;    /* 1 to ELF_SEARCH_AROUND bytes */
    uint64_t align;         /* of a match's address; a power of two */
    uint64_t bytes_max;
    /* True ends the search. What lies outside of the segment reads as 0. */
    bool (*take)(void *context, uint64_t vaddr, const uint8_t *match);
    void *context;
};

/* 0: one was taken; ELF_MISSING; negative errno. */
int elf_search(const struct elf *elf, const struct elf_search *search);
