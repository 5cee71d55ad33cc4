/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses in the dynamic section are turned into file offsets when it is opened; what does not
 * lie in a loaded segment counts as absent. Chains are walked by index with a maximum, so a cyclic
 * chain ends.
 */
#include "agent-bpf/files/elf_dynamic.h"

#define RELOCATIONS_AT_ONCE 512

/* What of the dynamic section is an address, by tag. */
static uint64_t *address_field(struct elf_dynamic *dynamic, int64_t tag)
{
    switch (tag) {
    case DT_SYMTAB:
        return &dynamic->symbols;
    case DT_STRTAB:
        return &dynamic->strings;
    case DT_HASH:
        return &dynamic->hash;
    case DT_GNU_HASH:
        return &dynamic->gnu_hash;
    case DT_RELA:
        return &dynamic->relocations;
    case DT_JMPREL:
        return &dynamic->plt_relocations;
    default:
        return NULL;
    }
}

static void take_entry(struct elf_dynamic *dynamic, const Elf64_Dyn *entry)
{
    uint64_t *address = address_field(dynamic, entry->d_tag);
    if (address && !elf_offset_of_address(dynamic->elf, entry->d_un.d_ptr, address))
        *address = 0;
    if (entry->d_tag == DT_STRSZ)
        dynamic->strings_size = entry->d_un.d_val;
    if (entry->d_tag == DT_RELASZ)
        dynamic->relocations_size = entry->d_un.d_val;
    if (entry->d_tag == DT_PLTRELSZ)
        dynamic->plt_relocations_size = entry->d_un.d_val;
    if (entry->d_tag == DT_FLAGS_1)
        dynamic->flags_1 = entry->d_un.d_val;
}

int elf_dynamic_open(const struct elf *elf, struct elf_dynamic *dynamic)
{
    memset(dynamic, 0, sizeof(*dynamic));
    dynamic->elf = elf;
    const Elf64_Phdr *segment = elf_segment(elf, PT_DYNAMIC);
    if (!segment)
        return ELF_MISSING;
    uint64_t n = segment->p_filesz / sizeof(Elf64_Dyn);
    if (segment->p_offset > elf->size)
        return ELF_MALFORMED;
    for (uint64_t i = 0; i < n && i < ELF_DYNAMIC_ENTRIES_MAX; i++) {
        Elf64_Dyn entry;
        int error = elf_read(elf, segment->p_offset + i * sizeof(entry), &entry, sizeof(entry));
        if (error)
            return error;
        if (entry.d_tag == DT_NULL)
            break;
        take_entry(dynamic, &entry);
    }
    return dynamic->symbols && dynamic->strings ? 0 : ELF_MISSING;
}

/* A shared object has neither an interpreter nor the flag. */
bool elf_is_executable(const struct elf *elf)
{
    struct elf_dynamic dynamic;
    if (elf->type == ET_EXEC || elf_segment(elf, PT_INTERP))
        return true;
    int error = elf_dynamic_open(elf, &dynamic);
    return (!error || error == ELF_MISSING) && (dynamic.flags_1 & DF_1_PIE);
}

static int read_u32(const struct elf *elf, uint64_t offset, uint32_t *value)
{
    return elf_read(elf, offset, value, sizeof(*value));
}

static bool has_name(const struct elf_dynamic *dynamic, const Elf64_Sym *symbol, const char *name)
{
    char found[ELF_SYMBOL_NAME_MAX + 1];
    size_t size = strlen(name) + 1;
    if (size > sizeof(found) || symbol->st_name >= dynamic->strings_size ||
        size > dynamic->strings_size - symbol->st_name)
        return false;
    return !elf_read(dynamic->elf, dynamic->strings + symbol->st_name, found, size) &&
           !memcmp(found, name, size);
}

/* 0 if symbol number index is the defined one of that name, else ELF_MISSING. */
static int try_symbol(const struct elf_dynamic *dynamic, uint32_t index, const char *name,
                      struct elf_symbol *found)
{
    found->index = index;
    int error = elf_read(dynamic->elf, dynamic->symbols + (uint64_t)index * sizeof(found->symbol),
                         &found->symbol, sizeof(found->symbol));
    if (error)
        return error;
    bool defined = found->symbol.st_shndx != SHN_UNDEF;
    return defined && has_name(dynamic, &found->symbol, name) ? 0 : ELF_MISSING;
}

struct gnu_hash {
    uint32_t n_buckets;
    uint32_t first_symbol;
    uint64_t buckets; /* file offsets */
    uint64_t chains;
};

static int read_gnu_hash(const struct elf_dynamic *dynamic, struct gnu_hash *table)
{
    uint32_t header[4]; /* buckets, first symbol, bloom words, bloom shift */
    int error = elf_read(dynamic->elf, dynamic->gnu_hash, header, sizeof(header));
    if (error)
        return error;
    table->n_buckets = header[0];
    table->first_symbol = header[1];
    table->buckets = dynamic->gnu_hash + sizeof(header) + UINT64_C(8) * header[2];
    table->chains = table->buckets + UINT64_C(4) * header[0];
    return header[0] ? 0 : ELF_MISSING;
}

static int find_gnu(const struct elf_dynamic *dynamic, const char *name, struct elf_symbol *found)
{
    struct gnu_hash table;
    int error = read_gnu_hash(dynamic, &table);
    if (error)
        return error;
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (uint8_t)*c;
    uint32_t index;
    error = read_u32(dynamic->elf, table.buckets + UINT64_C(4) * (hash % table.n_buckets), &index);
    if (error)
        return error;
    if (index < table.first_symbol || !index)
        return ELF_MISSING;
    for (uint32_t step = 0; step < ELF_HASH_CHAIN_MAX; step++, index++) {
        uint32_t link;
        error = read_u32(dynamic->elf, table.chains + UINT64_C(4) * (index - table.first_symbol),
                         &link);
        if (error)
            return error;
        if ((link | 1) == (hash | 1) &&
            (error = try_symbol(dynamic, index, name, found)) != ELF_MISSING)
            return error;
        if ((link & 1) || index == UINT32_MAX)
            return ELF_MISSING;
    }
    return ELF_MISSING;
}

static int find_sysv(const struct elf_dynamic *dynamic, const char *name, struct elf_symbol *found)
{
    uint32_t header[2]; /* buckets, chains */
    int error = elf_read(dynamic->elf, dynamic->hash, header, sizeof(header));
    if (error || !header[0])
        return error ? error : ELF_MISSING;
    uint32_t hash = 0;
    for (const char *c = name; *c; c++) {
        hash = (hash << 4) + (uint8_t)*c;
        hash = (hash ^ ((hash & 0xf0000000) >> 24)) & 0x0fffffff;
    }
    uint64_t buckets = dynamic->hash + sizeof(header);
    uint64_t chains = buckets + UINT64_C(4) * header[0];
    uint32_t index;
    error = read_u32(dynamic->elf, buckets + UINT64_C(4) * (hash % header[0]), &index);
    for (uint32_t step = 0; !error && index && step < ELF_HASH_CHAIN_MAX; step++) {
        error = try_symbol(dynamic, index, name, found);
        if (error != ELF_MISSING)
            return error;
        error = read_u32(dynamic->elf, chains + UINT64_C(4) * index, &index);
    }
    return error ? error : ELF_MISSING;
}

int elf_dynamic_find(const struct elf_dynamic *dynamic, const char *name, struct elf_symbol *found)
{
    if (dynamic->gnu_hash)
        return find_gnu(dynamic, name, found);
    if (dynamic->hash)
        return find_sysv(dynamic, name, found);
    return ELF_MISSING;
}

/* The highest first symbol of all buckets; 0 = all are empty. */
static int last_bucket(const struct elf_dynamic *dynamic, const struct gnu_hash *table,
                       uint32_t *last)
{
    uint32_t indices[1024];
    uint64_t n =
        table->n_buckets < ELF_DYNAMIC_SYMBOLS_MAX ? table->n_buckets : ELF_DYNAMIC_SYMBOLS_MAX;
    *last = 0;
    for (uint64_t done = 0; done < n;) {
        uint64_t now = n - done < 1024 ? n - done : 1024;
        int error = elf_read(dynamic->elf, table->buckets + 4 * done, indices, 4 * now);
        if (error)
            return error;
        for (uint64_t i = 0; i < now; i++)
            *last = indices[i] > *last ? indices[i] : *last;
        done += now;
    }
    return 0;
}

/* The chain of the highest bucket ends with the last symbol. */
static int count_gnu(const struct elf_dynamic *dynamic, uint32_t *count)
{
    struct gnu_hash table;
    uint32_t last;
    int error = read_gnu_hash(dynamic, &table);
    error = error ? error : last_bucket(dynamic, &table, &last);
    if (error)
        return error;
    *count = table.first_symbol;
    if (last < table.first_symbol || !last)
        return 0;
    for (uint32_t step = 0; step < ELF_HASH_CHAIN_MAX && last < UINT32_MAX; step++, last++) {
        uint32_t link;
        error =
            read_u32(dynamic->elf, table.chains + UINT64_C(4) * (last - table.first_symbol), &link);
        if (error)
            return error;
        if (link & 1)
            break;
    }
    *count = last + 1;
    return 0;
}

int elf_dynamic_count(const struct elf_dynamic *dynamic, uint32_t *count)
{
    *count = 0;
    int error = ELF_MISSING;
    if (dynamic->hash)
        error = read_u32(dynamic->elf, dynamic->hash + 4, count);
    else if (dynamic->gnu_hash)
        error = count_gnu(dynamic, count);
    if (*count > ELF_DYNAMIC_SYMBOLS_MAX)
        *count = ELF_DYNAMIC_SYMBOLS_MAX;
    return error;
}

static int visit_table(const struct elf *elf, uint64_t offset, uint64_t size,
                       bool (*visit)(void *context, const Elf64_Rela *relocation), void *context)
{
    Elf64_Rela relocations[RELOCATIONS_AT_ONCE];
    uint64_t n = size / sizeof(*relocations);
    if (n > ELF_RELOCATIONS_MAX)
        n = ELF_RELOCATIONS_MAX;
    for (uint64_t done = 0; done < n;) {
        uint64_t now = n - done < RELOCATIONS_AT_ONCE ? n - done : RELOCATIONS_AT_ONCE;
        int error = elf_read(elf, offset + done * sizeof(*relocations), relocations,
                             now * sizeof(*relocations));
        if (error)
            return error;
        for (uint64_t i = 0; i < now; i++)
            if (visit(context, &relocations[i]))
                return 0;
        done += now;
    }
    return 0;
}

int elf_dynamic_relocations(const struct elf_dynamic *dynamic,
                            bool (*visit)(void *context, const Elf64_Rela *relocation),
                            void *context)
{
    int error = 0;
    if (dynamic->relocations)
        error = visit_table(dynamic->elf, dynamic->relocations, dynamic->relocations_size, visit,
                            context);
    if (!error && dynamic->plt_relocations)
        error = visit_table(dynamic->elf, dynamic->plt_relocations, dynamic->plt_relocations_size,
                            visit, context);
    return error;
}
