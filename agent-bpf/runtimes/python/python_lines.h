/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The line, and from 3.11 on the column, of a position in a code object. Symbolizer only; pure; any
 * bytes are a table. Source of the formats: Objects/lnotab_notes.txt of CPython 3.8 and 3.10,
 * Objects/locations.md of 3.11.
 */
#include "agent-bpf/runtimes/python/python_layout.h"

struct python_line {
    uint32_t line;   /* 0: the instruction has none */
    uint32_t column; /* of the first byte, from 1 on; 0: not known */
};

/* lasti: in code units, -1: in front of the first. */
struct python_line python_line(enum python_lines_form form, struct bytes table, uint32_t first_line,
                               int64_t lasti);
