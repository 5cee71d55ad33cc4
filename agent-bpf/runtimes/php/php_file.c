/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/php/php_file.h"
#include "agent-bpf/files/elf_dynamic.h"
#include "agent-bpf/runtimes/runtime_evaluation.h"
#include <errno.h>

#define EVALUATION "execute_ex"

static bool symbol_find(const struct elf_dynamic *dynamic, const char *name, unsigned type,
                        Elf64_Sym *symbol)
{
    struct elf_symbol found;
    if (elf_dynamic_find(dynamic, name, &found))
        return false;
    *symbol = found.symbol;
    return ELF64_ST_TYPE(symbol->st_info) == type;
}

static bool object_find(const struct elf_dynamic *dynamic, const char *name, uint64_t *address)
{
    Elf64_Sym symbol;
    bool found = symbol_find(dynamic, name, STT_OBJECT, &symbol);
    *address = found ? symbol.st_value : 0;
    return found;
}

int php_file_open(const struct elf *elf, struct php_constants *constants, enum runtime_refusal *why)
{
    struct elf_dynamic dynamic;
    Elf64_Sym evaluation, thread_safe;
    *constants = (struct php_constants){0};
    *why = RUNTIME_REFUSAL_NONE;
    if (elf_dynamic_open(elf, &dynamic) ||
        !symbol_find(&dynamic, EVALUATION, STT_FUNC, &evaluation) ||
        !object_find(&dynamic, "module_registry", &constants->modules))
        return -ENOENT;
    *why = RUNTIME_REFUSAL_UNKNOWN_LAYOUT;
    if (!object_find(&dynamic, "executor_globals", &constants->globals)) {
        if (symbol_find(&dynamic, "executor_globals_offset", STT_OBJECT, &thread_safe))
            *why = RUNTIME_REFUSAL_THREAD_SAFE;
        return -ENOTSUP;
    }
    if (elf->machine != EM_X86_64)
        return -ENOTSUP;
    object_find(&dynamic, "zend_ce_generator", &constants->generator);
    runtime_evaluation_find(elf, EVALUATION, &evaluation, constants->evaluation);
    *why = RUNTIME_REFUSAL_NONE;
    return 0;
}
