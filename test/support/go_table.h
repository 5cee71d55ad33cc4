/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A small pclntab as Go's linkers write it, and an ELF file around such a table. Its functions,
 * from GO_TABLE_TEXT on: "main.first" (0x40 bytes, /src/a.go, from 0x20 on line 12 instead of 10;
 * from 0x8 to 0x38 with 0x20 bytes of stack) and "main.second" (0xc0 bytes, line 30; from 0x80 to
 * 0x90 a call into /src/b.go is inlined; from 4 on with 0x10 bytes of stack).
 */
#include "base/bytes.h"

#define GO_TABLE_TEXT 0x401000
#define GO_TABLE_SIZE 0x300

struct go_table_form {
    uint8_t magic;      /* 0xfb, 0xfa, 0xf0, 0xf1 */
    uint64_t text_word; /* the header's word of where the code begins; unused before Go 1.18 */
    const char *second; /* another name of main.second; NULL. At most 31 bytes */
    uint8_t flags;      /* of main.second; unused before Go 1.16 */
};

void go_table_make(const struct go_table_form *form, uint8_t table[GO_TABLE_SIZE]);

enum go_table_module { GO_TABLE_NO_MODULE, GO_TABLE_MODULE, GO_TABLE_RELOCATED };

/* A descriptor of a file with that table, of any content, and a moduledata that knows its text. */
int go_table_file(struct bytes table, enum go_table_module module, bool sections);
