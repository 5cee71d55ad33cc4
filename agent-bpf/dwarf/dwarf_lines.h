/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Source lines and inlined functions of one executable, from its DWARF (2 to 5) or that of its
 * debug file, with what dwz moved out of it. Split DWARF (.dwo) gives lines alone.
 *
 * The files are not trusted: nothing is mapped, nothing but zstd's sections is loaded as a whole
 * (dwarf_file.h), and units are kept within DWARF_LOADED_BYTES_MAX, the least recently used goes
 * first. Every walk ends at its unit's end or at the caller's deadline; what was not reached by
 * then is not known. Symbolizer only.
 */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/function_name.h"

#define DWARF_NAME_MAX         2048       /* with NUL; longer names are cut */
#define DWARF_LOADED_BYTES_MAX (8u << 20) /* of units, unless one alone is larger */
#define DWARF_LOADED_MAX       256        /* units */
#define DWARF_FUNCTIONS_AT_MAX 32         /* functions at one address */

struct dwarf_lines;

struct dwarf_function {
    char name[DWARF_NAME_MAX];    /* the linker's, else as in the source; raw; may be empty */
    char file[FUNCTION_NAME_MAX]; /* raw; empty = not known */
    uint32_t line;                /* 0 = not known */
};

/* Keeps its own descriptors. debug: the file that the DWARF is in, may be the executable itself;
 * shared: what its .gnu_debugaltlink names, or NULL. 0; ELF_MISSING: no DWARF; ELF_MALFORMED (also:
 * a limit); negative errno. */
int dwarf_lines_open(const struct elf *executable, const struct elf *debug,
                     const struct elf *shared, struct dwarf_lines **lines);
void dwarf_lines_close(struct dwarf_lines *lines);         /* NULL is fine */
size_t dwarf_lines_bytes(const struct dwarf_lines *lines); /* memory, by now */
/* Gives back about so many bytes, if there are so many that are soon decoded again. */
void dwarf_lines_trim(struct dwarf_lines *lines, size_t bytes);
/* The functions at this ELF address, innermost first: inlined functions with their lines, then the
 * compiled one. Returns their number; 0: none is known. deadline_ns: CLOCK_MONOTONIC. */
size_t dwarf_lines_find(struct dwarf_lines *lines, uint64_t vaddr, uint64_t deadline_ns,
                        struct dwarf_function functions[DWARF_FUNCTIONS_AT_MAX]);
