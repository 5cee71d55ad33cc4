/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Units of .debug_info and their entries (DIEs), DWARF 2 to 5. Only the attributes needed to find
 * functions are read, others are skipped. Positions are offsets in .debug_info; references are only
 * followed by the caller. Limits: DWARF_ABBREVS_MAX and DWARF_SPECS_MAX of one unit. Symbolizer
 * only. Source of the format: DWARF 5 section 7.5; GNU additions of dwz and GCC.
 */
#include "agent-bpf/dwarf/dwarf_file.h"

#define DWARF_ABBREVS_MAX 65536
#define DWARF_SPECS_MAX   (1u << 20) /* attributes of all abbreviations of a unit */
#define DWARF_NONE        UINT64_MAX

enum dwarf_tag {
    DWARF_TAG_ARRAY = 0x01,
    DWARF_TAG_CLASS = 0x02,
    DWARF_TAG_ENUMERATION = 0x04,
    DWARF_TAG_LEXICAL_BLOCK = 0x0b,
    DWARF_TAG_COMPILE_UNIT = 0x11,
    DWARF_TAG_STRUCTURE = 0x13,
    DWARF_TAG_SUBROUTINE_TYPE = 0x15,
    DWARF_TAG_UNION = 0x17,
    DWARF_TAG_INLINED_SUBROUTINE = 0x1d,
    DWARF_TAG_SUBPROGRAM = 0x2e,
    DWARF_TAG_PARTIAL_UNIT = 0x3c,
    DWARF_TAG_SKELETON_UNIT = 0x4a,
};

/* Where a text is. */
struct dwarf_string {
    enum { DWARF_NO_STRING, DWARF_IN_SECTION, DWARF_IN_SHARED, DWARF_INDEXED } kind;
    enum dwarf_section_name section; /* IN_SHARED: of the file that dwz made */
    uint64_t at;                     /* INDEXED: index in the unit's part of .debug_str_offsets */
};

struct dwarf_abbrev {
    uint64_t code;
    uint16_t tag;
    bool has_children;
    bool is_wanted; /* otherwise only its length and its sibling are read */
    uint32_t specs; /* index of the first */
    uint32_t n_specs;
    uint32_t size; /* of all attributes, if that is always the same; else 0 */
};

struct dwarf_spec {
    uint16_t attribute;
    uint16_t form;
    int64_t constant; /* of DW_FORM_implicit_const */
};

struct dwarf_abbrevs { /* read up to the last one requested */
    uint64_t offset;   /* in .debug_abbrev */
    uint64_t next;
    bool complete;
    uint16_t version; /* of the unit, which sizes depend on */
    uint8_t offset_size;
    struct dwarf_abbrev *table;
    struct dwarf_spec *specs;
    size_t n, cap, n_specs, cap_specs;
};

struct dwarf_unit {
    const struct dwarf_file *file; /* borrowed */
    uint64_t at;
    uint64_t first; /* position of its own entry */
    uint64_t end;
    uint16_t version;
    uint8_t offset_size;
    uint8_t type; /* DW_UT_*; 0 before DWARF 5 */
    uint64_t low_pc;
    uint64_t line_program; /* offset in .debug_line, or DWARF_NONE */
    uint64_t address_base;
    uint64_t string_base;
    uint64_t range_base;
    struct dwarf_string directory;
    struct dwarf_abbrevs abbrevs;
};

struct dwarf_die {
    uint64_t at;
    uint16_t tag; /* 0: the end of siblings */
    bool has_children;
    bool has_low, has_high, has_ranges;
    bool low_is_index, high_is_index, high_is_size, ranges_is_index;
    bool is_in_shared; /* origin */
    uint64_t sibling;  /* DWARF_NONE: not given */
    uint64_t low_pc;
    uint64_t high_pc;
    uint64_t ranges;
    uint64_t origin; /* abstract origin or specification; DWARF_NONE: none */
    uint64_t call_file;
    uint64_t call_line;
    struct dwarf_string name;
    struct dwarf_string linkage_name;
};

/* The unit whose header is at this position, with its own entry; the unit may hold another before,
 * or be all zero. 0; ELF_MISSING: not one of these versions and of 8-byte addresses, or of types,
 * *end is set; ELF_MALFORMED: what follows cannot be found either; -ENOMEM. */
int dwarf_unit_open(struct dwarf_unit *unit, const struct dwarf_file *file, uint64_t at,
                    struct dwarf_die *own);
/* Its header alone: where it ends. */
int dwarf_unit_end(const struct dwarf_file *file, uint64_t at, uint64_t *end);
void dwarf_unit_close(struct dwarf_unit *unit);
size_t dwarf_unit_bytes(const struct dwarf_unit *unit); /* memory, without the struct */

/* Entries in the order of the file: a cursor into .debug_info, open to the unit's end. */
void dwarf_unit_walk(const struct dwarf_unit *unit, uint64_t at, struct dwarf_cursor *cursor);
/* Of an entry with a tag that is not wanted only tag, children and sibling are set. 0,
 * ELF_MALFORMED, -ENOMEM. */
int dwarf_die_read(struct dwarf_unit *unit, struct dwarf_cursor *cursor, struct dwarf_die *die);

/* An entry of .debug_addr. */
bool dwarf_unit_address(const struct dwarf_unit *unit, uint64_t index, uint64_t *address);
/* Cut to fit, with NUL; false: there is none. shared: what dwz made, or NULL. */
bool dwarf_unit_text(const struct dwarf_unit *unit, const struct dwarf_file *shared,
                     const struct dwarf_string *string, char *out, size_t size);
