/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names of the functions of one executable, from the best source that it has: Go's own table
 * (go_symbols.h), its symbols and those of its debug file (symbols.h, debug_file.h). On request
 * also lines and inlined functions from its DWARF (dwarf_lines.h). Symbolizer only.
 */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/function_name.h"

#define FUNCTION_NAMES_AT_MAX 32 /* functions at one address */

struct function_names;

/* pid: a process that maps the executable; 0 = none is known. Keeps its own descriptors. 0 (also
 * with no name at all), ELF_MALFORMED, negative errno. */
int function_names_open(const struct elf *elf, uint32_t pid, struct function_names **names);
void function_names_close(struct function_names *names);         /* NULL is fine */
size_t function_names_bytes(const struct function_names *names); /* memory */
/* Gives back about so many bytes of it, if there are so many that are soon made again. */
void function_names_trim(struct function_names *names, size_t bytes);
/* The function at this ELF address. 0 or ELF_MISSING. */
int function_names_find(const struct function_names *names, uint64_t vaddr,
                        struct function_name *name);

/* From now on with lines, if there is DWARF. 0 (also without DWARF), ELF_MALFORMED (also: a limit),
 * negative errno; after an error there are no lines. */
int function_names_add_lines(struct function_names *names, const struct elf *elf, uint32_t pid);
/* The functions at this ELF address, innermost first: inlined functions, each with its place in the
 * source, then the one of function_names_find(). Returns their number; 0: none is known.
 * deadline_ns (CLOCK_MONOTONIC): lines that are not found by then are left out. */
size_t function_names_all(struct function_names *names, uint64_t vaddr, uint64_t deadline_ns,
                          struct function_name found[FUNCTION_NAMES_AT_MAX]);
