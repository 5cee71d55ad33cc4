/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/files/elf_symtab.h"

#define SYMBOLS_AT_ONCE 512
#define STRINGS_AT_ONCE 16384
#define STRINGS_MAX     (64u << 20)
#define NAME_MAX_BYTES  64 /* of a name that is looked for, with its NUL */
#define PLACES_MAX      64 /* of a name among the strings: it may be the end of longer ones */

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

/* Where the name and its NUL are among the strings. */
struct places {
    uint32_t at[PLACES_MAX];
    size_t n;
};

static void places_add(struct places *places, struct bytes strings, uint64_t at, struct bytes name)
{
    const uint8_t *found;
    while (places->n < PLACES_MAX && strings.len >= name.len &&
           (found = memmem(strings.data, strings.len, name.data, name.len))) {
        size_t skip = (size_t)(found - strings.data);
        places->at[places->n++] = (uint32_t)(at + skip);
        strings = bytes_skip(strings, skip + 1);
        at += skip + 1;
    }
}

/* One pass over all strings, so that no symbol's own has to be read. */
static int symtab_find_name(const struct symtab *table, struct bytes name, struct places *places)
{
    uint8_t strings[NAME_MAX_BYTES + STRINGS_AT_ONCE];
    uint64_t size = table->strings.sh_size, at;
    size_t kept = 0; /* of the part before: a name may lie across */
    places->n = 0;
    for (uint64_t done = 0; done < size && done < STRINGS_MAX;) {
        size_t now = size - done < STRINGS_AT_ONCE ? (size_t)(size - done) : STRINGS_AT_ONCE;
        if (__builtin_add_overflow(table->strings.sh_offset, done, &at))
            return ELF_MALFORMED;
        int error = elf_read(table->elf, at, strings + kept, now);
        if (error)
            return error;
        places_add(places, BYTES(strings, kept + now), done - kept, name);
        done += now;
        size_t next = kept + now < name.len - 1 ? kept + now : name.len - 1;
        memmove(strings, strings + kept + now - next, next);
        kept = next;
    }
    return places->n ? 0 : ELF_MISSING;
}

static bool symbol_is(const Elf64_Sym *symbol, unsigned type, const struct places *places)
{
    if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != type)
        return false;
    for (size_t i = 0; i < places->n; i++)
        if (symbol->st_name == places->at[i])
            return true;
    return false;
}

int elf_symtab_find(const struct elf *elf, const char *name, unsigned type,
                    struct elf_symbol *found)
{
    struct symtab table;
    struct places places;
    Elf64_Sym symbols[SYMBOLS_AT_ONCE];
    size_t name_bytes = strlen(name) + 1;
    int error = name_bytes > NAME_MAX_BYTES ? ELF_MISSING : symtab_open(elf, &table);
    if (!error)
        error = symtab_find_name(&table, BYTES(name, name_bytes), &places);
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
            if (!symbol_is(&symbols[i], type, &places))
                continue;
            *found = (struct elf_symbol){.index = (uint32_t)(done + i), .symbol = symbols[i]};
            return 0;
        }
        done += now;
    }
    return ELF_MISSING;
}
