/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The DWARF sections of one ELF file: the executable itself, its debug file, or the file that dwz
 * moved to what several of these have in common. Sections stay in the file. Compressed ones have at
 * most DWARF_DECODED_MAX bytes of one file; those of zlib are decoded where they are read
 * (dwarf_inflated.h), those of zstd into memory. Symbolizer only.
 * Source of the format: DWARF 5 section 7; gABI "Compression Header".
 */
#include "agent-bpf/dwarf/dwarf_cursor.h"
#include "agent-bpf/dwarf/dwarf_inflated.h"
#include "agent-bpf/files/elf.h"

#define DWARF_DECODED_MAX (40u << 20)

enum dwarf_section_name {
    DWARF_INFO,
    DWARF_ABBREV,
    DWARF_LINE,
    DWARF_STR,
    DWARF_LINE_STR,
    DWARF_RANGES,
    DWARF_RNGLISTS,
    DWARF_ADDR,
    DWARF_STR_OFFSETS,
    DWARF_SECTIONS
};

struct dwarf_file {
    int fd; /* -1 = not open */
    struct dwarf_section sections[DWARF_SECTIONS];
    size_t compressed_bytes;  /* of compressed sections, when decoded */
    size_t decoded_bytes;     /* of these, what is decoded into memory */
    struct dwarf_spans spans; /* of the others */
};

/* Keeps its own descriptor. 0; ELF_MISSING: no DWARF; ELF_MALFORMED (also: a limit); negative
 * errno. */
int dwarf_file_open(struct dwarf_file *file, const struct elf *elf);
void dwarf_file_close(struct dwarf_file *file); /* also one that was never opened, with fd -1 */
size_t dwarf_file_bytes(const struct dwarf_file *file); /* memory, by now */
