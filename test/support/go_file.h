/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A small ELF file with what a Go linker puts into an executable: build info, and code. */
#include "base/bytes.h"

#define GO_FILE_TEXT      0x401000 /* address of the code */
#define GO_FILE_DATA      0x402000
#define GO_FILE_INFO      (GO_FILE_DATA + 0x40)
#define GO_FILE_CGO       (GO_FILE_DATA + 0x300) /* the byte runtime.iscgo */
#define GO_FILE_SIZE      0x940
#define GO_FILE_CODE_ROOM 0x200

enum go_file_form {
    GO_FILE_INLINE,      /* since Go 1.18 */
    GO_FILE_POINTERS,    /* before */
    GO_FILE_RELOCATIONS, /* the same, where relocations write the pointers */
};

struct go_file {
    uint16_t machine;
    uint16_t type;
    bool interpreter; /* PT_INTERP */
    bool pie_flag;    /* DF_1_PIE */
    bool no_sections;
    bool cgo;
    enum go_file_form form;
    const char *version; /* NULL: no build info */
    struct bytes code;   /* at most GO_FILE_CODE_ROOM */
    size_t code_at;      /* from GO_FILE_TEXT on */
    uint8_t bytes[GO_FILE_SIZE];
};

/* Fills in .bytes from the rest. */
void go_file_make(struct go_file *file);
/* A descriptor of a file with these bytes. */
int go_file_open(const struct go_file *file);
