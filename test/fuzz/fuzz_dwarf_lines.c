/* SPDX-License-Identifier: Apache-2.0 */
/* An ELF file's lines, at addresses all over its code; the time it may take is part of the test. */
#include "agent-bpf/dwarf/dwarf_lines.h"
#include "base/clock.h"
#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ADDRESSES 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct dwarf_function found[DWARF_FUNCTIONS_AT_MAX];

static void check(const struct dwarf_function *function)
{
    assert(memchr(function->name, 0, sizeof(function->name)));
    assert(memchr(function->file, 0, sizeof(function->file)));
}

static void find(struct dwarf_lines *lines, uint64_t vaddr)
{
    size_t n = dwarf_lines_find(lines, vaddr, clock_monotonic_ns() + NS_PER_SEC, found);
    assert(n <= DWARF_FUNCTIONS_AT_MAX);
    for (size_t i = 0; i < n; i++)
        check(&found[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (ftruncate(fd, (off_t)size) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    struct elf elf;
    struct dwarf_lines *lines;
    if (elf_open(fd, &elf) || dwarf_lines_open(&elf, &elf, &elf, &lines))
        return 0;
    for (uint32_t i = 0; i < elf.n_segments; i++)
        for (uint64_t j = 0; j < ADDRESSES && elf.segments[i].p_flags & PF_X; j++)
            find(lines, elf.segments[i].p_vaddr + elf.segments[i].p_memsz * j / ADDRESSES);
    dwarf_lines_close(lines);
    return 0;
}
