/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the dynamic linker wrote has precedence over the file: a slot in memory shows which
 * definition won and whether it is static or dynamic. Only for an executable without relocations
 * (Local Exec) the offset is computed. Offsets from a process decide what the sampler reads in that
 * process, through reads that cannot fault, so false ones only spoil that process's own samples.
 */
#include "agent-bpf/contexts/thread_local.h"
#include "agent-bpf/files/elf_dynamic.h"
#include "agent-bpf/files/elf_symtab.h"

#ifndef R_X86_64_TLSDESC
#define R_X86_64_TLSDESC 36
#endif
#define AARCH64_TLS_DTPMOD64 1028
#define AARCH64_TLS_TPREL64  1030
#define AARCH64_TLSDESC      1031

#define STATIC_ABOVE_MAX  0x400000 /* lowest address at which linkers place an executable */
#define STATIC_OFFSET_MAX (INT64_C(1) << 32)
#define MODULES_MAX       (1u << 20)
#define NO_INDEX          UINT32_MAX /* of a dynamic symbol */

struct finder {
    const struct elf *elf;
    struct thread_local_symbol *symbol;
    uint32_t index;
    bool blocks; /* slots of the block are looked for */
};

static bool slot_kind(uint16_t machine, uint32_t type, enum thread_local_slot_kind *kind)
{
    bool x86 = machine == EM_X86_64;
    if (type == (x86 ? R_X86_64_TLSDESC : AARCH64_TLSDESC))
        *kind = THREAD_LOCAL_SLOT_DESC;
    else if (type == (x86 ? R_X86_64_TPOFF64 : AARCH64_TLS_TPREL64))
        *kind = THREAD_LOCAL_SLOT_OFFSET;
    else if (type == (x86 ? R_X86_64_DTPMOD64 : AARCH64_TLS_DTPMOD64))
        *kind = THREAD_LOCAL_SLOT_MODULE;
    else
        return false;
    return true;
}

/* The word behind a module slot, which the link editor has filled: the offset in the segment. */
static bool has_offset_behind(const struct finder *finder, uint64_t vaddr)
{
    uint64_t at, offset;
    return elf_offset_of_address(finder->elf, vaddr + 8, &at) &&
           !elf_read(finder->elf, at, &offset, sizeof(offset)) && offset == finder->symbol->value;
}

/* The relocation names the symbol, or (bound at link time: protected, -Bsymbolic) has no symbol but
 * the symbol's place in the segment as addend, or behind it. */
static bool relocation_is_of_symbol(const struct finder *finder, const Elf64_Rela *relocation,
                                    enum thread_local_slot_kind kind)
{
    uint32_t index = (uint32_t)ELF64_R_SYM(relocation->r_info);
    if (index)
        return index == finder->index;
    if (kind == THREAD_LOCAL_SLOT_MODULE)
        return has_offset_behind(finder, relocation->r_offset);
    return relocation->r_addend >= 0 && (uint64_t)relocation->r_addend == finder->symbol->value;
}

/* Without symbol, addend and offset: the block of the file as a whole. Code reaches a variable by
 * it in the Local Dynamic model. */
static bool relocation_is_of_block(const struct finder *finder, const Elf64_Rela *relocation,
                                   enum thread_local_slot_kind *kind)
{
    uint64_t at, offset;
    if (ELF64_R_SYM(relocation->r_info) || relocation->r_addend)
        return false;
    if (*kind == THREAD_LOCAL_SLOT_DESC) {
        *kind = THREAD_LOCAL_SLOT_DESC_OF_BLOCK;
        return true;
    }
    if (*kind != THREAD_LOCAL_SLOT_MODULE ||
        !elf_offset_of_address(finder->elf, relocation->r_offset + 8, &at) ||
        elf_read(finder->elf, at, &offset, sizeof(offset)) || offset)
        return false;
    *kind = THREAD_LOCAL_SLOT_MODULE_OF_BLOCK;
    return true;
}

static bool finder_add_slot(void *context, const Elf64_Rela *relocation)
{
    struct finder *finder = context;
    struct thread_local_symbol *symbol = finder->symbol;
    enum thread_local_slot_kind kind;
    if (!slot_kind(symbol->machine, ELF64_R_TYPE(relocation->r_info), &kind) ||
        !(finder->blocks ? relocation_is_of_block(finder, relocation, &kind)
                         : relocation_is_of_symbol(finder, relocation, kind)))
        return false;
    symbol->slots[symbol->n_slots++] = (struct thread_local_slot){kind, relocation->r_offset};
    return symbol->n_slots == THREAD_LOCAL_SLOTS_MAX;
}

/* glibc's dynamic linker is a file of its own; musl's is the C library. */
int thread_local_libc(const struct elf *elf, enum thread_local_libc *libc)
{
    struct elf_dynamic dynamic;
    struct elf_symbol found;
    *libc = THREAD_LOCAL_LIBC_NONE;
    int error = elf_dynamic_open(elf, &dynamic);
    error = error ? error : elf_dynamic_find(&dynamic, "__tls_get_addr", &found);
    if (error)
        return error == ELF_MISSING ? 0 : error;
    error = elf_dynamic_find(&dynamic, "__libc_start_main", &found);
    if (error && error != ELF_MISSING)
        return error;
    *libc = error ? THREAD_LOCAL_LIBC_GLIBC : THREAD_LOCAL_LIBC_MUSL;
    return 0;
}

/* A variable that is not exported is in the symbol table, if the file is not stripped; no
 * relocation names it. */
static int find_symbol(const struct elf *elf, const struct elf_dynamic *dynamic, const char *name,
                       struct elf_symbol *found)
{
    int error = dynamic ? elf_dynamic_find(dynamic, name, found) : ELF_MISSING;
    if (error != ELF_MISSING)
        return error;
    error = elf_symtab_find(elf, name, STT_TLS, found);
    found->index = error ? 0 : NO_INDEX;
    return error;
}

int thread_local_find(const struct elf *elf, const char *name, struct thread_local_symbol *symbol)
{
    memset(symbol, 0, sizeof(*symbol));
    symbol->machine = elf->machine;
    struct elf_dynamic dynamic;
    struct elf_symbol found;
    int error = elf_dynamic_open(elf, &dynamic);
    if (!error || error == ELF_MISSING) /* static: then it has no relocations either */
        error = find_symbol(elf, error ? NULL : &dynamic, name, &found);
    if (error)
        return error == ELF_MISSING ? 0 : error;
    const Elf64_Phdr *segment = elf_segment(elf, PT_TLS);
    if (ELF64_ST_TYPE(found.symbol.st_info) != STT_TLS || !segment ||
        found.symbol.st_value > segment->p_memsz)
        return 0;
    symbol->defined = true;
    symbol->in_executable =
        elf->type == ET_EXEC || elf_segment(elf, PT_INTERP) || (dynamic.flags_1 & DF_1_PIE);
    symbol->value = found.symbol.st_value;
    symbol->segment_size = segment->p_memsz;
    symbol->segment_align = segment->p_align ? segment->p_align : 1;
    if (dynamic.plt_relocations &&
        elf_address_of_offset(elf, dynamic.plt_relocations, &symbol->lazy_start))
        symbol->lazy_end = symbol->lazy_start + dynamic.plt_relocations_size;
    struct finder finder = {elf, symbol, found.index, false};
    error = elf_dynamic_relocations(&dynamic, finder_add_slot, &finder);
    finder.blocks = true;
    return error || symbol->n_slots ? error
                                    : elf_dynamic_relocations(&dynamic, finder_add_slot, &finder);
}

static bool local_plausible(int64_t offset)
{
    return offset > -STATIC_OFFSET_MAX && offset < STATIC_OFFSET_MAX && offset;
}

static int locate_static(int64_t offset, struct context_variable *variable)
{
    if (!local_plausible(offset))
        return THREAD_LOCAL_UNRESOLVED;
    variable->thread_local_model = THREAD_LOCAL_STATIC;
    variable->offset = offset;
    return 0;
}

static int locate_dynamic(const struct thread_local_symbol *symbol,
                          const struct thread_local_process *process, uint64_t module,
                          uint64_t offset, struct context_variable *variable)
{
    if (!module || module > MODULES_MAX || offset >= (uint64_t)STATIC_OFFSET_MAX)
        return THREAD_LOCAL_UNRESOLVED;
    if (process->libc == THREAD_LOCAL_LIBC_NONE)
        return THREAD_LOCAL_UNKNOWN_LIBC;
    bool glibc = process->libc == THREAD_LOCAL_LIBC_GLIBC;
    bool x86 = symbol->machine == EM_X86_64;
    variable->thread_local_model = THREAD_LOCAL_DYNAMIC;
    variable->module = module;
    variable->offset = (int64_t)offset;
    variable->dtv_entry_size = glibc ? 16 : 8;
    variable->dtv_offset = x86 ? 8 : glibc ? 0 : -8;
    return 0;
}

/* Not relocated yet, or left for the first use: glibc before 2.34 does so with the descriptors
 * among DT_JMPREL where binding is lazy, and keeps the relocation's address as the argument until
 * then. Later ones, and musl, resolve descriptors while they load. Both lay out the argument of a
 * dynamic one as {module, offset, ...}: glibc's struct tlsdesc_dynamic_arg, musl's struct td_index.
 */
static bool is_lazy(const struct thread_local_symbol *symbol,
                    const struct thread_local_process *process,
                    const uint64_t function_and_argument[2])
{
    uint64_t argument = function_and_argument[1] - process->bias;
    return !function_and_argument[0] ||
           (argument >= symbol->lazy_start && argument < symbol->lazy_end);
}

/* An offset from the thread pointer, not a pointer: below it on x86-64; above it on aarch64, by no
 * more than the static blocks take. The heap of an executable without PIE begins below 4 GiB. */
static bool is_static_argument(const struct thread_local_symbol *symbol, int64_t argument)
{
    return argument < 0 || (symbol->machine == EM_AARCH64 && argument < STATIC_ABOVE_MAX);
}

static int locate_slot(const struct thread_local_symbol *symbol,
                       const struct thread_local_process *process,
                       const struct thread_local_slot *slot, struct context_variable *variable)
{
    uint64_t words[2] = {0};
    size_t size = slot->kind == THREAD_LOCAL_SLOT_OFFSET ? 8 : 16;
    bool of_block = slot->kind == THREAD_LOCAL_SLOT_DESC_OF_BLOCK ||
                    slot->kind == THREAD_LOCAL_SLOT_MODULE_OF_BLOCK;
    uint64_t in_block = of_block ? symbol->value : 0;
    int error = process->read(process->context, process->bias + slot->vaddr, words, size);
    if (error)
        return error;
    if (slot->kind == THREAD_LOCAL_SLOT_OFFSET)
        return locate_static((int64_t)words[0], variable);
    if (slot->kind == THREAD_LOCAL_SLOT_MODULE || slot->kind == THREAD_LOCAL_SLOT_MODULE_OF_BLOCK)
        return locate_dynamic(symbol, process, words[0], words[1] + in_block, variable);
    if (is_lazy(symbol, process, words))
        return THREAD_LOCAL_UNRESOLVED;
    if (is_static_argument(symbol, (int64_t)words[1]))
        return locate_static((int64_t)(words[1] + in_block), variable);
    error = process->read(process->context, words[1], words, sizeof(words));
    return error ? error : locate_dynamic(symbol, process, words[0], words[1] + in_block, variable);
}

static int locate_local_exec(const struct thread_local_symbol *symbol,
                             struct context_variable *variable)
{
    uint64_t align = symbol->segment_align;
    if ((align & (align - 1)) || align > (1u << 20) ||
        symbol->segment_size >= (uint64_t)STATIC_OFFSET_MAX)
        return THREAD_LOCAL_UNRESOLVED;
    if (symbol->machine == EM_AARCH64)
        return locate_static((int64_t)(((16 + align - 1) & ~(align - 1)) + symbol->value),
                             variable);
    uint64_t block = (symbol->segment_size + align - 1) & ~(align - 1);
    return locate_static((int64_t)symbol->value - (int64_t)block, variable);
}

int thread_local_locate(const struct thread_local_symbol *symbol,
                        const struct thread_local_process *process,
                        struct context_variable *variable)
{
    memset(variable, 0, sizeof(*variable));
    int error = THREAD_LOCAL_UNRESOLVED;
    for (uint32_t i = 0; i < symbol->n_slots; i++) {
        error = locate_slot(symbol, process, &symbol->slots[i], variable);
        if (!error)
            return 0;
    }
    if (!symbol->n_slots && process->is_executable && symbol->in_executable)
        return locate_local_exec(symbol, variable);
    return error;
}
