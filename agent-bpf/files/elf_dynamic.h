/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The dynamic section of an ELF file: one exported symbol by name, through the hash tables, with
 * few reads even for a large library; and the relocations that name it. Needs no section headers.
 * Source of the format: System V ABI chapter 5; the GNU hash section as glibc's loader walks it.
 * Thread: the owner's. Outcomes as in elf.h.
 */
#include "agent-bpf/files/elf.h"

#define ELF_DYNAMIC_ENTRIES_MAX 1024
#define ELF_SYMBOL_NAME_MAX     127        /* bytes of a name that is looked for */
#define ELF_HASH_CHAIN_MAX      65536      /* symbols compared in one look-up */
#define ELF_RELOCATIONS_MAX     (8u << 20) /* read of one table */
#define ELF_DYNAMIC_SYMBOLS_MAX (4u << 20)

struct elf_dynamic {
    const struct elf *elf;
    uint64_t symbols; /* file offsets; 0 = none */
    uint64_t strings;
    uint64_t strings_size;
    uint64_t hash;
    uint64_t gnu_hash;
    uint64_t relocations;
    uint64_t relocations_size;
    uint64_t plt_relocations;
    uint64_t plt_relocations_size;
    uint64_t flags_1; /* DT_FLAGS_1 */
};

struct elf_symbol {
    uint32_t index;
    Elf64_Sym symbol;
};

int elf_dynamic_open(const struct elf *elf, struct elf_dynamic *dynamic);
/* A program; of shared objects those alone that can be started. */
bool elf_is_executable(const struct elf *elf);
/* A defined symbol; ELF_MISSING, also for a name longer than ELF_SYMBOL_NAME_MAX. */
int elf_dynamic_find(const struct elf_dynamic *dynamic, const char *name, struct elf_symbol *found);
/* The number of dynamic symbols, from the hash tables; for files without section headers. */
int elf_dynamic_count(const struct elf_dynamic *dynamic, uint32_t *count);
/* Calls visit for each relocation of both tables until it returns true. */
int elf_dynamic_relocations(const struct elf_dynamic *dynamic,
                            bool (*visit)(void *context, const Elf64_Rela *relocation),
                            void *context);
