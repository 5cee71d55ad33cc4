/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Most entries of a unit are types and variables: those are passed over by the length of their
 * abbreviation alone. Abbreviations are read as far as an entry needs them, because the index of a
 * file looks at one entry of each unit, and units may share one long table.
 */
#include "agent-bpf/dwarf/dwarf_unit.h"
#include "agent-bpf/dwarf/dwarf_form.h"
#include <errno.h>
#include <stdlib.h>

enum { /* DW_AT_* */
       AT_SIBLING = 0x01,
       AT_NAME = 0x03,
       AT_STMT_LIST = 0x10,
       AT_LOW_PC = 0x11,
       AT_HIGH_PC = 0x12,
       AT_COMP_DIR = 0x1b,
       AT_ABSTRACT_ORIGIN = 0x31,
       AT_SPECIFICATION = 0x47,
       AT_RANGES = 0x55,
       AT_CALL_FILE = 0x58,
       AT_CALL_LINE = 0x59,
       AT_LINKAGE_NAME = 0x6e,
       AT_STR_OFFSETS_BASE = 0x72,
       AT_ADDR_BASE = 0x73,
       AT_RNGLISTS_BASE = 0x74,
       AT_MIPS_LINKAGE_NAME = 0x2007,
       AT_GNU_RANGES_BASE = 0x2132,
       AT_GNU_ADDR_BASE = 0x2133,
};

enum { /* DW_UT_* */
       UNIT_TYPE = 0x02,
       UNIT_SKELETON = 0x04,
       UNIT_SPLIT_COMPILE = 0x05,
       UNIT_SPLIT_TYPE = 0x06,
};

/* Abbreviations */

static void *unit_grown(void *table, size_t *cap, size_t n, size_t size, size_t limit)
{
    if (n < *cap)
        return table;
    if (n >= limit)
        return NULL;
    size_t more = *cap ? *cap * 2 : 64;
    void *larger = realloc(table, more * size);
    if (larger)
        *cap = more;
    return larger;
}

static int add_spec(struct dwarf_abbrevs *abbrevs, const struct dwarf_spec *spec)
{
    struct dwarf_spec *specs = unit_grown(abbrevs->specs, &abbrevs->cap_specs, abbrevs->n_specs,
                                          sizeof(*specs), DWARF_SPECS_MAX);
    if (!specs)
        return abbrevs->n_specs >= DWARF_SPECS_MAX ? ELF_MALFORMED : -ENOMEM;
    abbrevs->specs = specs;
    specs[abbrevs->n_specs++] = *spec;
    return 0;
}

static bool is_wanted(uint16_t tag)
{
    return tag == DWARF_TAG_SUBPROGRAM || tag == DWARF_TAG_INLINED_SUBROUTINE ||
           tag == DWARF_TAG_LEXICAL_BLOCK || tag == DWARF_TAG_COMPILE_UNIT ||
           tag == DWARF_TAG_PARTIAL_UNIT || tag == DWARF_TAG_SKELETON_UNIT;
}

static int read_specs(struct dwarf_unit *unit, struct dwarf_cursor *cursor,
                      struct dwarf_abbrev *abbrev)
{
    uint64_t size = 0;
    bool is_fixed = true, has_sibling = false;
    abbrev->specs = (uint32_t)unit->abbrevs.n_specs;
    for (;;) {
        struct dwarf_spec spec = {(uint16_t)dwarf_uleb(cursor), (uint16_t)dwarf_uleb(cursor), 0};
        if (spec.form == DWARF_FORM_IMPLICIT_CONST)
            spec.constant = dwarf_sleb(cursor);
        if (cursor->failed)
            return ELF_MALFORMED;
        if (!spec.attribute && !spec.form)
            break;
        int error = add_spec(&unit->abbrevs, &spec);
        if (error)
            return error;
        int form_size = dwarf_form_size(unit, spec.form);
        is_fixed &= form_size >= 0;
        has_sibling |= spec.attribute == AT_SIBLING;
        size += form_size > 0 ? (uint64_t)form_size : 0;
    }
    abbrev->n_specs = (uint32_t)(unit->abbrevs.n_specs - abbrev->specs);
    abbrev->is_wanted = is_wanted(abbrev->tag) || (has_sibling && abbrev->has_children);
    abbrev->size = is_fixed ? (uint32_t)size : 0;
    return 0;
}

static int read_abbrev(struct dwarf_unit *unit, struct dwarf_cursor *cursor)
{
    struct dwarf_abbrevs *abbrevs = &unit->abbrevs;
    struct dwarf_abbrev abbrev = {.code = dwarf_uleb(cursor)};
    if (!abbrev.code) {
        abbrevs->complete = true;
        return cursor->failed ? ELF_MALFORMED : 0;
    }
    abbrev.tag = (uint16_t)dwarf_uleb(cursor);
    abbrev.has_children = dwarf_fixed(cursor, 1) != 0;
    int error = read_specs(unit, cursor, &abbrev);
    if (error)
        return error;
    struct dwarf_abbrev *table =
        unit_grown(abbrevs->table, &abbrevs->cap, abbrevs->n, sizeof(*table), DWARF_ABBREVS_MAX);
    if (!table)
        return abbrevs->n >= DWARF_ABBREVS_MAX ? ELF_MALFORMED : -ENOMEM;
    abbrevs->table = table;
    table[abbrevs->n++] = abbrev;
    abbrevs->next = cursor->at;
    return 0;
}

/* Codes are mostly 1, 2, 3 ... */
static const struct dwarf_abbrev *known_abbrev(const struct dwarf_abbrevs *abbrevs, uint64_t code)
{
    if (code - 1 < abbrevs->n && abbrevs->table[code - 1].code == code)
        return &abbrevs->table[code - 1];
    for (size_t i = abbrevs->n; i-- > 0;)
        if (abbrevs->table[i].code == code)
            return &abbrevs->table[i];
    return NULL;
}

static int read_abbrevs_to(struct dwarf_unit *unit, uint64_t code)
{
    struct dwarf_cursor cursor;
    struct dwarf_abbrevs *abbrevs = &unit->abbrevs;
    dwarf_cursor_open(&cursor, &unit->file->sections[DWARF_ABBREV], abbrevs->next);
    int error = 0;
    bool is_there = false;
    while (!error && !is_there && !abbrevs->complete) {
        error = read_abbrev(unit, &cursor);
        is_there = abbrevs->n && abbrevs->table[abbrevs->n - 1].code == code;
    }
    return error;
}

static int find_abbrev(struct dwarf_unit *unit, uint64_t code, const struct dwarf_abbrev **found)
{
    const struct dwarf_abbrevs *abbrevs = &unit->abbrevs;
    *found = code - 1 < abbrevs->n && abbrevs->table[code - 1].code == code
                 ? &abbrevs->table[code - 1]
                 : NULL;
    if (*found)
        return 0;
    int error = abbrevs->complete ? 0 : read_abbrevs_to(unit, code);
    *found = error ? NULL : known_abbrev(abbrevs, code);
    return error ? error : *found ? 0 : ELF_MALFORMED;
}

/* Another unit's may be the same. */
static void begin_abbrevs(struct dwarf_unit *unit, const struct dwarf_file *before, uint64_t offset)
{
    struct dwarf_abbrevs *abbrevs = &unit->abbrevs;
    if (before == unit->file && abbrevs->n && abbrevs->offset == offset &&
        abbrevs->version == unit->version && abbrevs->offset_size == unit->offset_size)
        return;
    abbrevs->offset = abbrevs->next = offset;
    abbrevs->version = unit->version;
    abbrevs->offset_size = unit->offset_size;
    abbrevs->n = abbrevs->n_specs = 0;
    abbrevs->complete = false;
}

/* Entries */

static bool is_offset(const struct dwarf_unit *unit, const struct dwarf_value *value)
{
    return value->class == DWARF_OFFSET || (value->class == DWARF_CONSTANT && unit->version < 4);
}

static void take_place(const struct dwarf_unit *unit, uint16_t attribute,
                       const struct dwarf_value *value, struct dwarf_die *die)
{
    bool is_index = value->class == DWARF_ADDRESS_INDEX;
    bool is_address = is_index || value->class == DWARF_ADDRESS;
    if (attribute == AT_LOW_PC && is_address) {
        die->has_low = true;
        die->low_is_index = is_index;
        die->low_pc = value->number;
    } else if (attribute == AT_HIGH_PC && (is_address || value->class == DWARF_CONSTANT)) {
        die->has_high = true;
        die->high_is_index = is_index;
        die->high_is_size = value->class == DWARF_CONSTANT;
        die->high_pc = value->number;
    } else if (attribute == AT_RANGES &&
               (value->class == DWARF_LIST_INDEX || is_offset(unit, value))) {
        die->has_ranges = true;
        die->ranges_is_index = value->class == DWARF_LIST_INDEX;
        die->ranges = value->number;
    }
}

static void take_origin(const struct dwarf_value *value, struct dwarf_die *die)
{
    if (value->class != DWARF_REFERENCE && value->class != DWARF_SHARED_REFERENCE)
        return;
    die->origin = value->number;
    die->is_in_shared = value->class == DWARF_SHARED_REFERENCE;
}

static void die_set_attribute(const struct dwarf_unit *unit, uint16_t attribute,
                              const struct dwarf_value *value, struct dwarf_die *die)
{
    switch (attribute) {
    case AT_SIBLING:
        die->sibling = value->class == DWARF_REFERENCE ? value->number : DWARF_NONE;
        break;
    case AT_NAME:
        die->name = value->text;
        break;
    case AT_LINKAGE_NAME:
    case AT_MIPS_LINKAGE_NAME:
        die->linkage_name = value->text;
        break;
    case AT_ABSTRACT_ORIGIN:
    case AT_SPECIFICATION:
        take_origin(value, die);
        break;
    case AT_CALL_FILE:
        die->call_file = value->class == DWARF_CONSTANT ? value->number : 0;
        break;
    case AT_CALL_LINE:
        die->call_line = value->class == DWARF_CONSTANT ? value->number : 0;
        break;
    default:
        take_place(unit, attribute, value, die);
    }
}

static void take_of_unit(struct dwarf_unit *unit, uint16_t attribute,
                         const struct dwarf_value *value)
{
    switch (attribute) {
    case AT_STMT_LIST:
        unit->line_program = is_offset(unit, value) ? value->number : DWARF_NONE;
        break;
    case AT_COMP_DIR:
        unit->directory = value->text;
        break;
    case AT_STR_OFFSETS_BASE:
        unit->string_base = value->number;
        break;
    case AT_ADDR_BASE:
    case AT_GNU_ADDR_BASE:
        unit->address_base = value->number;
        break;
    case AT_RNGLISTS_BASE:
    case AT_GNU_RANGES_BASE:
        unit->range_base = value->number;
        break;
    default:
        break;
    }
}

static int read_attributes(struct dwarf_unit *unit, struct dwarf_cursor *cursor,
                           const struct dwarf_abbrev *abbrev, struct dwarf_die *die)
{
    for (uint32_t i = 0; i < abbrev->n_specs; i++) {
        const struct dwarf_spec *spec = &unit->abbrevs.specs[abbrev->specs + i];
        struct dwarf_value value;
        if (!dwarf_value_read(unit, cursor, spec, &value) || cursor->failed)
            return ELF_MALFORMED;
        if (!abbrev->is_wanted)
            continue;
        die_set_attribute(unit, spec->attribute, &value, die);
        if (die->at == unit->first)
            take_of_unit(unit, spec->attribute, &value);
    }
    return 0;
}

void dwarf_unit_walk(const struct dwarf_unit *unit, uint64_t at, struct dwarf_cursor *cursor)
{
    dwarf_cursor_open(cursor, &unit->file->sections[DWARF_INFO], at);
    cursor->end = unit->end;
    dwarf_seek(cursor, at);
}

int dwarf_die_read(struct dwarf_unit *unit, struct dwarf_cursor *cursor, struct dwarf_die *die)
{
    const struct dwarf_abbrev *abbrev;
    die->at = cursor->at;
    die->tag = 0;
    die->has_children = false;
    uint64_t code = dwarf_uleb(cursor);
    if (cursor->failed)
        return ELF_MALFORMED;
    if (!code)
        return 0;
    int error = find_abbrev(unit, code, &abbrev);
    if (error)
        return error;
    if (!abbrev->is_wanted && (abbrev->size || !abbrev->n_specs)) {
        die->tag = abbrev->tag;
        die->has_children = abbrev->has_children;
        die->sibling = DWARF_NONE;
        dwarf_skip(cursor, abbrev->size);
        return cursor->failed ? ELF_MALFORMED : 0;
    }
    *die = (struct dwarf_die){.at = die->at,
                              .tag = abbrev->tag,
                              .has_children = abbrev->has_children,
                              .sibling = DWARF_NONE,
                              .origin = DWARF_NONE};
    return read_attributes(unit, cursor, abbrev, die);
}

/* Units */

static int read_header(struct dwarf_unit *unit, struct dwarf_cursor *cursor, uint64_t *abbrevs)
{
    dwarf_unit_length(cursor, &unit->offset_size);
    unit->end = cursor->end;
    unit->version = (uint16_t)dwarf_fixed(cursor, 2);
    unit->type = unit->version >= 5 ? (uint8_t)dwarf_fixed(cursor, 1) : 0;
    uint8_t address_size = unit->version >= 5 ? (uint8_t)dwarf_fixed(cursor, 1) : 0;
    *abbrevs = dwarf_fixed(cursor, unit->offset_size);
    if (unit->version < 5)
        address_size = (uint8_t)dwarf_fixed(cursor, 1);
    if (unit->type == UNIT_SKELETON || unit->type == UNIT_SPLIT_COMPILE)
        dwarf_skip(cursor, 8); /* its id */
    unit->first = cursor->at;
    if (cursor->failed)
        return ELF_MALFORMED;
    bool is_usable = unit->version >= 2 && unit->version <= 5 && address_size == 8 &&
                     unit->type != UNIT_TYPE && unit->type != UNIT_SPLIT_TYPE;
    return is_usable ? 0 : ELF_MISSING;
}

int dwarf_unit_end(const struct dwarf_file *file, uint64_t at, uint64_t *end)
{
    struct dwarf_cursor cursor;
    uint8_t offset_size;
    dwarf_cursor_open(&cursor, &file->sections[DWARF_INFO], at);
    dwarf_unit_length(&cursor, &offset_size);
    *end = cursor.end;
    return cursor.failed ? ELF_MALFORMED : 0;
}

static void resolve_low_pc(struct dwarf_unit *unit, const struct dwarf_die *own)
{
    unit->low_pc = own->has_low ? own->low_pc : 0;
    if (own->has_low && own->low_is_index && !dwarf_unit_address(unit, own->low_pc, &unit->low_pc))
        unit->low_pc = 0;
}

int dwarf_unit_open(struct dwarf_unit *unit, const struct dwarf_file *file, uint64_t at,
                    struct dwarf_die *own)
{
    struct dwarf_cursor cursor;
    const struct dwarf_file *before = unit->file;
    uint64_t abbrevs = 0;
    *own = (struct dwarf_die){.origin = DWARF_NONE};
    *unit = (struct dwarf_unit){
        .file = file, .at = at, .line_program = DWARF_NONE, .abbrevs = unit->abbrevs};
    dwarf_cursor_open(&cursor, &file->sections[DWARF_INFO], at);
    int error = read_header(unit, &cursor, &abbrevs);
    if (error)
        return error;
    begin_abbrevs(unit, before, abbrevs);
    unit->string_base = unit->version < 5 ? 0 : unit->offset_size * 2u; /* behind its header */
    error = dwarf_die_read(unit, &cursor, own);
    if (error == ELF_MALFORMED)
        error = ELF_MISSING; /* the next one may be right */
    if (!error)
        resolve_low_pc(unit, own);
    return error;
}

void dwarf_unit_close(struct dwarf_unit *unit)
{
    free(unit->abbrevs.table);
    free(unit->abbrevs.specs);
    *unit = (struct dwarf_unit){0};
}

size_t dwarf_unit_bytes(const struct dwarf_unit *unit)
{
    return unit->abbrevs.cap * sizeof(*unit->abbrevs.table) +
           unit->abbrevs.cap_specs * sizeof(*unit->abbrevs.specs);
}

/* What units keep elsewhere */

static bool read_at(const struct dwarf_section *section, uint64_t base, uint64_t index,
                    unsigned size, uint64_t *value)
{
    struct dwarf_cursor cursor;
    if (base > section->size || index > (section->size - base) / size)
        return false;
    dwarf_cursor_open(&cursor, section, base + index * size);
    *value = dwarf_fixed(&cursor, size);
    return !cursor.failed;
}

bool dwarf_unit_address(const struct dwarf_unit *unit, uint64_t index, uint64_t *address)
{
    return read_at(&unit->file->sections[DWARF_ADDR], unit->address_base, index, 8, address);
}

bool dwarf_unit_text(const struct dwarf_unit *unit, const struct dwarf_file *shared,
                     const struct dwarf_string *string, char *out, size_t size)
{
    struct dwarf_cursor cursor;
    const struct dwarf_file *file = string->kind == DWARF_IN_SHARED ? shared : unit->file;
    uint64_t at = string->at;
    out[0] = 0;
    if (string->kind == DWARF_NO_STRING || !file)
        return false;
    if (string->kind == DWARF_INDEXED &&
        !read_at(&file->sections[DWARF_STR_OFFSETS], unit->string_base, at, unit->offset_size, &at))
        return false;
    dwarf_cursor_open(&cursor, &file->sections[string->section], at);
    dwarf_text(&cursor, out, size);
    return !cursor.failed && out[0];
}
