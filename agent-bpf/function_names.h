/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is known of the functions of one executable, from the best source that it has: its symbols
 * and those of its debug file (symbols.h, debug_file.h). Analyst only.
 */
#include "agent-bpf/elf.h"

#define FUNCTION_NAME_MAX 513 /* bytes of each text, with NUL */

struct function_name { /* texts are sanitized; empty = not known */
    char function[FUNCTION_NAME_MAX];
    char system_name[FUNCTION_NAME_MAX]; /* as the linker has it, where that is another */
    char file[FUNCTION_NAME_MAX];
    uint32_t line; /* 0 = not known */
};

struct function_names;

/* pid: a process that maps the executable; 0 = none is known. Keeps its own descriptors. 0 (also
 * with no name at all), ELF_MALFORMED, negative errno. */
int function_names_open(const struct elf *elf, uint32_t pid, struct function_names **names);
void function_names_close(struct function_names *names);         /* NULL is fine */
size_t function_names_bytes(const struct function_names *names); /* memory */
/* The function at this ELF address. 0 or ELF_MISSING. */
int function_names_find(const struct function_names *names, uint64_t vaddr,
                        struct function_name *name);
