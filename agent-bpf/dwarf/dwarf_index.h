/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Finds the unit of .debug_info that an address belongs to. The index is made from the header and
 * first entry of each unit, not from .debug_aranges, which many compilers leave out. Making it
 * stops at the deadline and is continued by the next call. Limits: DWARF_UNITS_MAX,
 * DWARF_COVERED_MAX; units beyond them are not found. Symbolizer only.
 */
#include "agent-bpf/dwarf/dwarf_line.h"

#define DWARF_UNITS_MAX   (1u << 20)
#define DWARF_COVERED_MAX (1u << 20) /* ranges of addresses, 16 bytes each */

struct dwarf_units { /* of one file, in its order */
    uint64_t *at;
    size_t n, cap;
    uint64_t next; /* position of the first that is not read yet */
    bool complete;
};

struct dwarf_covered {
    uint64_t start;
    uint32_t size;
    uint32_t unit; /* index */
};

struct dwarf_index {
    struct dwarf_units units;
    struct dwarf_covered *covered; /* by start */
    size_t n, cap;
    struct dwarf_unit unit; /* that was read last */
};

/* Only the positions of the units, up to the first malformed one. 0, -ENOMEM. */
int dwarf_units_read(struct dwarf_units *units, const struct dwarf_file *file,
                     uint64_t deadline_ns);
void dwarf_units_close(struct dwarf_units *units);
/* The unit that holds this position, or DWARF_NONE. */
uint64_t dwarf_units_at(const struct dwarf_units *units, uint64_t position);

/* Continues where it stopped. 0, -ENOMEM. */
int dwarf_index_build(struct dwarf_index *index, const struct dwarf_file *file,
                      const struct dwarf_code *code, uint64_t deadline_ns);
void dwarf_index_close(struct dwarf_index *index); /* also one that is all zero */
size_t dwarf_index_bytes(const struct dwarf_index *index);
/* Indices of units that may hold the address, the likeliest first. Returns how many. */
size_t dwarf_index_find(const struct dwarf_index *index, uint64_t address, uint32_t *units,
                        size_t max);
