/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * File and line of an address, from the line program of its unit. The program is run once and some
 * of its places are kept, from which it can be run again: a table of all rows would be ten times as
 * large as the program. Limits: DWARF_FILES_MAX files of a unit, the caller's deadline. Symbolizer
 * only. Source of the format: DWARF 5 section 6.2, DWARF 4 section 6.2.4.
 */
#include "agent-bpf/dwarf/dwarf_unit.h"

#define DWARF_FILES_MAX       65536
#define DWARF_DIRECTORIES_MAX 16384

struct dwarf_line_file {
    struct dwarf_string name;
    uint64_t directory;
};

struct dwarf_line_place { /* a row of the program, and what follows it */
    uint64_t address;
    uint64_t next; /* position in .debug_line */
    uint32_t file;
    uint32_t line;
};

struct dwarf_line_program {
    uint64_t start; /* positions of its opcodes */
    uint64_t end;
    uint16_t version;
    uint8_t min_instruction;
    int8_t line_base;
    uint8_t line_range;
    uint8_t opcode_base;
    uint8_t operands[256]; /* of standard opcodes */
    struct dwarf_string *directories;
    struct dwarf_line_file *files;
    struct dwarf_line_place *places; /* by address */
    size_t n_directories, n_files, n_places;
    size_t cap_directories, cap_files, cap_places;
};

struct dwarf_code { /* where the executable's code is: tombstones of removed code are elsewhere */
    uint64_t start;
    uint64_t end;
};

/* 0, ELF_MISSING: the unit has none; ELF_MALFORMED; -ENOMEM. */
int dwarf_line_open(struct dwarf_line_program *program, const struct dwarf_unit *unit,
                    const struct dwarf_code *code, uint64_t deadline_ns);
void dwarf_line_close(struct dwarf_line_program *program); /* also one that is all zero */
size_t dwarf_line_bytes(const struct dwarf_line_program *program);

/* False: no row covers it. *line 0: code without a line. */
bool dwarf_line_find(const struct dwarf_line_program *program, const struct dwarf_unit *unit,
                     uint64_t address, uint64_t *file, uint32_t *line);
/* With its directories; cut to fit, with NUL, not sanitized. False: there is no such file. */
bool dwarf_line_path(const struct dwarf_line_program *program, const struct dwarf_unit *unit,
                     const struct dwarf_file *shared, uint64_t file, char *out, size_t size);
