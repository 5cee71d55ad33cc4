/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Searches the loaded segments of an ELF file for bytes, window by window. Thread: the file's
 * owner's. Limits: bytes_max over all segments, one window of memory. Outcomes as in elf.h.
 */
#include "agent-bpf/files/elf.h"

#define ELF_SEARCH_AROUND 64 /* readable bytes in front of a match, and from its first byte on */

struct elf_search {
    uint32_t segment_flags; /* PF_*: which a segment must have */
    struct bytes needle;    /* 1 to ELF_SEARCH_AROUND bytes */
    uint64_t align;         /* of a match's address; a power of two */
    uint64_t bytes_max;
    /* True ends the search. Bytes outside of the segment read as 0. */
    bool (*take)(void *context, uint64_t vaddr, const uint8_t *match);
    void *context;
};

/* 0: a match ended the search; ELF_MISSING; negative errno. */
int elf_search(const struct elf *elf, const struct elf_search *search);
