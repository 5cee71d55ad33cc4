/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _asyncio (eager tasks, 3.12 and 3.13) and uvloop enter contexts by PyContext_Enter() and
 * PyContext_Exit(). In each loaded library that imports them, the slot of the import is pointed at
 * a function that calls the original and then publishes. Slots that the dynamic linker has made
 * read-only are read-only again afterwards.
 */
#include "context/python/native.h"
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#define GLOB_DAT  R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#define GLOB_DAT  R_AARCH64_GLOB_DAT
#else
#error "no relocations of this architecture are known"
#endif

/* Exported by every CPython since 3.7, and not in the limited API. */
PyAPI_FUNC(int) PyContext_Enter(PyObject *context);
PyAPI_FUNC(int) PyContext_Exit(PyObject *context);

typedef int (*switch_fn)(PyObject *context);

static switch_fn enter, leave; /* the originals: this library's own slots are hooked as well */

static int enter_and_publish(PyObject *context)
{
    int error = enter(context);
    publish_current();
    return error;
}

static int leave_and_publish(PyObject *context)
{
    int error = leave(context);
    publish_current();
    return error;
}

struct library {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * relocations[2]; /* of calls, of addresses */
    size_t n[2];
    uintptr_t read_only,
        read_only_end; /* whole pages: the dynamic linker leaves the rest writable */
};

/* glibc relocates the addresses in a dynamic section, musl does not. */
static const void *pointer_at(const struct library *library, ElfW(Addr) value)
{
    return (const void *)(value < library->base ? library->base + value : value);
}

static void read_dynamic(struct library *library, const ElfW(Dyn) * dynamic)
{
    for (; dynamic->d_tag != DT_NULL; dynamic++)
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            library->symbols = pointer_at(library, dynamic->d_un.d_ptr);
            break;
        case DT_STRTAB:
            library->names = pointer_at(library, dynamic->d_un.d_ptr);
            break;
        case DT_JMPREL:
            library->relocations[0] = pointer_at(library, dynamic->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            library->n[0] = dynamic->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_RELA:
            library->relocations[1] = pointer_at(library, dynamic->d_un.d_ptr);
            break;
        case DT_RELASZ:
            library->n[1] = dynamic->d_un.d_val / sizeof(ElfW(Rela));
            break;
        default:
            break;
        }
}

static void library_open(const struct dl_phdr_info *info, struct library *library)
{
    uintptr_t page_mask = ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    *library = (struct library){.base = info->dlpi_addr};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_DYNAMIC) {
            read_dynamic(library, (const void *)at);
        } else if (part->p_type == PT_GNU_RELRO) {
            library->read_only = at & page_mask;
            library->read_only_end = (at + part->p_memsz) & page_mask;
        }
    }
}

static void slot_set(const struct library *library, uintptr_t slot, switch_fn to)
{
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = slot & ~(size - 1);
    bool read_only = slot >= library->read_only && slot < library->read_only_end;
    if (read_only && mprotect((void *)page, size, PROT_READ | PROT_WRITE) < 0)
        return;
    memcpy((void *)slot, &to, sizeof(to));
    if (read_only)
        mprotect((void *)page, size, PROT_READ);
}

static switch_fn replacement_of(const char *name)
{
    return strcmp(name, "PyContext_Enter") == 0  ? enter_and_publish
           : strcmp(name, "PyContext_Exit") == 0 ? leave_and_publish
                                                 : NULL;
}

static void hook_list(const struct library *library, const ElfW(Rela) * relocations, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned long type = ELF64_R_TYPE(relocations[i].r_info);
        if (type != JUMP_SLOT && type != GLOB_DAT)
            continue;
        const ElfW(Sym) *symbol = &library->symbols[ELF64_R_SYM(relocations[i].r_info)];
        switch_fn to = replacement_of(library->names + symbol->st_name), now;
        uintptr_t slot = library->base + relocations[i].r_offset;
        if (!to || symbol->st_shndx != SHN_UNDEF)
            continue;
        memcpy(&now, (const void *)slot, sizeof(now));
        if (now != to)
            slot_set(library, slot, to);
    }
}

static int hook_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    struct library library;
    (void)size, (void)unused;
    library_open(info, &library);
    for (int i = 0; i < 2 && library.symbols && library.names; i++)
        if (library.relocations[i])
            hook_list(&library, library.relocations[i], library.n[i]);
    return 0;
}

void import_slots_hook(void)
{
    if (!enter) {
        enter = PyContext_Enter;
        leave = PyContext_Exit;
    }
    dl_iterate_phdr(hook_library, NULL);
}
