/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of several symbols at one address the most telling is kept: one with a size before one without,
 * global before weak before local. A symbol without a size, as hand-written assembly has them,
 * reaches up to the next one or the end of its section: behind _init begins the PLT.
 */
#include "agent-bpf/symbols/symbols.h"
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/files/elf_dynamic.h"
#include "base/stats.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

STAT_LOSS(left_out, "spanprof_symbols_left_out_total",
          "Function symbols that are ignored, because their executable has too many.");

#define AT_ONCE           2048 /* symbols read in one go */
#define SIZE_MAX_KEPT     ((UINT32_C(1) << 28) - 1)
#define UNSIZED_BYTES_MAX (64 * 1024)
#define NESTING_MAX       32 /* symbols looked back at for one that covers the address */

struct symbol {
    uint64_t address;
    uint32_t size : 28; /* without one: how far it may reach */
    uint32_t rank : 3;  /* the higher the better */
    uint32_t file : 1;  /* enum which_file */
    uint32_t name;      /* offset in the string table */
};

_Static_assert(sizeof(struct symbol) == 16, "the memory budget counts on it");

enum which_file { FILE_DEBUG, FILE_OWN, N_FILES };

struct symbols {
    struct symbols_file {
        int fd; /* -1: there is no such file */
        uint64_t size;
        uint64_t strings;
        uint64_t strings_size;
    } files[N_FILES];
    struct symbol *table;
    size_t n;
    size_t cap;
};

struct symbol_source { /* where in the file they are */
    uint64_t offset;
    uint64_t count;
    uint64_t strings;
    uint64_t strings_size;
};

#define RANK_SIZED 4u

static uint8_t rank_of(const Elf64_Sym *symbol)
{
    uint8_t bind = ELF64_ST_BIND(symbol->st_info);
    uint8_t rank = bind == STB_GLOBAL ? 2 : bind == STB_WEAK ? 1 : 0;
    return (uint8_t)(rank + (symbol->st_size ? RANK_SIZED : 0));
}

struct section { /* read last */
    uint32_t index;
    uint64_t start;
    uint64_t size;
};

static uint64_t reach_of(const struct elf *elf, const Elf64_Sym *symbol, struct section *section)
{
    Elf64_Shdr header;
    if (symbol->st_shndx != section->index) {
        *section = (struct section){.index = symbol->st_shndx};
        if (elf_section(elf, symbol->st_shndx, &header) == 0)
            *section = (struct section){symbol->st_shndx, header.sh_addr, header.sh_size};
    }
    uint64_t into = symbol->st_value - section->start;
    uint64_t left = into < section->size ? section->size - into : UNSIZED_BYTES_MAX;
    return left < UNSIZED_BYTES_MAX ? left : UNSIZED_BYTES_MAX;
}

static int symbols_add(struct symbols *symbols, enum which_file file, const struct elf *elf,
                       const Elf64_Sym *symbol, struct section *section)
{
    uint8_t type = ELF64_ST_TYPE(symbol->st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF ||
        !symbol->st_value || symbol->st_name >= symbols->files[file].strings_size)
        return 0;
    if (symbols->n == symbols->cap) {
        size_t cap = symbols->cap ? symbols->cap * 2 : 256;
        if (symbols->n >= SYMBOLS_MAX) {
            stat_add(&left_out, 1);
            return 0;
        }
        struct symbol *table = realloc(symbols->table, cap * sizeof(*table));
        if (!table)
            return -ENOMEM;
        symbols->table = table;
        symbols->cap = cap;
    }
    uint64_t size = symbol->st_size ? symbol->st_size : reach_of(elf, symbol, section);
    size = size < SIZE_MAX_KEPT ? size : SIZE_MAX_KEPT;
    symbols->table[symbols->n++] = (struct symbol){
        .address = symbol->st_value,
        .size = (uint32_t)size & SIZE_MAX_KEPT,
        .rank = rank_of(symbol) & 7u,
        .file = file & 1u,
        .name = symbol->st_name,
    };
    return 0;
}

static int read_source(struct symbols *symbols, enum which_file file, const struct elf *elf,
                       const struct symbol_source *source)
{
    symbols->files[file].strings = source->strings;
    symbols->files[file].strings_size = source->strings_size;
    struct section section = {0};
    Elf64_Sym *read = malloc(AT_ONCE * sizeof(*read));
    int error = read ? 0 : -ENOMEM;
    uint64_t limit = source->offset < elf->size ? (elf->size - source->offset) / sizeof(*read) : 0;
    uint64_t count = source->count < limit ? source->count : limit;
    for (uint64_t done = 0; done < count && !error;) {
        uint64_t now = count - done < AT_ONCE ? count - done : AT_ONCE;
        error = elf_read(elf, source->offset + done * sizeof(*read), read, now * sizeof(*read));
        for (uint64_t i = 0; i < now && !error; i++)
            error = symbols_add(symbols, file, elf, &read[i], &section);
        done += now;
        heartbeat();
    }
    free(read);
    return error;
}

static int source_of_section(const struct elf *elf, uint32_t type, struct symbol_source *source)
{
    Elf64_Shdr section, strings;
    int error = elf_section_of_type(elf, type, &section);
    error = error ? error : elf_section(elf, section.sh_link, &strings);
    if (error)
        return error;
    if (section.sh_entsize != sizeof(Elf64_Sym) || section.sh_offset > elf->size ||
        strings.sh_offset > elf->size)
        return ELF_MALFORMED;
    *source = (struct symbol_source){
        .offset = section.sh_offset,
        .count = section.sh_size / sizeof(Elf64_Sym),
        .strings = strings.sh_offset,
        .strings_size = strings.sh_size,
    };
    return 0;
}

static int source_of_dynamic(const struct elf *elf, struct symbol_source *source)
{
    struct elf_dynamic dynamic;
    uint32_t count;
    int error = elf_dynamic_open(elf, &dynamic);
    error = error ? error : elf_dynamic_count(&dynamic, &count);
    if (error)
        return error;
    *source = (struct symbol_source){
        .offset = dynamic.symbols,
        .count = count,
        .strings = dynamic.strings,
        .strings_size = dynamic.strings_size,
    };
    return 0;
}

static int by_address_then_rank(const void *a, const void *b)
{
    const struct symbol *left = a, *right = b;
    if (left->address != right->address)
        return left->address < right->address ? -1 : 1;
    if (left->rank != right->rank)
        return left->rank > right->rank ? -1 : 1;
    if (left->file != right->file)
        return left->file < right->file ? -1 : 1;
    return left->name < right->name ? -1 : left->name > right->name;
}

static void sort_and_thin(struct symbols *symbols)
{
    if (!symbols->n)
        return;
    qsort(symbols->table, symbols->n, sizeof(*symbols->table), by_address_then_rank);
    size_t kept = 1;
    for (size_t i = 1; i < symbols->n; i++)
        if (symbols->table[i].address != symbols->table[kept - 1].address)
            symbols->table[kept++] = symbols->table[i];
    symbols->n = kept;
    struct symbol *table = realloc(symbols->table, kept * sizeof(*table));
    if (table) {
        symbols->table = table;
        symbols->cap = kept;
    }
}

/* Sources from the richest; a malformed one is as good as none. */
static int load_own(struct symbols *symbols, const struct elf *elf)
{
    struct symbol_source source;
    size_t before = symbols->n;
    int error = 0;
    for (int i = 0; i < 3 && symbols->n == before; i++) {
        error = i == 0   ? source_of_section(elf, SHT_SYMTAB, &source)
                : i == 1 ? source_of_section(elf, SHT_DYNSYM, &source)
                         : source_of_dynamic(elf, &source);
        error = error ? error : read_source(symbols, FILE_OWN, elf, &source);
        if (error < 0)
            return error;
    }
    return symbols->n || error == ELF_MISSING ? 0 : error;
}

static int load_debug(struct symbols *symbols, const struct elf *elf)
{
    struct symbol_source source;
    int error = source_of_section(elf, SHT_SYMTAB, &source);
    error = error ? error : read_source(symbols, FILE_DEBUG, elf, &source);
    return error < 0 ? error : 0;
}

static int symbols_file_hold(struct symbols_file *file, const struct elf *elf)
{
    file->size = elf->size;
    file->fd = fcntl(elf->fd, F_DUPFD_CLOEXEC, 0);
    return file->fd < 0 ? -errno : 0;
}

int symbols_open(const struct elf *elf, const struct elf *debug, struct symbols **out)
{
    struct symbols *symbols = calloc(1, sizeof(*symbols));
    if (!symbols)
        return -ENOMEM;
    symbols->files[FILE_DEBUG].fd = symbols->files[FILE_OWN].fd = -1;
    int error = symbols_file_hold(&symbols->files[FILE_OWN], elf);
    if (!error && debug)
        error = symbols_file_hold(&symbols->files[FILE_DEBUG], debug);
    if (!error && debug)
        error = load_debug(symbols, debug);
    error = error ? error : load_own(symbols, elf);
    if (error) {
        symbols_close(symbols);
        return error;
    }
    sort_and_thin(symbols);
    *out = symbols;
    return 0;
}

void symbols_close(struct symbols *symbols)
{
    if (!symbols)
        return;
    for (int i = 0; i < N_FILES; i++)
        if (symbols->files[i].fd >= 0)
            close(symbols->files[i].fd);
    free(symbols->table);
    free(symbols);
}

size_t symbols_bytes(const struct symbols *symbols)
{
    return sizeof(*symbols) + symbols->cap * sizeof(*symbols->table);
}

size_t symbols_count(const struct symbols *symbols)
{
    return symbols->n;
}

static int read_name(const struct symbols *symbols, const struct symbol *symbol, char *name)
{
    uint8_t raw[SYMBOLS_NAME_MAX];
    const struct symbols_file *file = &symbols->files[symbol->file];
    uint64_t left = file->strings_size - symbol->name;
    size_t want = left < sizeof(raw) ? (size_t)left : sizeof(raw);
    uint64_t offset = file->strings + symbol->name;
    if (offset < file->strings || offset >= file->size)
        return ELF_MISSING;
    ssize_t n = pread(file->fd, raw, want, (off_t)offset);
    if (n <= 0)
        return ELF_MISSING;
    size_t len = strnlen((const char *)raw, (size_t)n);
    return bytes_sanitize(BYTES(raw, len), name, SYMBOLS_NAME_MAX) ? 0 : ELF_MISSING;
}

static size_t first_above(const struct symbols *symbols, uint64_t vaddr)
{
    size_t low = 0, high = symbols->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (symbols->table[middle].address <= vaddr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int symbols_find(const struct symbols *symbols, uint64_t vaddr, char name[SYMBOLS_NAME_MAX])
{
    size_t end = first_above(symbols, vaddr);
    for (size_t back = 1; back <= NESTING_MAX && back <= end; back++) {
        const struct symbol *symbol = &symbols->table[end - back];
        uint64_t into = vaddr - symbol->address;
        if (into < symbol->size && (symbol->rank & RANK_SIZED || back == 1))
            return read_name(symbols, symbol, name);
    }
    return ELF_MISSING;
}
