/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions before 3.11 do not export their number: it follows from the functions that they export
 * and their predecessors did not.
 */
#include "agent-bpf/runtimes/python/python_file.h"
#include "agent-bpf/files/elf_dynamic.h"
#include "agent-bpf/files/elf_symtab.h"
#include "agent-bpf/runtimes/python/python_tasks.h"
#include "agent-bpf/runtimes/runtime_evaluation.h"
#include <errno.h>

#define RUNTIME_SECTION ".PyRuntime"
#define CURRENT_CODE    64 /* bytes that are looked at of a function that reads the variable */
#define RELEASED        0xf0
#define EVALUATION      "_PyEval_EvalFrameDefault"

struct opening {
    const struct elf *elf;
    struct elf_dynamic dynamic;
    bool has_dynamic;
};

/* Exported, or in the symbol table. */
static bool symbol_find(const struct opening *opening, const char *name, unsigned type,
                        Elf64_Sym *symbol)
{
    struct elf_symbol found;
    if (!opening->has_dynamic || elf_dynamic_find(&opening->dynamic, name, &found))
        if (elf_symtab_find(opening->elf, name, type, &found))
            return false;
    *symbol = found.symbol;
    return ELF64_ST_TYPE(symbol->st_info) == type;
}

static bool exports(const struct opening *opening, const char *name)
{
    struct elf_symbol found;
    return opening->has_dynamic && !elf_dynamic_find(&opening->dynamic, name, &found);
}

/* What the file has at an address: not what a relocation or the program writes there. */
static bool image_read(const struct elf *elf, uint64_t address, void *out, size_t size)
{
    uint64_t at;
    return elf_offset_of_address(elf, address, &at) && !elf_read(elf, at, out, size);
}

static bool runtime_find_address(const struct opening *opening, uint64_t *address)
{
    Elf64_Sym symbol;
    Elf64_Shdr section;
    if (symbol_find(opening, "_PyRuntime", STT_OBJECT, &symbol)) {
        *address = symbol.st_value;
        return true;
    }
    if (elf_section_named(opening->elf, RUNTIME_SECTION, &section) || !section.sh_addr)
        return false;
    *address = section.sh_addr;
    return true;
}

/* 0: not known. */
static uint32_t version_of(const struct opening *opening, struct bytes offsets)
{
    static const struct {
        const char *since;
        uint32_t minor;
    } functions[] = {
        {"PyModule_AddObjectRef", 10}, {"PyFrame_GetBack", 9}, {"PyCode_NewWithPosOnlyArgs", 8}};
    Elf64_Sym symbol;
    uint32_t version = 0;
    if (symbol_find(opening, "Py_Version", STT_OBJECT, &symbol) &&
        image_read(opening->elf, symbol.st_value, &version, sizeof(version)))
        return version;
    version = python_layout_version(offsets);
    if (version || exports(opening, "PyUnstable_Code_New")) /* 3.12 and later have a number */
        return version;
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
        if (exports(opening, functions[i].since))
            return PYTHON_VERSION(3, functions[i].minor) | RELEASED;
    return 0;
}

/* The variable's place, by the instructions that compilers emit for its address (x86-64 psABI,
 * "Thread-Local Storage"). at: address of the code. */
static bool current_decode(const uint8_t *code, size_t size, uint64_t at,
                           struct python_constants *constants)
{
    static const uint8_t general[] = {0x66, 0x48, 0x8d, 0x3d};     /* lea x@tlsgd(%rip), %rdi */
    static const uint8_t local[] = {0x64, 0x48, 0x8b, 0x04, 0x25}; /* mov %fs:x@tpoff, %rax */
    static const uint8_t initial[] = {0x48, 0x8b, 0x05};           /* mov x@gottpoff(%rip), %rax */
    static const uint8_t through[] = {0x64, 0x48, 0x8b};           /* mov %fs:(%rax), ... */
    int32_t value;
    for (size_t i = 0; i + 12 <= size; i++) {
        if (!memcmp(code + i, local, sizeof(local))) {
            memcpy(&value, code + i + sizeof(local), sizeof(value));
            constants->current = PYTHON_CURRENT_FIXED;
            constants->current_offset = value;
            return true;
        }
        bool is_general = !memcmp(code + i, general, sizeof(general));
        if (!is_general && (memcmp(code + i, initial, sizeof(initial)) ||
                            memcmp(code + i + 7, through, sizeof(through))))
            continue;
        size_t end = i + (is_general ? sizeof(general) : sizeof(initial)) + sizeof(value);
        memcpy(&value, code + end - sizeof(value), sizeof(value));
        constants->current = is_general ? PYTHON_CURRENT_MODULE : PYTHON_CURRENT_OFFSET;
        constants->current_at = at + end + (uint64_t)(int64_t)value;
        return true;
    }
    return false;
}

static void current_find(const struct opening *opening, struct python_constants *constants)
{
    static const char *const names[] = {"_PyThreadState_GetCurrent", "PyThreadState_GetUnchecked",
                                        "_PyThreadState_UncheckedGet", "PyThreadState_Get"};
    if (PYTHON_MINOR(constants->layout.version) < 12)
        return;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        uint8_t code[CURRENT_CODE];
        Elf64_Sym symbol;
        if (!symbol_find(opening, names[i], STT_FUNC, &symbol))
            continue;
        size_t size = symbol.st_size < sizeof(code) ? (size_t)symbol.st_size : sizeof(code);
        if (image_read(opening->elf, symbol.st_value, code, size) &&
            current_decode(code, size, symbol.st_value, constants))
            return;
    }
}

static void types_find(const struct opening *opening, struct python_constants *constants)
{
    const struct {
        const char *name;
        uint64_t *address;
    } types[] = {{"PyCode_Type", &constants->code_type},
                 {"PyUnicode_Type", &constants->text_type},
                 {"PyLong_Type", &constants->number_type}};
    Elf64_Sym symbol;
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (symbol_find(opening, types[i].name, STT_OBJECT, &symbol))
            *types[i].address = symbol.st_value;
}

int python_file_open(const struct elf *elf, struct python_constants *constants,
                     enum runtime_refusal *why)
{
    struct opening opening = {.elf = elf};
    uint8_t image[PYTHON_DEBUG_OFFSETS_BYTES];
    Elf64_Sym symbol;
    *constants = (struct python_constants){0};
    *why = RUNTIME_REFUSAL_NONE;
    opening.has_dynamic = !elf_dynamic_open(elf, &opening.dynamic);
    if (!runtime_find_address(&opening, &constants->runtime))
        return -ENOENT;
    bool has_image = image_read(elf, constants->runtime, image, sizeof(image));
    struct bytes offsets = BYTES(image, has_image ? sizeof(image) : 0);
    uint32_t version = version_of(&opening, offsets);
    *why = version ? RUNTIME_REFUSAL_UNKNOWN_LAYOUT : RUNTIME_REFUSAL_STRIPPED;
    if (elf->machine != EM_X86_64 || !python_layout(version, offsets, &constants->layout))
        return -ENOTSUP;
    types_find(&opening, constants);
    *why = RUNTIME_REFUSAL_STRIPPED;
    if (!symbol_find(&opening, EVALUATION, STT_FUNC, &symbol))
        return -ENOTSUP;
    runtime_evaluation_find(elf, EVALUATION, &symbol, constants->evaluation);
    current_find(&opening, constants);
    python_tasks_open(elf, &constants->tasks);
    *why = RUNTIME_REFUSAL_NONE;
    return 0;
}
