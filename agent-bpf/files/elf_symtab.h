/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Finds a symbol in the symbol table, for ELF files without a dynamic section (static executables).
 * A stripped file has none. Thread: the file's owner's. Limit: ELF_SYMTAB_SYMBOLS_MAX symbols.
 */
#include "agent-bpf/files/elf_dynamic.h"

#define ELF_SYMTAB_SYMBOLS_MAX (1u << 20)

/* A defined symbol of that type (STT_*). 0, ELF_MISSING, ELF_MALFORMED, negative errno. */
int elf_symtab_find(const struct elf *elf, const char *name, unsigned type,
                    struct elf_symbol *found);
