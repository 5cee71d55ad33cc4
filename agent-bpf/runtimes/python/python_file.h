/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a file with a CPython interpreter in it tells: a libpython, an executable that is linked
 * with it, or a program that embeds it. Recognised by _PyRuntime or its section, never by its name.
 * Addresses are the file's. Symbolizer only; reads only through its argument; any file is taken.
 */
#include "agent-bpf/runtimes/python/python_layout.h"
#include "agent-bpf/runtimes/runtime_reader.h"

/* What leads to the thread-local variable of the current thread state. */
enum python_current {
    PYTHON_CURRENT_NONE,   /* before 3.12, or not found */
    PYTHON_CURRENT_FIXED,  /* offset from the thread pointer, in the code */
    PYTHON_CURRENT_OFFSET, /* the same, in a word at `current_at` */
    PYTHON_CURRENT_MODULE, /* module and offset, in two words there */
};

struct python_constants {
    struct python_layout layout;
    uint64_t runtime;                /* _PyRuntime */
    uint64_t code_type;              /* PyCode_Type; 0: not exported; the same below */
    uint64_t text_type, number_type; /* PyUnicode_Type, PyLong_Type */
    struct python_tasks tasks;       /* if asyncio is in the same file */
    struct runtime_range evaluation[RUNTIME_EVALUATION_MAX];
    enum python_current current;
    uint64_t current_at;
    int64_t current_offset; /* PYTHON_CURRENT_FIXED */
};

/* Outcomes as in struct runtime_reader. */
int python_file_open(const struct elf *elf, struct python_constants *constants,
                     enum runtime_refusal *why);
