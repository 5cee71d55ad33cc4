/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which unit of .debug_info an address belongs to. Made of the units' own entries and not of
 * .debug_aranges, which many compilers leave out; of each unit header and first entry are read. It
 * is made in as many steps as deadlines cut it into. Limits: DWARF_UNITS_MAX, DWARF_COVERED_MAX;
 * what is beyond is not found. Symbolizer only.
 */
#include "agent-bpf/dwarf/dwarf_line.h"

#define DWARF_UNITS_MAX   (1u << 20)
#define DWARF_COVERED_MAX (1u << 20) /* ranges of addresses, 16 bytes each */

struct dwarf_units { /* of one file, in its order */
    uint64_t *at;
    size_t n, cap;
    uint64_t next; /* position of the first that was not looked at */
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
    struct dwarf_unit unit; /* that was looked at last */
};

/* The positions of the units alone. 0 (also what is malformed ends it), -ENOMEM. */
int dwarf_units_read(struct dwarf_units *units, const struct dwarf_file *file,
                     uint64_t deadline_ns);
void dwarf_units_close(struct dwarf_units *units);
/* The unit that holds this position, or DWARF_NONE. */
uint64_t dwarf_units_at(const struct dwarf_units *units, uint64_t position);

/* Goes on where it stopped. 0, -ENOMEM. */
int dwarf_index_build(struct dwarf_index *index, const struct dwarf_file *file,
                      const struct dwarf_code *code, uint64_t deadline_ns);
void dwarf_index_close(struct dwarf_index *index); /* also one that is all zero */
size_t dwarf_index_bytes(const struct dwarf_index *index);
/* Indices of units that may hold the address, the likeliest first. Returns how many. */
size_t dwarf_index_find(const struct dwarf_index *index, uint64_t address, uint32_t *units,
                        size_t max);
