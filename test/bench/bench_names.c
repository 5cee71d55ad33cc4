/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions a second, by their source, from the page cache; and what it takes to open one.
 * Without arguments: this program, the C and the C++ library, a small table of Go, the kernel. With
 * arguments: those files. */
#include "agent-bpf/symbols/function_names.h"
#include "agent-bpf/symbols/kallsyms.h"
#include "test/support/fixtures/go_table.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { N_ADDRESSES = 4096, N_ROUNDS = 8 };

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t random_address(const struct elf *elf, uint64_t *state)
{
    const Elf64_Phdr *code = elf_segment(elf, PT_LOAD);
    for (uint32_t i = 0; i < elf->n_segments; i++)
        if (elf->segments[i].p_type == PT_LOAD && elf->segments[i].p_flags & PF_X)
            code = &elf->segments[i];
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return code->p_vaddr + (*state >> 16) % (code->p_memsz ? code->p_memsz : 1);
}

static void measure(const char *name, int fd)
{
    struct elf elf;
    struct function_names *names;
    struct function_name found;
    double start = now_s();
    if (elf_open(fd, &elf) || function_names_open(&elf, 0, &names))
        abort();
    printf("names_open_%s %.2f ms\n", name, 1e3 * (now_s() - start));
    printf("names_bytes_%s %zu bytes\n", name, function_names_bytes(names));
    size_t n_found = 0;
    start = now_s();
    for (int round = 0; round < N_ROUNDS; round++) {
        uint64_t state = 1;
        for (int i = 0; i < N_ADDRESSES; i++)
            n_found += !function_names_find(names, random_address(&elf, &state), &found);
    }
    double seconds = now_s() - start;
    printf("names_found_%s %.1f %%\n", name, 100.0 * (double)n_found / (N_ROUNDS * N_ADDRESSES));
    printf("names_rate_%s %.0f names/s\n", name, N_ROUNDS * N_ADDRESSES / seconds);
    function_names_close(names);
}

static void measure_path(const char *name, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    measure(name, fd);
    close(fd);
}

static void measure_library(const char *name, const char *library)
{
    struct link_map *map;
    void *handle = dlopen(library, RTLD_LAZY);
    if (!handle)
        return;
    if (!dlinfo(handle, RTLD_DI_LINKMAP, &map))
        measure_path(name, map->l_name);
    dlclose(handle);
}

static void measure_go(void)
{
    static const struct go_table_form form = {.magic = 0xf1, .text_word = GO_TABLE_TEXT};
    uint8_t table[GO_TABLE_SIZE];
    struct elf elf;
    struct function_names *names;
    struct function_name found;
    go_table_make(&form, table);
    int fd = go_table_file(BYTES(table, sizeof(table)), GO_TABLE_MODULE, true);
    if (elf_open(fd, &elf) || function_names_open(&elf, 0, &names))
        abort();
    double start = now_s();
    for (int i = 0; i < N_ROUNDS * N_ADDRESSES; i++)
        if (function_names_find(names, GO_TABLE_TEXT + (uint64_t)i % 0x100, &found))
            abort();
    printf("names_rate_go_small %.0f names/s\n", N_ROUNDS * N_ADDRESSES / (now_s() - start));
    function_names_close(names);
    close(fd);
}

static void measure_kernel(void)
{
    struct kallsyms *kallsyms;
    double start = now_s();
    int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || kallsyms_read(fd, &kallsyms))
        return; /* hidden from us */
    printf("names_open_kernel %.2f ms\n", 1e3 * (now_s() - start));
    uint64_t text = kallsyms_text_start(kallsyms), size = kallsyms_text_end(kallsyms) - text;
    size_t n_found = 0;
    start = now_s();
    for (uint64_t i = 0; i < N_ROUNDS * N_ADDRESSES; i++)
        n_found += kallsyms_find(kallsyms, text + i * 7919 % size) != NULL;
    printf("names_rate_kernel %.0f names/s\n", (double)n_found / (now_s() - start));
    kallsyms_close(kallsyms);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        measure_path(strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i], argv[i]);
    if (argc > 1)
        return 0;
    measure_path("symtab", "/proc/self/exe");
    measure_library("libc", "libc.so.6");
    measure_library("libstdcxx", "libstdc++.so.6");
    measure_go();
    measure_kernel();
    return 0;
}
