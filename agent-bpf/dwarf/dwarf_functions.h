/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The functions of one unit and what was inlined into them. The unit is walked once for a table of
 * its functions' addresses; then only the part below one function is. Limits:
 * DWARF_FUNCTIONS_MAX, DWARF_CHAIN_MAX, the caller's deadline. Symbolizer only. Source of the
 * format: DWARF 5 section 3.3.
 */
#include "agent-bpf/dwarf/dwarf_line.h"
#include "agent-bpf/dwarf/dwarf_ranges.h"

#define DWARF_FUNCTIONS_MAX (1u << 19)
#define DWARF_CHAIN_MAX     32 /* functions at one address */

struct dwarf_function_place {
    uint64_t start;
    uint32_t size;
    uint32_t die; /* behind the unit's position */
};

struct dwarf_functions {
    struct dwarf_function_place *table; /* by start */
    size_t n, cap;
};

struct dwarf_chain { /* outermost first: what was compiled, then what was inlined */
    size_t n;
    struct dwarf_die dies[DWARF_CHAIN_MAX];
    /* Where the last one calls another one for which there was no room, or 0. */
    uint64_t cut_file;
    uint64_t cut_line;
};

/* Reads until the deadline; functions after it are not known. 0, -ENOMEM. */
int dwarf_functions_open(struct dwarf_functions *functions, struct dwarf_unit *unit,
                         const struct dwarf_code *code, uint64_t deadline_ns);
void dwarf_functions_close(struct dwarf_functions *functions); /* may be all zero */
size_t dwarf_functions_bytes(const struct dwarf_functions *functions);
/* n = 0: no function of the unit is there. 0, -ENOMEM. */
int dwarf_functions_find(const struct dwarf_functions *functions, struct dwarf_unit *unit,
                         uint64_t address, uint64_t deadline_ns, struct dwarf_chain *chain);
