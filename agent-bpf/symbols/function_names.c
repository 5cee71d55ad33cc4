/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go's own table comes first: it has lines too, and survives stripping; C code in a Go program has
 * symbols. A debug file is only searched for stripped executables: otherwise it adds no names of
 * functions.
 */
#include "agent-bpf/symbols/function_names.h"
#include "agent-bpf/files/debug_file.h"
#include "agent-bpf/symbols/demangle.h"
#include "agent-bpf/dwarf/dwarf_lines.h"
#include "agent-bpf/go/go_symbols.h"
#include "agent-bpf/symbols/symbols.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct function_names {
    struct go_symbols *go; /* NULL: it has none of Go */
    struct symbols *symbols;
    size_t debug_bytes;        /* of a debug file in memory */
    struct dwarf_lines *lines; /* NULL: they are not known */
};

_Static_assert(DWARF_FUNCTIONS_AT_MAX <= FUNCTION_NAMES_AT_MAX, "all have room");

static bool is_stripped(const struct elf *elf)
{
    Elf64_Shdr section;
    return elf_section_of_type(elf, SHT_SYMTAB, &section) != 0;
}

static int open_symbols(const struct elf *elf, uint32_t pid, struct function_names *names)
{
    struct debug_file debug;
    if (!is_stripped(elf) || debug_file_open(elf, pid, &debug))
        return symbols_open(elf, NULL, &names->symbols);
    names->debug_bytes = debug.memory_bytes;
    int error = symbols_open(elf, &debug.elf, &names->symbols);
    debug_file_close(&debug);
    return error;
}

int function_names_open(const struct elf *elf, uint32_t pid, struct function_names **out)
{
    struct function_names *names = calloc(1, sizeof(*names));
    if (!names)
        return -ENOMEM;
    int error = open_symbols(elf, pid, names);
    if (!error && go_symbols_open(elf, &names->go) == -ENOMEM)
        error = -ENOMEM;
    if (error) {
        function_names_close(names);
        return error;
    }
    *out = names;
    return 0;
}

void function_names_close(struct function_names *names)
{
    if (!names)
        return;
    go_symbols_close(names->go);
    symbols_close(names->symbols);
    dwarf_lines_close(names->lines);
    free(names);
}

size_t function_names_bytes(const struct function_names *names)
{
    return sizeof(*names) + names->debug_bytes + symbols_bytes(names->symbols) +
           (names->lines ? dwarf_lines_bytes(names->lines) : 0);
}

void function_names_trim(struct function_names *names, size_t bytes)
{
    if (names->lines)
        dwarf_lines_trim(names->lines, bytes);
}

/* A mangled name that was cut does not identify a function. */
static void take_symbol(const char *symbol, struct function_name *name)
{
    char shown[FUNCTION_NAME_MAX];
    struct bytes raw = BYTES_STR(symbol);
    if (!demangle(symbol, shown, sizeof(shown))) {
        bytes_sanitize(raw, name->function, sizeof(name->function));
        return;
    }
    bytes_sanitize(BYTES_STR(shown), name->function, sizeof(name->function));
    if (raw.len < sizeof(name->system_name))
        memcpy(name->system_name, symbol, raw.len + 1);
}

int function_names_find(const struct function_names *names, uint64_t vaddr,
                        struct function_name *name)
{
    char symbol[SYMBOLS_NAME_MAX];
    if (names->go && !go_symbols_find(names->go, vaddr, name))
        return 0;
    memset(name, 0, sizeof(*name));
    int error = symbols_find(names->symbols, vaddr, symbol);
    if (!error)
        take_symbol(symbol, name);
    return error;
}

/* Lines */

static int open_lines(struct function_names *names, const struct elf *executable,
                      const struct elf *debug, uint32_t pid)
{
    struct elf shared;
    bool has_shared = !debug_file_shared(debug, pid, &shared);
    int error = dwarf_lines_open(executable, debug, has_shared ? &shared : NULL, &names->lines);
    if (has_shared)
        close(shared.fd);
    return error;
}

int function_names_add_lines(struct function_names *names, const struct elf *elf, uint32_t pid)
{
    struct elf debug;
    int error = open_lines(names, elf, elf, pid);
    if (error == ELF_MISSING && !debug_file_separate(elf, pid, &debug)) {
        error = open_lines(names, elf, &debug, pid);
        close(debug.fd);
    }
    return error == ELF_MISSING ? 0 : error;
}

static void take_function(const struct dwarf_function *function, struct function_name *name)
{
    memset(name, 0, sizeof(*name));
    take_symbol(function->name, name);
    bytes_sanitize(BYTES_STR(function->file), name->file, sizeof(name->file));
    name->line = function->line;
}

/* The symbol table distinguishes parts and clones of a function (.cold, .part); DWARF does not. */
static void take_compiled(const struct function_names *names, uint64_t vaddr,
                          const struct dwarf_function *function, struct function_name *name)
{
    struct function_name symbol;
    take_function(function, name);
    if (function_names_find(names, vaddr, &symbol))
        return;
    if (name->line || !symbol.file[0]) {
        memcpy(symbol.file, name->file, sizeof(symbol.file));
        symbol.line = name->line;
    }
    *name = symbol;
}

size_t function_names_all(struct function_names *names, uint64_t vaddr, uint64_t deadline_ns,
                          struct function_name found[FUNCTION_NAMES_AT_MAX])
{
    struct dwarf_function functions[DWARF_FUNCTIONS_AT_MAX];
    size_t n = names->lines ? dwarf_lines_find(names->lines, vaddr, deadline_ns, functions) : 0;
    if (!n)
        return !function_names_find(names, vaddr, &found[0]);
    for (size_t i = 0; i + 1 < n; i++)
        take_function(&functions[i], &found[i]);
    take_compiled(names, vaddr, &functions[n - 1], &found[n - 1]);
    return n - !found[n - 1].function[0];
}
