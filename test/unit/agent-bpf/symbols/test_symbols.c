/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/symbols/kallsyms.h"
#include "agent-bpf/symbols/symbols.h"
#include "test/support/fixtures/skip.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

static int __attribute__((noinline)) a_function_to_be_named(int x)
{
    return x * 3;
}

static struct symbols *open_symbols(const char *path)
{
    struct elf elf;
    struct symbols *symbols;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(elf_open(fd, &elf), 0);
    assert_int_equal(symbols_open(&elf, NULL, &symbols), 0);
    close(fd); /* they keep their own */
    return symbols;
}

static void own_functions(void **state)
{
    (void)state;
    char name[SYMBOLS_NAME_MAX];
    Dl_info info;
    struct symbols *symbols = open_symbols("/proc/self/exe");
    assert_int_equal(a_function_to_be_named(2), 6);
    assert_true(dladdr((void *)a_function_to_be_named, &info));
    uint64_t vaddr =
        (uint64_t)(uintptr_t)a_function_to_be_named - (uint64_t)(uintptr_t)info.dli_fbase;
    assert_int_equal(symbols_find(symbols, vaddr, name), 0);
    assert_string_equal(name, "a_function_to_be_named");
    assert_int_equal(symbols_find(symbols, vaddr + 3, name), 0);
    assert_string_equal(name, "a_function_to_be_named");
    assert_int_equal(symbols_find(symbols, 0, name), ELF_MISSING);
    assert_int_equal(symbols_find(symbols, UINT64_MAX, name), ELF_MISSING);
    assert_true(symbols_count(symbols) > 20);
    assert_true(symbols_bytes(symbols) < symbols_count(symbols) * 16 + 512);
    symbols_close(symbols);
}

static void dynamic_functions(void **state)
{
    (void)state;
    char name[SYMBOLS_NAME_MAX];
    struct link_map *map = NULL;
    void *handle = dlopen("libc.so.6", RTLD_LAZY);
    assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
    struct symbols *symbols = open_symbols(map->l_name);
    uint64_t vaddr = (uint64_t)(uintptr_t)dlsym(handle, "setenv") - map->l_addr;
    assert_int_equal(symbols_find(symbols, vaddr + 5, name), 0);
    assert_string_equal(name, "setenv");
    symbols_close(symbols);
    dlclose(handle);
}

/* A file of symbols alone. */
struct table {
    Elf64_Ehdr header;
    Elf64_Shdr sections[3];
    Elf64_Sym symbols[8];
    char strings[2048];
};

static int file_of(const void *data, size_t size)
{
    int fd = memfd_create("elf", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    return fd;
}

static struct table *new_table(void)
{
    struct table *table = calloc(1, sizeof(*table));
    table->header = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
                                 .e_type = ET_EXEC,
                                 .e_machine = EM_X86_64,
                                 .e_shoff = offsetof(struct table, sections),
                                 .e_shentsize = sizeof(Elf64_Shdr),
                                 .e_shnum = 3};
    table->sections[1] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                      .sh_offset = offsetof(struct table, symbols),
                                      .sh_size = sizeof(table->symbols),
                                      .sh_entsize = sizeof(Elf64_Sym),
                                      .sh_link = 2};
    table->sections[2] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                      .sh_offset = offsetof(struct table, strings),
                                      .sh_size = sizeof(table->strings)};
    return table;
}

static void function(struct table *table, int i, uint8_t bind, uint64_t at, uint64_t size,
                     const char *name)
{
    size_t where = (size_t)i * 32 + 1;
    strcpy(table->strings + where, name);
    table->symbols[i] = (Elf64_Sym){.st_name = (Elf64_Word)where,
                                    .st_info = (uint8_t)(bind << 4 | STT_FUNC),
                                    .st_shndx = 1,
                                    .st_value = at,
                                    .st_size = size};
}

static struct symbols *symbols_of(const struct table *table)
{
    struct elf elf;
    struct symbols *symbols = NULL;
    int fd = file_of(table, sizeof(*table));
    assert_int_equal(elf_open(fd, &elf), 0);
    assert_int_equal(symbols_open(&elf, NULL, &symbols), 0);
    close(fd);
    return symbols;
}

static void expect(const struct symbols *symbols, uint64_t address, const char *want)
{
    char name[SYMBOLS_NAME_MAX] = "";
    int outcome = symbols_find(symbols, address, name);
    assert_int_equal(outcome, want ? 0 : ELF_MISSING);
    if (want)
        assert_string_equal(name, want);
}

static void chooses(void **state)
{
    (void)state;
    struct table *table = new_table();
    function(table, 0, STB_LOCAL, 0x100, 0x10, "local");
    function(table, 1, STB_GLOBAL, 0x100, 0x10, "global");
    function(table, 2, STB_WEAK, 0x100, 0x10, "weak");
    function(table, 3, STB_GLOBAL, 0x200, 0x100, "outer");
    function(table, 4, STB_GLOBAL, 0x240, 0x10, "inner");
    function(table, 5, STB_GLOBAL, 0x400, 0, "unsized");
    function(table, 6, STB_GLOBAL, 0x500, 0x10, "bad\x1b[31m\xff");
    function(table, 7, STB_GLOBAL, 0, 0x10, "at zero");
    struct symbols *symbols = symbols_of(table);
    expect(symbols, 0x108, "global");
    expect(symbols, 0x110, NULL);
    expect(symbols, 0x23f, "outer");
    expect(symbols, 0x245, "inner");
    expect(symbols, 0x250, "outer");
    expect(symbols, 0x300, NULL);
    expect(symbols, 0x4ff, "unsized");
    expect(symbols, 0x500, "bad?[31m?");
    expect(symbols, 0x5, NULL);
    symbols_close(symbols);
    free(table);
}

static void without_size_within_its_section(void **state)
{
    (void)state;
    struct table *table = new_table();
    function(table, 0, STB_GLOBAL, 0x400, 0, "last");
    table->symbols[0].st_shndx = 2;
    table->sections[2].sh_addr = 0x3f0;
    struct symbols *symbols = symbols_of(table);
    expect(symbols, 0x3f0 + sizeof(table->strings) - 1, "last");
    expect(symbols, 0x3f0 + sizeof(table->strings), NULL);
    symbols_close(symbols);
    free(table);
}

static void lies(void **state)
{
    (void)state;
    struct table *table = new_table();
    function(table, 0, STB_GLOBAL, 0x100, UINT64_MAX, "endless");
    function(table, 1, STB_GLOBAL, 0x90000000, 0x10, "x");
    table->symbols[1].st_name = UINT32_MAX;
    function(table, 2, STB_GLOBAL, 0x80000000, 0x10, "last");
    table->sections[1].sh_size = UINT64_MAX;
    struct elf elf;
    struct symbols *symbols = NULL;
    int fd = file_of(table, sizeof(*table));
    assert_int_equal(elf_open(fd, &elf), 0);
    assert_int_equal(symbols_open(&elf, NULL, &symbols),
                     0);                      /* longer than the file: what there is counts */
    assert_true(symbols_count(symbols) >= 2); /* and what the strings look like as symbols */
    symbols_close(symbols);
    close(fd);
    table->sections[1].sh_size = sizeof(table->symbols);
    memset(table->strings, 'a', sizeof(table->strings)); /* names without an end */
    symbols = symbols_of(table);
    char name[SYMBOLS_NAME_MAX];
    assert_int_equal(symbols_find(symbols, 0x200, name), 0);
    assert_true(strlen(name) < SYMBOLS_NAME_MAX);
    expect(symbols, 0x90000005, NULL);
    symbols_close(symbols);
    table->sections[2].sh_offset = UINT64_MAX - 4;
    fd = file_of(table, sizeof(*table));
    assert_int_equal(elf_open(fd, &elf), 0);
    assert_int_equal(symbols_open(&elf, NULL, &symbols), 0); /* as good as no symbols */
    assert_int_equal(symbols_count(symbols), 0);
    expect(symbols, 0x200, NULL);
    symbols_close(symbols);
    close(fd);
    table->sections[2].sh_offset = sizeof(*table);
    symbols = symbols_of(table);
    expect(symbols, 0x200, NULL); /* its name lies behind the end */
    symbols_close(symbols);
    free(table);
}

static void kernel_names(void **state)
{
    (void)state;
    const char text[] = "ffffffff81000000 T _text\n"
                        "ffffffff81000200 t do_work\n"
                        "ffffffff81000100 T first\n"
                        "ffffffff81000300 D data\n"
                        "ffffffffc0000000 t in_module\t[mod]\n"
                        "garbage\nffffffff81zz T x\n\n"
                        "ffffffff82000000 B _end\n";
    int fd = file_of(text, sizeof(text) - 1);
    struct kallsyms *kallsyms;
    assert_int_equal(kallsyms_read(fd, &kallsyms), 0);
    assert_int_equal(kallsyms_text_start(kallsyms), 0xffffffff81000000);
    assert_int_equal(kallsyms_text_end(kallsyms), 0xffffffff82000000);
    assert_string_equal(kallsyms_find(kallsyms, 0xffffffff81000180), "first");
    assert_string_equal(kallsyms_find(kallsyms, 0xffffffff81000200), "do_work");
    assert_string_equal(kallsyms_find(kallsyms, 0xffffffffc0000010), "in_module");
    assert_null(kallsyms_find(kallsyms, 0xffffffff80000000));
    assert_null(kallsyms_find(kallsyms, 0xfffffffff0000000));
    kallsyms_close(kallsyms);
    close(fd);
}

static void kernel_hidden(void **state)
{
    (void)state;
    const char text[] = "0000000000000000 T _text\n0000000000000000 T first\n";
    int fd = file_of(text, sizeof(text) - 1);
    struct kallsyms *kallsyms;
    assert_int_equal(kallsyms_read(fd, &kallsyms), KALLSYMS_HIDDEN);
    assert_int_equal(kallsyms_read(-1, &kallsyms), -EBADF);
    close(fd);
}

static void kernel_build_id(void **state)
{
    (void)state;
    uint8_t id[20], notes[4096];
    int fd = open("/sys/kernel/notes", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        skip_because("no /sys/kernel/notes");
    ssize_t n = read(fd, notes, sizeof(notes));
    close(fd);
    assert_true(n > 0);
    assert_int_equal(kallsyms_build_id(BYTES(notes, (size_t)n), id), 20);
    assert_int_equal(kallsyms_build_id(BYTES(notes, 0), id), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_functions), cmocka_unit_test(dynamic_functions),
        cmocka_unit_test(chooses),       cmocka_unit_test(without_size_within_its_section),
        cmocka_unit_test(lies),          cmocka_unit_test(kernel_names),
        cmocka_unit_test(kernel_hidden), cmocka_unit_test(kernel_build_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
