/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A debug file is only looked for when the executable was stripped: else it has nothing to add to
 * the names of functions.
 */
#include "agent-bpf/function_names.h"
#include "agent-bpf/debug_file.h"
#include "agent-bpf/symbols.h"
#include <errno.h>
#include <stdlib.h>

struct function_names {
    struct symbols *symbols;
    size_t debug_bytes; /* of a debug file in memory */
};

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
    symbols_close(names->symbols);
    free(names);
}

size_t function_names_bytes(const struct function_names *names)
{
    return sizeof(*names) + names->debug_bytes + symbols_bytes(names->symbols);
}

int function_names_find(const struct function_names *names, uint64_t vaddr,
                        struct function_name *name)
{
    char symbol[SYMBOLS_NAME_MAX];
    memset(name, 0, sizeof(*name));
    int error = symbols_find(names->symbols, vaddr, symbol);
    if (!error)
        bytes_sanitize(BYTES_STR(symbol), name->function, sizeof(name->function));
    return error;
}
