/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where the fields of Ruby's structures are, by version: what the tick needs in `process`, the rest
 * for names. Pure. Source: vm_core.h, iseq.h, method.h, internal/class.h and rstring.h of Ruby 2.7
 * to 3.4. Patch releases of a version have the same layout.
 */
#include "agent-bpf/runtimes/ruby_process.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUBY_VERSION(major, minor) ((uint32_t)(major) << 8 | (minor))

struct ruby_layout {
    uint32_t version;
    struct ruby_process process; /* without addresses */
    /* In rb_iseq_constant_body. */
    uint16_t body_lines; /* insns_info: entries, positions, their number, succinct table */
    uint16_t body_local; /* the sequence of the method that it is in */
    uint16_t line_entry; /* bytes of an entry, which begins with the line */
    /* In RClass. */
    uint16_t class_fields; /* class_fields_is_pointer: address of what has `class_variables` */
    uint16_t class_variables;
    uint16_t class_path;     /* from the class on; 0: among its variables */
    uint16_t class_attached; /* object of a singleton class, from the class on; 0: not known */
};

/* text: as in ruby_version, "3.1.2". False: not a version whose layout is known. */
bool ruby_layout(const char *text, struct ruby_layout *layout);
