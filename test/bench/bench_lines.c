/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses a second that get their lines and inlined functions, from the page cache; the time
 * until the first one; and the memory behind the last. Without arguments: this program. With: that
 * executable, and the file with its DWARF, if that is another. */
#include "agent-bpf/dwarf/dwarf_lines.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N_ADDRESSES = 4096, RUN = 32 };

static struct dwarf_function found[DWARF_FUNCTIONS_AT_MAX];

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t address_in(const Elf64_Phdr *code, uint64_t random)
{
    return code->p_vaddr + random % (code->p_memsz ? code->p_memsz : 1);
}

/* run: so many in a row lie near each other, as those of one request do. */
static void measure(const char *name, struct dwarf_lines *lines, const Elf64_Phdr *code, int run)
{
    uint64_t state = 1;
    size_t functions = 0, addresses = 0;
    double start = now_s();
    for (int i = 0; i < N_ADDRESSES; i++) {
        if (i % run == 0)
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint64_t vaddr = address_in(code, (state >> 16) + (uint64_t)(i % run) * 64);
        size_t n = dwarf_lines_find(lines, vaddr, UINT64_MAX, found);
        functions += n;
        addresses += n > 0;
    }
    printf("lines_rate_%s %.0f addresses/s\n", name, N_ADDRESSES / (now_s() - start));
    printf("lines_found_%s %.1f %%\n", name, 100.0 * (double)addresses / N_ADDRESSES);
    if (addresses)
        printf("lines_functions_%s %.2f functions/address\n", name,
               (double)functions / (double)addresses);
}

int main(int argc, char **argv)
{
    struct elf elf, debug;
    struct dwarf_lines *lines;
    int fd = open(argc > 1 ? argv[1] : "/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int debug_fd = argc > 2 ? open(argv[2], O_RDONLY | O_CLOEXEC) : fd;
    double start = now_s();
    if (elf_open(fd, &elf) || elf_open(debug_fd, &debug) ||
        dwarf_lines_open(&elf, &debug, NULL, &lines))
        return 1;
    const Elf64_Phdr *code = elf_segment(&elf, PT_LOAD);
    for (uint32_t i = 0; i < elf.n_segments; i++)
        if (elf.segments[i].p_type == PT_LOAD && elf.segments[i].p_flags & PF_X)
            code = &elf.segments[i];
    dwarf_lines_find(lines, address_in(code, code->p_memsz / 2), UINT64_MAX, found);
    printf("lines_first %.2f ms\n", 1e3 * (now_s() - start));
    printf("lines_first_bytes %zu bytes\n", dwarf_lines_bytes(lines));
    measure("near", lines, code, RUN);
    measure("anywhere", lines, code, 1);
    printf("lines_bytes %zu bytes\n", dwarf_lines_bytes(lines));
    printf("lines_file %.1f MB\n", (double)debug.size / 1e6);
    dwarf_lines_close(lines);
    return 0;
}
