/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/files/elf_symtab.h"

#define SYMBOLS_AT_ONCE 512
#define NAME_MAX_BYTES  64 /* of a name that is looked for, with its NUL */

struct symtab {
    const struct elf *elf;
    Elf64_Shdr symbols;
    Elf64_Shdr strings;
};

static int symtab_open(const struct elf *elf, struct symtab *table)
{
    table->elf = elf;
    int error = elf_section_of_type(elf, SHT_SYMTAB, &table->symbols);
    return error ? error : elf_section(elf, table->symbols.sh_link, &table->strings);
}

static bool symtab_has_name(const struct symtab *table, const Elf64_Sym *symbol, const char *name)
{
    char found[NAME_MAX_BYTES];
    size_t size = strlen(name) + 1;
    uint64_t at;
    if (size > sizeof(found) || symbol->st_name >= table->strings.sh_size ||
        size > table->strings.sh_size - symbol->st_name ||
        __builtin_add_overflow(table->strings.sh_offset, symbol->st_name, &at))
        return false;
    return !elf_read(table->elf, at, found, size) && !memcmp(found, name, size);
}

static bool symbol_is_candidate(const Elf64_Sym *symbol, unsigned type)
{
    return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == type;
}

int elf_symtab_find(const struct elf *elf, const char *name, unsigned type,
                    struct elf_symbol *found)
{
    struct symtab table;
    Elf64_Sym symbols[SYMBOLS_AT_ONCE];
    int error = symtab_open(elf, &table);
    if (error)
        return error;
    uint64_t n = table.symbols.sh_size / sizeof(*symbols);
    if (n > ELF_SYMTAB_SYMBOLS_MAX)
        n = ELF_SYMTAB_SYMBOLS_MAX;
    for (uint64_t done = 0; done < n;) {
        uint64_t now = n - done < SYMBOLS_AT_ONCE ? n - done : SYMBOLS_AT_ONCE, at;
        if (__builtin_add_overflow(table.symbols.sh_offset, done * sizeof(*symbols), &at))
            return ELF_MALFORMED;
        error = elf_read(elf, at, symbols, now * sizeof(*symbols));
        if (error)
            return error;
        for (uint64_t i = 0; i < now; i++) {
            if (!symbol_is_candidate(&symbols[i], type) ||
                !symtab_has_name(&table, &symbols[i], name))
                continue;
            *found = (struct elf_symbol){.index = (uint32_t)(done + i), .symbol = symbols[i]};
            return 0;
        }
        done += now;
    }
    return ELF_MISSING;
}
