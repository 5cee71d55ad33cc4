/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The addresses that an entry covers: DW_AT_low_pc and DW_AT_high_pc, or lists of ranges. Limit:
 * DWARF_RANGES_MAX ranges of one entry. Symbolizer only. Source of the format: DWARF 5
 * section 2.17, DWARF 4 section 2.17.3.
 */
#include "agent-bpf/dwarf/dwarf_unit.h"

#define DWARF_RANGES_MAX 65536

struct dwarf_range {
    uint64_t start;
    uint64_t end; /* > start */
};

/* Not 0: ends the walk. */
typedef int dwarf_range_fn(void *context, const struct dwarf_range *range);

/* 0, ELF_MISSING: it has no addresses; ELF_MALFORMED: range_fn was called for those before the
 * error; what range_fn returned. */
int dwarf_ranges_each(const struct dwarf_unit *unit, const struct dwarf_die *die,
                      dwarf_range_fn *range_fn, void *context);
bool dwarf_die_covers(const struct dwarf_unit *unit, const struct dwarf_die *die, uint64_t address);
