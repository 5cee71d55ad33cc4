/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Functions, files and lines of a Go program or library, from the table that its runtime needs, so
 * strip keeps it: pclntab of Go 1.2 to 1.27 (forms of 1.2, 1.16, 1.18, 1.20). Nothing is loaded:
 * each look-up is a binary search in the file. Symbolizer only. Limits: GO_SYMBOLS_SEARCH_MAX bytes
 * are searched in files without sections, GO_SYMBOLS_VALUES_MAX bytes of one function's lines.
 * Source of the format: Go's runtime (symtab.go) and debug/gosym. Position independent programs
 * before Go 1.18 are not read: their table is filled by relocations.
 */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/function_name.h"

#define GO_SYMBOLS_SEARCH_MAX (UINT64_C(256) << 20)
#define GO_SYMBOLS_VALUES_MAX (UINT64_C(1) << 20)

struct go_symbols;

/* Keeps its own descriptor of the file. 0, ELF_MISSING, ELF_MALFORMED, negative errno. */
int go_symbols_open(const struct elf *elf, struct go_symbols **symbols);
void go_symbols_close(struct go_symbols *symbols); /* NULL is fine */
/* The Go function at this ELF address, without system_name. If the address belongs to an inlined
 * call, the file is the function's own and the line is left out: the table has the inlined
 * function's. 0, ELF_MISSING, ELF_MALFORMED. */
int go_symbols_find(const struct go_symbols *symbols, uint64_t vaddr, struct function_name *name);

enum go_function_flag { /* since Go 1.17; before by name */
                        GO_FUNCTION_OUTERMOST = 1,
                        GO_FUNCTION_WRITES_SP = 2, /* it switches to another stack */
};

struct go_stack {
    uint64_t start; /* ELF addresses, cut to those asked for */
    uint64_t end;
    uint32_t depth; /* bytes that the stack pointer is below where it was on entry */
    uint8_t flags;  /* enum go_function_flag */
};

/* Calls `call` for each range of Go code in [start, end), in order; ranges missing in the table are
 *  left out. 0, what a call returned, ELF_MISSING, ELF_MALFORMED. At most GO_SYMBOLS_STACKS_MAX. */
#define GO_SYMBOLS_STACKS_MAX 65536
int go_symbols_stacks(const struct go_symbols *symbols, uint64_t start, uint64_t end,
                      int (*call)(void *context, const struct go_stack *stack), void *context);
