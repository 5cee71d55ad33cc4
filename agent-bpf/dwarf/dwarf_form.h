/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Values of attributes by their form. Symbolizer only. Source of the format: DWARF 5 section 7.5.6.
 */
#include "agent-bpf/dwarf/dwarf_unit.h"

enum dwarf_form_name {
    DWARF_FORM_STRING = 0x08,
    DWARF_FORM_IMPLICIT_CONST = 0x21,
};

enum dwarf_class { /* as far as it matters here */
                   DWARF_OTHER,
                   DWARF_ADDRESS,
                   DWARF_ADDRESS_INDEX,
                   DWARF_CONSTANT,
                   DWARF_OFFSET,
                   DWARF_LIST_INDEX,
                   DWARF_REFERENCE, /* position in .debug_info */
                   DWARF_SHARED_REFERENCE,
                   DWARF_TEXT,
};

struct dwarf_value {
    enum dwarf_class class;
    uint64_t number;
    struct dwarf_string text;
};

/* In the section of the cursor. false: a form that is not known, nothing behind it can be read. */
bool dwarf_value_read(const struct dwarf_unit *unit, struct dwarf_cursor *cursor,
                      const struct dwarf_spec *spec, struct dwarf_value *value);
/* Bytes that a value of that form always takes, or -1. */
int dwarf_form_size(const struct dwarf_unit *unit, uint16_t form);
