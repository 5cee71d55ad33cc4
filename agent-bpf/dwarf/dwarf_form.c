/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/dwarf/dwarf_form.h"

enum { /* DW_FORM_* */
       FORM_ADDR = 0x01,
       FORM_BLOCK2 = 0x03,
       FORM_BLOCK4 = 0x04,
       FORM_DATA2 = 0x05,
       FORM_DATA4 = 0x06,
       FORM_DATA8 = 0x07,
       FORM_BLOCK = 0x09,
       FORM_BLOCK1 = 0x0a,
       FORM_DATA1 = 0x0b,
       FORM_FLAG = 0x0c,
       FORM_SDATA = 0x0d,
       FORM_STRP = 0x0e,
       FORM_UDATA = 0x0f,
       FORM_REF_ADDR = 0x10,
       FORM_REF1 = 0x11,
       FORM_REF2 = 0x12,
       FORM_REF4 = 0x13,
       FORM_REF8 = 0x14,
       FORM_REF_UDATA = 0x15,
       FORM_INDIRECT = 0x16,
       FORM_SEC_OFFSET = 0x17,
       FORM_EXPRLOC = 0x18,
       FORM_FLAG_PRESENT = 0x19,
       FORM_STRX = 0x1a,
       FORM_ADDRX = 0x1b,
       FORM_REF_SUP4 = 0x1c,
       FORM_STRP_SUP = 0x1d,
       FORM_DATA16 = 0x1e,
       FORM_LINE_STRP = 0x1f,
       FORM_REF_SIG8 = 0x20,
       FORM_LOCLISTX = 0x22,
       FORM_RNGLISTX = 0x23,
       FORM_REF_SUP8 = 0x24,
       FORM_STRX1 = 0x25,
       FORM_STRX2 = 0x26,
       FORM_STRX3 = 0x27,
       FORM_STRX4 = 0x28,
       FORM_ADDRX1 = 0x29,
       FORM_ADDRX2 = 0x2a,
       FORM_ADDRX3 = 0x2b,
       FORM_ADDRX4 = 0x2c,
       FORM_GNU_ADDR_INDEX = 0x1f01,
       FORM_GNU_STR_INDEX = 0x1f02,
       FORM_GNU_REF_ALT = 0x1f20,
       FORM_GNU_STRP_ALT = 0x1f21,
       FORM_MAX = 0x2d,
};

enum { OFFSET = -1, ULEB = -2, UNKNOWN = -3 }; /* in place of a size */

struct form {
    int8_t size;
    uint8_t class;
};

static const struct form forms[FORM_MAX] = {
    [0] = {UNKNOWN, 0},
    [0x02] = {UNKNOWN, 0},
    [FORM_ADDR] = {8, DWARF_ADDRESS},
    [FORM_BLOCK2] = {UNKNOWN, 0}, /* blocks, texts, SLEB128: by hand */
    [FORM_BLOCK4] = {UNKNOWN, 0},
    [FORM_BLOCK] = {UNKNOWN, 0},
    [FORM_BLOCK1] = {UNKNOWN, 0},
    [FORM_EXPRLOC] = {UNKNOWN, 0},
    [DWARF_FORM_STRING] = {UNKNOWN, 0},
    [FORM_SDATA] = {UNKNOWN, 0},
    [FORM_INDIRECT] = {UNKNOWN, 0},
    [FORM_DATA1] = {1, DWARF_CONSTANT},
    [FORM_DATA2] = {2, DWARF_CONSTANT},
    [FORM_DATA4] = {4, DWARF_CONSTANT},
    [FORM_DATA8] = {8, DWARF_CONSTANT},
    [FORM_DATA16] = {16, DWARF_OTHER},
    [FORM_UDATA] = {ULEB, DWARF_CONSTANT},
    [FORM_FLAG] = {1, DWARF_OTHER},
    [FORM_FLAG_PRESENT] = {0, DWARF_OTHER},
    [FORM_STRP] = {OFFSET, DWARF_TEXT},
    [FORM_LINE_STRP] = {OFFSET, DWARF_TEXT},
    [FORM_STRP_SUP] = {OFFSET, DWARF_TEXT},
    [FORM_STRX] = {ULEB, DWARF_TEXT},
    [FORM_STRX1] = {1, DWARF_TEXT},
    [FORM_STRX2] = {2, DWARF_TEXT},
    [FORM_STRX3] = {3, DWARF_TEXT},
    [FORM_STRX4] = {4, DWARF_TEXT},
    [FORM_REF_ADDR] = {OFFSET, DWARF_REFERENCE},
    [FORM_REF1] = {1, DWARF_REFERENCE},
    [FORM_REF2] = {2, DWARF_REFERENCE},
    [FORM_REF4] = {4, DWARF_REFERENCE},
    [FORM_REF8] = {8, DWARF_REFERENCE},
    [FORM_REF_UDATA] = {ULEB, DWARF_REFERENCE},
    [FORM_REF_SIG8] = {8, DWARF_OTHER},
    [FORM_REF_SUP4] = {4, DWARF_SHARED_REFERENCE},
    [FORM_REF_SUP8] = {8, DWARF_SHARED_REFERENCE},
    [FORM_SEC_OFFSET] = {OFFSET, DWARF_OFFSET},
    [FORM_LOCLISTX] = {ULEB, DWARF_OTHER},
    [FORM_RNGLISTX] = {ULEB, DWARF_LIST_INDEX},
    [FORM_ADDRX] = {ULEB, DWARF_ADDRESS_INDEX},
    [FORM_ADDRX1] = {1, DWARF_ADDRESS_INDEX},
    [FORM_ADDRX2] = {2, DWARF_ADDRESS_INDEX},
    [FORM_ADDRX3] = {3, DWARF_ADDRESS_INDEX},
    [FORM_ADDRX4] = {4, DWARF_ADDRESS_INDEX},
};

static struct form form_of(const struct dwarf_unit *unit, uint16_t number)
{
    struct form form = {UNKNOWN, 0};
    switch (number) {
    case FORM_GNU_ADDR_INDEX:
        return (struct form){ULEB, DWARF_ADDRESS_INDEX};
    case FORM_GNU_STR_INDEX:
        return (struct form){ULEB, DWARF_TEXT};
    case FORM_GNU_REF_ALT:
        form = (struct form){OFFSET, DWARF_SHARED_REFERENCE};
        break;
    case FORM_GNU_STRP_ALT:
        form = (struct form){OFFSET, DWARF_TEXT};
        break;
    default:
        if (number < FORM_MAX)
            form = forms[number];
    }
    if (form.size == OFFSET) /* of DWARF 2 a reference has the size of an address */
        form.size = number == FORM_REF_ADDR && unit->version == 2 ? 8 : (int8_t)unit->offset_size;
    return form;
}

int dwarf_form_size(const struct dwarf_unit *unit, uint16_t number)
{
    if (number == DWARF_FORM_IMPLICIT_CONST)
        return 0;
    struct form form = form_of(unit, number);
    return form.size >= 0 ? (int)(uint8_t)form.size : -1;
}

/* Forms whose value is no number. */
static bool read_long(struct dwarf_cursor *cursor, uint16_t number, struct dwarf_value *value)
{
    switch (number) {
    case FORM_BLOCK1:
        dwarf_skip(cursor, dwarf_fixed(cursor, 1));
        return true;
    case FORM_BLOCK2:
        dwarf_skip(cursor, dwarf_fixed(cursor, 2));
        return true;
    case FORM_BLOCK4:
        dwarf_skip(cursor, dwarf_fixed(cursor, 4));
        return true;
    case FORM_BLOCK:
    case FORM_EXPRLOC:
        dwarf_skip(cursor, dwarf_uleb(cursor));
        return true;
    case FORM_SDATA:
        value->class = DWARF_CONSTANT;
        value->number = (uint64_t)dwarf_sleb(cursor);
        return true;
    default:
        return false;
    }
}

static bool read_text(const struct dwarf_unit *unit, struct dwarf_cursor *cursor,
                      struct dwarf_value *value)
{
    const struct dwarf_section *section = cursor->section;
    value->class = DWARF_TEXT;
    value->text.kind = DWARF_IN_SECTION;
    value->text.section = (enum dwarf_section_name)(section - unit->file->sections);
    value->text.at = cursor->at;
    dwarf_skip_text(cursor);
    return true;
}

static struct dwarf_string text_of(uint16_t number, uint64_t at)
{
    switch (number) {
    case FORM_STRP:
        return (struct dwarf_string){DWARF_IN_SECTION, DWARF_STR, at};
    case FORM_LINE_STRP:
        return (struct dwarf_string){DWARF_IN_SECTION, DWARF_LINE_STR, at};
    case FORM_STRP_SUP:
    case FORM_GNU_STRP_ALT:
        return (struct dwarf_string){DWARF_IN_SHARED, DWARF_STR, at};
    default:
        return (struct dwarf_string){DWARF_INDEXED, DWARF_STR, at};
    }
}

bool dwarf_value_read(const struct dwarf_unit *unit, struct dwarf_cursor *cursor,
                      const struct dwarf_spec *spec, struct dwarf_value *value)
{
    uint16_t number = spec->form;
    *value = (struct dwarf_value){.class = DWARF_OTHER};
    if (number == FORM_INDIRECT)
        number = (uint16_t)dwarf_uleb(cursor);
    if (number == DWARF_FORM_STRING)
        return read_text(unit, cursor, value);
    if (number == DWARF_FORM_IMPLICIT_CONST) {
        value->class = DWARF_CONSTANT;
        value->number = (uint64_t)spec->constant;
        return number == spec->form;
    }
    struct form form = form_of(unit, number);
    if (form.size == UNKNOWN)
        return read_long(cursor, number, value);
    value->class = (enum dwarf_class)form.class;
    if (form.size == ULEB)
        value->number = dwarf_uleb(cursor);
    else if (form.size <= 8)
        value->number = form.size ? dwarf_fixed(cursor, (unsigned)form.size) : 0;
    else
        dwarf_skip(cursor, (uint64_t)form.size);
    if (value->class == DWARF_TEXT)
        value->text = text_of(number, value->number);
    if (value->class == DWARF_REFERENCE && number != FORM_REF_ADDR)
        value->number += unit->at;
    return true;
}
