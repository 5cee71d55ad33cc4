/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a file with a Ruby interpreter in it tells: a libruby, or an executable that it is a part
 * of. Recognised by what it exports, never by its name. Addresses are the file's. Symbolizer only;
 * reads only through its argument; any file is taken.
 */
#include "agent-bpf/runtimes/ruby/ruby_layout.h"
#include "agent-bpf/runtimes/runtime_reader.h"

/* What leads to the execution context of a thread. */
enum ruby_current {
    RUBY_CURRENT_NONE,
    RUBY_CURRENT_GLOBAL,   /* a variable at `current_at`: of the thread that holds the lock */
    RUBY_CURRENT_FIXED,    /* thread-local: current_offset from the thread pointer */
    RUBY_CURRENT_OFFSET,   /* the same, in a word at `current_at` */
    RUBY_CURRENT_MODULE,   /* module and offset, in two words there */
    RUBY_CURRENT_IN_MODULE /* module in a word there, and current_offset */
};

struct ruby_constants {
    struct ruby_layout layout;
    struct runtime_range evaluation[RUNTIME_EVALUATION_MAX];
    struct runtime_range inner[RUNTIME_EVALUATION_MAX]; /* all empty: it is a part of that */
    enum ruby_current current;
    uint64_t current_at;
    int64_t current_offset;
    uint64_t string_class;           /* rb_cString, a variable; 0: not exported */
    uint64_t writable, writable_end; /* initialised variables; both 0: not known */
};

/* Outcomes as in struct runtime_reader. */
int ruby_file_open(const struct elf *elf, struct ruby_constants *constants,
                   enum runtime_refusal *why);
