/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Entries of .eh_frame or .debug_frame: CIEs (what functions have in common) and FDEs (one per
 * function, or part of one), read from the file window by window, or from memory if the section was
 * compressed. Positions are offsets in the region that holds the entries; each is checked against
 * its end. An FDE names a CIE and a CIE names nothing, so there are no cycles. Source of the
 * format: LSB 5 "Exception Frames"; DWARF 5 section 6.4.1. Thread: the owner's. Outcomes as in
 * elf.h.
 */
#include "agent-bpf/unwind/eh_cfa.h"

#define EH_ENTRY_BYTES_MAX (1024 * 1024)
#define EH_CIES_KEPT       8

struct eh_region {
    uint64_t vaddr; /* ELF address of its first byte */
    uint64_t offset;
    uint64_t size;
    const uint8_t *bytes; /* borrowed; NULL = they are in the file, at offset */
};

struct eh_window {
    uint8_t *bytes;
    size_t cap;
    size_t chunk; /* bytes read at least, if the region has them */
    uint64_t position;
    size_t len;
};

struct eh_cie {
    bool used;
    uint64_t position;
    uint64_t code_align;
    int64_t data_align;
    uint8_t pointers; /* encoding */
    bool augmented;   /* FDEs have augmentation data */
    uint8_t flags;    /* UNWIND_SIGNAL_FRAME */
    struct eh_state initial;
};

struct eh_entries {
    const struct elf *elf; /* borrowed */
    const struct eh_machine *machine;
    struct eh_region region;
    bool is_debug; /* .debug_frame */
    struct eh_window fdes;
    struct eh_window cie;
    uint64_t budget_bytes; /* of entries that may still be read; set by the caller */
    struct eh_cie cies[EH_CIES_KEPT];
    unsigned next_cie;
};

struct eh_fde {
    uint64_t start; /* ELF addresses */
    uint64_t end;
    const struct eh_cie *cie;  /* valid until the next FDE is read */
    struct bytes instructions; /* as cie */
    uint64_t next;             /* position behind it */
};

void eh_entries_init(struct eh_entries *entries, const struct elf *elf);
void eh_entries_close(struct eh_entries *entries);

/* size bytes at a position of region; *bytes is valid until the next call. */
int eh_window_get(struct eh_window *window, const struct elf *elf, const struct eh_region *region,
                  uint64_t position, uint64_t size, const uint8_t **bytes);

/* ELF_MISSING: not an FDE, or one of no addresses; fde->next is set then. */
int eh_fde_read(struct eh_entries *entries, uint64_t position, struct eh_fde *fde);
