/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One symbol of an ELF file that has no dynamic section (a static executable), from its symbol
 * table; there is none once it was stripped. Thread: whoever holds the file. Limit:
 * ELF_SYMTAB_SYMBOLS_MAX symbols looked at.
 */
#include "agent-bpf/files/elf_dynamic.h"

#define ELF_SYMTAB_SYMBOLS_MAX (1u << 20)

/* A defined symbol of that type (STT_*). 0, ELF_MISSING, ELF_MALFORMED, negative errno. */
int elf_symtab_find(const struct elf *elf, const char *name, unsigned type,
                    struct elf_symbol *found);
