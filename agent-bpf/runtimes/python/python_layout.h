/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Offsets of CPython's structures, by version: 3.8 to 3.12 from a table, which python_attach()
 * checks against what the types say of themselves; 3.13 and 3.14 from the debug offsets that begin
 * _PyRuntime. Other versions, pre-releases and implausible offsets are refused. Symbolizer only;
 * pure.
 */
#include "agent-bpf/runtimes/python_process.h"
#include "base/bytes.h"

#define PYTHON_VERSION(major, minor) ((uint32_t)(major) << 24 | (uint32_t)(minor) << 16)
#define PYTHON_MINOR(version)        ((version) >> 16 & 0xff)
#define PYTHON_DEBUG_OFFSETS_BYTES   712 /* of which 3.14 has the most */

/* How line tables are written. */
enum python_lines_form { PYTHON_LNOTAB, PYTHON_LINETABLE, PYTHON_LOCATIONS };

struct python_layout {
    uint32_t version; /* 0xMMmmpprr, as Py_Version */
    enum python_lines_form lines;
    bool free_threaded;
    /* In bytes. */
    uint32_t interpreters_head; /* _PyRuntime */
    uint32_t runtime_key;       /* where autoTSSkey usually is */
    uint32_t interpreter_next;  /* PyInterpreterState */
    uint32_t threads_head;
    uint32_t thread_next; /* PyThreadState; below PYTHON_READ_MAX, as all that follows */
    uint32_t thread_interpreter;
    uint32_t code_bytes; /* of PyCodeObject; to be read */
    uint32_t code_size;  /* tp_basicsize; 0: not checked */
    uint32_t code_filename;
    uint32_t code_name;
    uint32_t code_qualname; /* 0: there is none */
    uint32_t code_table;
    uint32_t code_first_line;
    uint32_t code_units;   /* number of code units, 8 bytes; 0: not there */
    uint32_t object_type;  /* of any object: its type */
    uint32_t bytes_length; /* bytes object; 8 bytes */
    uint32_t bytes_data;
    uint32_t text_length;          /* str; 8 bytes */
    uint32_t text_state;           /* kind and form, 4 bytes */
    uint32_t text_state_shift;     /* of the state: to the kind */
    uint32_t text_header;          /* of a compact ASCII string: its characters follow */
    struct python_process process; /* its offsets; addresses and ranges are zero */
};

/* offsets: the beginning of _PyRuntime, of PYTHON_DEBUG_OFFSETS_BYTES, or empty if it cannot be
 * read. False: refused. */
bool python_layout(uint32_t version, struct bytes offsets, struct python_layout *layout);
/* Of debug offsets; 0: there are none. */
uint32_t python_layout_version(struct bytes offsets);
