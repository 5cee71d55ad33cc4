/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What an executable that holds V8 tells of the layout of V8's heap: ints named v8dbg_* among its
 * dynamic symbols, which V8 exports for debuggers; its version; the range of the embedded builtins.
 * What has no such int depends on the version, and is checked by the types of objects wherever it
 * is used. Offsets are bytes from the start of an object. Source: V8's
 * tools/gen-postmortem-metadata.py, and Node.js 16 to 26. Thread: the file's owner's.
 */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/runtimes/v8_process.h"

#define V8_VERSION(major, minor) ((uint32_t)(major)*100 + (uint32_t)(minor))
#define V8_VERSION_FIRST         V8_VERSION(9, 4)
#define V8_VERSION_LAST          V8_VERSION(14, 99)
#define V8_BYTECODES_MAX         256

enum v8_file_outcome { V8_FILE_NONE = 1, V8_FILE_UNKNOWN_LAYOUT, V8_FILE_COMPRESSED_POINTERS };

/* Types of objects that are read; 0: this version has none. */
struct v8_types {
    uint16_t shared_function_info;
    uint16_t scope_info;
    uint16_t script;
    uint16_t bytecode_array;
    uint16_t interpreter_data;
    uint16_t baseline_data;
    uint16_t code;
    uint16_t instruction_stream;
    uint16_t byte_array;
    uint16_t trusted_byte_array;
    uint16_t fixed_array;
    uint16_t protected_fixed_array;
    uint16_t trusted_fixed_array;
    uint16_t weak_fixed_array;
    uint16_t trusted_weak_fixed_array;
    uint16_t protected_weak_fixed_array;
    uint16_t shared_function_info_wrapper;
    uint16_t first_nonstring;
};

struct v8_file {
    uint32_t version; /* V8_VERSION() */
    struct v8_types types;
    struct v8_process process; /* all but the ranges of the builtins */
    uint16_t map_type;         /* in a Map: the type of its objects, u16 */
    uint16_t shared_name;      /* in a SharedFunctionInfo: a name, or a ScopeInfo that has it */
    uint16_t shared_data;      /* the same: what is run */
    uint16_t shared_end;       /* the same: bytes of it */
    uint16_t scope_first;      /* in a ScopeInfo: index of what follows its counts */
    uint16_t code_start;       /* in Code: address of its instructions; 0: they are in it */
    uint16_t code_header;      /* bytes of what is in front of the instructions */
    uint16_t code_size;        /* in Code: bytes of instructions, u32 */
    uint16_t code_flags;
    uint16_t code_data;  /* in Code: for deoptimization, or the BytecodeArray */
    uint16_t code_table; /* in Code: positions, or bytes of code of each bytecode */
    uint16_t code_align;
    uint16_t kind_mask; /* in the flags of Code */
    uint16_t kind_baseline;
    uint16_t deopt_literals; /* indexes in the data for deoptimization */
    uint16_t deopt_shared;
    uint16_t deopt_inlining;
    bool deopt_wrapped; /* the SharedFunctionInfo is in a wrapper */
    uint64_t builtins;  /* ELF address of the embedded builtins; 0: in a variable */
    uint64_t builtins_bytes;
    uint64_t builtins_variable; /* ELF addresses of a pointer to the builtins and of their size */
    uint64_t builtins_bytes_variable;
    uint16_t n_bytecodes;                        /* 0: their sizes are not known */
    uint8_t bytecode_sizes[3][V8_BYTECODES_MAX]; /* of operands of 1, 2 and 4 bytes */
};

/* 0, enum v8_file_outcome, or negative errno. */
int v8_file_read(const struct elf *elf, struct v8_file *file);
