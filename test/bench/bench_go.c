/* SPDX-License-Identifier: Apache-2.0 */
/* What a Go executable costs the symbolizer once a file: the median over rounds, from the page
 * cache. With arguments: those files. */
#include "agent-bpf/contexts/go_binary.h"
#include "test/support/fixtures/go_file.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { N_ROUNDS = 41, CODE_OFFSET = 0x1000 };

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void measure(const char *name, int fd, bool is_go)
{
    double rounds[N_ROUNDS];
    for (int i = 0; i < N_ROUNDS; i++) {
        struct elf elf;
        struct go_binary go;
        double before = now_us();
        if (elf_open(fd, &elf) || go_binary_find(&elf, &go) || go.found != is_go)
            abort();
        rounds[i] = now_us() - before;
    }
    qsort(rounds, N_ROUNDS, sizeof(rounds[0]), ascending);
    printf("%s %.1f us\n", name, rounds[N_ROUNDS / 2]);
}

/* stackcheck in the middle of that much code. */
static int open_made(size_t code_size)
{
    static const uint8_t stackcheck[] = {0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff,
                                         0xff, 0x48, 0x39, 0x60, 0x08, 0x77, 0x05, 0xe8,
                                         1,    2,    3,    4,    0x48, 0x3b, 0x20, 0x77,
                                         0x05, 0xe8, 5,    6,    7,    8,    0xc3};
    struct go_file file = {.machine = EM_X86_64, .type = ET_EXEC, .version = "go1.26.8"};
    go_file_make(&file);
    Elf64_Phdr *text = (Elf64_Phdr *)(void *)(file.bytes + sizeof(Elf64_Ehdr));
    text->p_offset = CODE_OFFSET;
    text->p_vaddr = 0x10000000;
    text->p_filesz = text->p_memsz = code_size;
    int fd = go_file_open(&file);
    uint8_t *code = malloc(code_size);
    if (!code)
        abort();
    for (size_t i = 0; i < code_size; i++)
        code[i] = (uint8_t)((i * 2654435761u) >> 13);
    memcpy(code + code_size / 2, stackcheck, sizeof(stackcheck));
    if (pwrite(fd, code, code_size, CODE_OFFSET) != (ssize_t)code_size)
        abort();
    free(code);
    return fd;
}

static void measure_made(const char *name, size_t code_size)
{
    int fd = open_made(code_size);
    measure(name, fd, true);
    close(fd);
}

static int measure_file(const char *path, const char *name, bool is_go)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return perror(path), 1;
    measure(name, fd, is_go);
    close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (measure_file(argv[i], argv[i], true))
            return 1;
    if (argc > 1)
        return 0;
    measure_made("go_executable_1_mib_of_code", (size_t)1 << 20);
    measure_made("go_executable_32_mib_of_code", (size_t)32 << 20);
    return measure_file("/proc/self/exe", "go_executable_of_c", false);
}
