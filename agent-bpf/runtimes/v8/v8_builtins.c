/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the symbol table for the symbols by name: their types and sizes leave few names to
 * be read. A second pass for the builtins' own symbols, now that the range of them is known.
 */
#include "agent-bpf/runtimes/v8/v8_builtins.h"
#include "agent-bpf/files/elf_symtab.h"
#include <errno.h>

#define SYMBOLS_AT_ONCE    512
#define NAME_BYTES         64
#define BUILTINS_BYTES_MAX (64u << 20)
#define HANDLER            "Handler"
#define BUILTIN            "Builtins_"
#define FIRST_HANDLER      "WideHandler" /* of bytecode 0; builtins of such names may lie in front */
#define BLOB_CODE_DATA     "v8_Default_embedded_blob_code_data_"
#define BLOB_CODE          "v8_Default_embedded_blob_code_"
#define BLOB_CODE_SIZE     "v8_Default_embedded_blob_code_size_"
#define BYTECODE_SIZES     "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE"
#define GET_CODE           "_ZN2v88internal7Isolate23CurrentEmbeddedBlobCodeEv"
#define GET_CODE_SIZE      "_ZN2v88internal7Isolate27CurrentEmbeddedBlobCodeSizeEv"

struct scan {
    const struct elf *elf;
    struct v8_file *file;
    Elf64_Shdr symbols;
    Elf64_Shdr strings;
    uint64_t code_data, code, code_size; /* addresses of the symbols; 0: not found */
    Elf64_Sym bytecode_sizes;            /* st_value 0: not found */
    uint64_t handlers, handlers_end;
};

static bool symbol_name(const struct scan *scan, const Elf64_Sym *symbol, char name[NAME_BYTES])
{
    uint64_t at, left;
    if (symbol->st_name >= scan->strings.sh_size ||
        __builtin_add_overflow(scan->strings.sh_offset, symbol->st_name, &at))
        return false;
    left = scan->strings.sh_size - symbol->st_name;
    size_t size = left < NAME_BYTES ? (size_t)left : NAME_BYTES;
    memset(name, 0, NAME_BYTES);
    if (elf_read(scan->elf, at, name, size))
        return false;
    name[NAME_BYTES - 1] = '\0';
    return true;
}

/* The builtins begin at a symbol without a size. */
static void take_named(struct scan *scan, const Elf64_Sym *symbol)
{
    char name[NAME_BYTES];
    bool is_table = symbol->st_size % 3 == 0 && symbol->st_size > 300 &&
                    symbol->st_size <= 3 * V8_BYTECODES_MAX;
    if (symbol->st_shndx == SHN_UNDEF || (symbol->st_size && !is_table) ||
        !symbol_name(scan, symbol, name))
        return;
    if (!strcmp(name, BYTECODE_SIZES))
        scan->bytecode_sizes = *symbol;
    else if (!strcmp(name, BLOB_CODE_DATA))
        scan->code_data = symbol->st_value;
    else if (!strcmp(name, BLOB_CODE))
        scan->code = symbol->st_value;
    else if (!strcmp(name, BLOB_CODE_SIZE))
        scan->code_size = symbol->st_value;
}

static void take_handler(struct scan *scan, const Elf64_Sym *symbol)
{
    char name[NAME_BYTES];
    uint64_t start = scan->file->builtins, end = start + scan->file->builtins_bytes;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_value < start ||
        symbol->st_value >= end || symbol->st_size > end - symbol->st_value ||
        !symbol_name(scan, symbol, name))
        return;
    size_t length = strlen(name);
    if (strncmp(name, BUILTIN, strlen(BUILTIN)) || length < strlen(BUILTIN HANDLER) ||
        strcmp(name + length - strlen(HANDLER), HANDLER))
        return;
    uint64_t symbol_end = symbol->st_value + symbol->st_size;
    if (!strcmp(name, BUILTIN FIRST_HANDLER))
        scan->handlers = symbol->st_value;
    if (symbol_end > scan->handlers_end)
        scan->handlers_end = symbol_end;
}

static int scan_symbols(struct scan *scan, void (*take)(struct scan *, const Elf64_Sym *))
{
    Elf64_Sym symbols[SYMBOLS_AT_ONCE];
    uint64_t n = scan->symbols.sh_size / sizeof(*symbols);
    if (n > ELF_SYMTAB_SYMBOLS_MAX)
        n = ELF_SYMTAB_SYMBOLS_MAX;
    for (uint64_t done = 0; done < n;) {
        uint64_t now = n - done < SYMBOLS_AT_ONCE ? n - done : SYMBOLS_AT_ONCE, at;
        if (__builtin_add_overflow(scan->symbols.sh_offset, done * sizeof(*symbols), &at))
            return ELF_MALFORMED;
        int error = elf_read(scan->elf, at, symbols, now * sizeof(*symbols));
        if (error)
            return error;
        for (uint64_t i = 0; i < now; i++)
            take(scan, &symbols[i]);
        done += now;
    }
    return 0;
}

static int read_at(const struct elf *elf, uint64_t vaddr, void *out, size_t size)
{
    uint64_t offset;
    return elf_offset_of_address(elf, vaddr, &offset) ? elf_read(elf, offset, out, size)
                                                      : ELF_MISSING;
}

static bool is_code(const struct elf *elf, uint64_t start, uint64_t size)
{
    uint64_t offset, end;
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X && start >= segment->p_vaddr &&
            !__builtin_add_overflow(start, size, &end) &&
            end - segment->p_vaddr <= segment->p_filesz)
            return elf_offset_of_address(elf, start, &offset);
    }
    return false;
}

/* In older versions the name without "data" is that of a pointer. */
static void use_builtins(struct scan *scan)
{
    struct v8_file *file = scan->file;
    uint64_t start = scan->code_data ? scan->code_data : scan->code;
    uint32_t size;
    if (!start || !scan->code_size || read_at(scan->elf, scan->code_size, &size, sizeof(size)) ||
        !size || size > BUILTINS_BYTES_MAX || !is_code(scan->elf, start, size))
        return;
    file->builtins = start;
    file->builtins_bytes = size;
    if (!scan_symbols(scan, take_handler) && scan->handlers &&
        scan->handlers_end > scan->handlers) {
        file->process.handlers = (uint32_t)(scan->handlers - start);
        file->process.handlers_end = (uint32_t)(scan->handlers_end - start);
    }
}

static void use_bytecode_sizes(struct scan *scan, const Elf64_Sym *table)
{
    uint8_t sizes[3 * V8_BYTECODES_MAX];
    size_t n = (size_t)table->st_size / 3;
    if (!n || n > V8_BYTECODES_MAX || table->st_size % 3 ||
        read_at(scan->elf, table->st_value, sizes, 3 * n))
        return;
    for (size_t scale = 0; scale < 3; scale++)
        memcpy(scan->file->bytecode_sizes[scale], sizes + scale * n, n);
    scan->file->n_bytecodes = (uint16_t)n;
}

/* A function that returns a variable: [push rbp; mov rbp, rsp;] mov rax or eax, [rip + distance].
 * 0: it is another. */
static uint64_t variable_of(const struct elf_dynamic *dynamic, const char *name, bool wide)
{
    struct elf_symbol found;
    uint8_t code[11];
    int32_t distance;
    size_t at = 0;
    if (elf_dynamic_find(dynamic, name, &found) ||
        read_at(dynamic->elf, found.symbol.st_value, code, sizeof(code)))
        return 0;
    if (!memcmp(code, "\x55\x48\x89\xe5", 4))
        at = 4;
    if (wide && code[at++] != 0x48)
        return 0;
    if (code[at] != 0x8b || code[at + 1] != 0x05 || at + 6 > sizeof(code))
        return 0;
    memcpy(&distance, code + at + 2, sizeof(distance));
    return found.symbol.st_value + at + 6 + (uint64_t)(int64_t)distance;
}

int v8_builtins_find(const struct elf_dynamic *dynamic, struct v8_file *file)
{
    struct scan scan = {.elf = dynamic->elf, .file = file};
    struct elf_symbol sizes;
    if (!elf_section_of_type(scan.elf, SHT_SYMTAB, &scan.symbols) &&
        !elf_section(scan.elf, scan.symbols.sh_link, &scan.strings)) {
        int error = scan_symbols(&scan, take_named);
        if (error < 0)
            return error;
        use_builtins(&scan);
        use_bytecode_sizes(&scan, &scan.bytecode_sizes);
    }
    if (!file->n_bytecodes && !elf_dynamic_find(dynamic, BYTECODE_SIZES, &sizes))
        use_bytecode_sizes(&scan, &sizes.symbol);
    if (!file->builtins) {
        file->builtins_variable = variable_of(dynamic, GET_CODE, true);
        file->builtins_bytes_variable = variable_of(dynamic, GET_CODE_SIZE, false);
    }
    return 0;
}
