/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/ruby/ruby_code.h"
#include "agent-bpf/files/elf_symtab.h"
#include "agent-bpf/runtimes/runtime_evaluation.h"
#include <errno.h>

#define VERSION_MAX  16
#define WRITABLE_MAX (1u << 20) /* bytes of initialised variables, which are looked through */

struct opening {
    const struct elf *elf;
    struct elf_dynamic dynamic;
};

/* Exported, or in the symbol table. */
static bool symbol_find(const struct opening *opening, const char *name, unsigned type,
                        Elf64_Sym *symbol)
{
    struct elf_symbol found;
    if (elf_dynamic_find(&opening->dynamic, name, &found) &&
        elf_symtab_find(opening->elf, name, type, &found))
        return false;
    *symbol = found.symbol;
    return ELF64_ST_TYPE(symbol->st_info) == type;
}

/* Only an interpreter has it, and exports it. */
static bool version_read(const struct opening *opening, char text[VERSION_MAX])
{
    struct elf_symbol found;
    uint64_t at;
    memset(text, 0, VERSION_MAX);
    if (elf_dynamic_find(&opening->dynamic, "ruby_init", &found) ||
        elf_dynamic_find(&opening->dynamic, "ruby_version", &found))
        return false;
    uint64_t size = found.symbol.st_size < VERSION_MAX ? found.symbol.st_size : VERSION_MAX - 1;
    return elf_offset_of_address(opening->elf, found.symbol.st_value, &at) &&
           !elf_read(opening->elf, at, text, (size_t)size);
}

static bool evaluation_find(const struct opening *opening, const Elf64_Sym *run,
                            const Elf64_Sym *run_main, struct ruby_constants *constants)
{
    static const char *const names[] = {"rb_vm_exec", "vm_exec"};
    const struct elf *elf = opening->elf;
    struct runtime_range found = {0};
    const char *name = "";
    Elf64_Sym symbol;
    for (size_t i = 0; i < 2 && !found.start; i++) {
        if (!symbol_find(opening, names[i], STT_FUNC, &symbol))
            continue;
        found = (struct runtime_range){symbol.st_value, symbol.st_value + symbol.st_size};
        name = names[i];
    }
    if (!found.start && !ruby_code_common(elf, run, run_main, &found))
        return false;
    symbol = (Elf64_Sym){.st_value = found.start, .st_size = found.end - found.start};
    runtime_evaluation_find(elf, name, &symbol, constants->evaluation);
    struct runtime_range inner;
    if (ruby_code_largest(elf, &found, &inner)) {
        symbol = (Elf64_Sym){.st_value = inner.start, .st_size = inner.end - inner.start};
        runtime_evaluation_find(elf, "vm_exec_core", &symbol, constants->inner);
    }
    return true;
}

static bool current_find(const struct opening *opening, const Elf64_Sym *run,
                         struct ruby_constants *constants)
{
    Elf64_Sym symbol;
    if (constants->layout.version >= RUBY_VERSION(3, 0))
        return ruby_code_current(opening->elf, run, constants);
    constants->current = RUBY_CURRENT_GLOBAL;
    if (!symbol_find(opening, "ruby_current_execution_context_ptr", STT_OBJECT, &symbol))
        return false;
    constants->current_at = symbol.st_value;
    return true;
}

static void writable_find(const struct elf *elf, struct ruby_constants *constants)
{
    Elf64_Shdr section;
    if (elf_section_named(elf, ".data", &section) || section.sh_size > WRITABLE_MAX)
        return;
    constants->writable = section.sh_addr;
    constants->writable_end = section.sh_addr + section.sh_size;
}

int ruby_file_open(const struct elf *elf, struct ruby_constants *constants,
                   enum runtime_refusal *why)
{
    struct opening opening = {.elf = elf};
    char version[VERSION_MAX];
    Elf64_Sym run, run_main, symbol;
    *constants = (struct ruby_constants){0};
    *why = RUNTIME_REFUSAL_NONE;
    if (elf_dynamic_open(elf, &opening.dynamic) || !version_read(&opening, version))
        return -ENOENT;
    *why = RUNTIME_REFUSAL_UNKNOWN_LAYOUT;
    if (elf->machine != EM_X86_64 || !ruby_layout(version, &constants->layout))
        return -ENOTSUP;
    *why = RUNTIME_REFUSAL_STRIPPED;
    if (!symbol_find(&opening, "rb_iseq_eval", STT_FUNC, &run) ||
        !symbol_find(&opening, "rb_iseq_eval_main", STT_FUNC, &run_main) ||
        !evaluation_find(&opening, &run, &run_main, constants) ||
        !current_find(&opening, &run, constants))
        return -ENOTSUP;
    if (symbol_find(&opening, "rb_cString", STT_OBJECT, &symbol))
        constants->string_class = symbol.st_value;
    writable_find(elf, constants);
    *why = RUNTIME_REFUSAL_NONE;
    return 0;
}
