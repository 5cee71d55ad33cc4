/* SPDX-License-Identifier: Apache-2.0 */
/* Real files (this program, libc), and small ones made here with every kind of lie. */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/files/elf_dynamic.h"
#include "agent-bpf/contexts/thread_local.h"
#include "agent-bpf/sha256.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* The ABI's variable, exported: see CMakeLists.txt. */
extern _Thread_local void *otel_thread_ctx_v1;
_Thread_local void *otel_thread_ctx_v1 __attribute__((visibility("default"), used));

static int open_self(struct elf *elf)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(elf_open(fd, elf), 0);
    return fd;
}

static void build_id(void **state)
{
    (void)state;
    struct elf elf;
    struct elf_build_ids ids;
    int fd = open_self(&elf);
    assert_int_equal(elf_build_ids(&elf, &ids), 0);
    char hex[64];
    bytes_to_hex(BYTES(ids.gnu, ids.gnu_len), hex);
    assert_string_equal(hex, TEST_BUILD_ID); /* as the linker was told */
    close(fd);
}

static void notes(void **state)
{
    (void)state;
    uint8_t text[256];
    size_t at = 0;
    const struct {
        uint32_t name, value, type;
        const char *bytes;
    } list[] = {
        {4, 3, 3, "XYZ\0abc\0"},       /* another owner */
        {4, 6, 4, "Go\0\0abc/de\0\0"}, /* Go build id */
        {4, 8, 3, "GNU\0\1\2\3\4\5\6\7\10"},
        {4, 4, 3, "GNU\0\11\11\11\11"}, /* the first counts */
    };
    for (size_t i = 0; i < 4; i++) {
        memcpy(text + at, &list[i], 12);
        size_t size = (list[i].name + 3) / 4 * 4 + (list[i].value + 3) / 4 * 4;
        memcpy(text + at + 12, list[i].bytes, size);
        at += 12 + size;
    }
    struct elf_build_ids ids = {0};
    elf_build_ids_of_notes(BYTES(text, at), 4, &ids);
    assert_int_equal(ids.gnu_len, 8);
    assert_memory_equal(ids.gnu, "\1\2\3\4\5\6\7\10", 8);
    assert_string_equal(ids.go, "abc/de");
    for (size_t cut = 0; cut < at; cut++) { /* exact allocation: the sanitizer sees a read beyond */
        uint8_t *copy = malloc(cut ? cut : 1);
        memcpy(copy, text, cut);
        ids = (struct elf_build_ids){0};
        elf_build_ids_of_notes(BYTES(copy, cut), 4, &ids);
        free(copy);
    }
    uint32_t huge[3] = {UINT32_MAX, UINT32_MAX, 3};
    ids = (struct elf_build_ids){0};
    elf_build_ids_of_notes(BYTES(huge, sizeof(huge)), 4, &ids);
    assert_int_equal(ids.gnu_len, 0);
}

static int file_of(const void *data, size_t size)
{
    int fd = memfd_create("elf", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    return fd;
}

static void hash_of(const uint8_t *data, size_t size, uint8_t out[32])
{
    uint8_t hashed[2 * 4096 + 8] = {0};
    size_t n = size < 4096 ? size : 4096;
    memcpy(hashed, data, n);
    memcpy(hashed + n, data + size - n, n);
    for (size_t i = 0; i < 4; i++)
        hashed[2 * n + 4 + i] = (uint8_t)(size >> (24 - 8 * i));
    sha256_of(BYTES(hashed, 2 * n + 8), out);
}

static void htlhash(void **state)
{
    (void)state;
    uint8_t *data = malloc(100000);
    for (size_t i = 0; i < 100000; i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    const size_t sizes[] = {1, 100, 4095, 4096, 5000, 8192, 100000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint8_t got[16], want[32];
        int fd = file_of(data, sizes[i]);
        assert_int_equal(elf_htlhash(fd, sizes[i], got), 0);
        hash_of(data, sizes[i], want);
        assert_memory_equal(got, want, 16);
        assert_int_equal(elf_htlhash(fd, sizes[i] + 4096, got), ELF_MALFORMED); /* cut meanwhile */
        close(fd);
    }
    free(data);
}

static void refuses(void **state)
{
    (void)state;
    struct elf elf;
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
                         .e_type = ET_DYN,
                         .e_machine = EM_X86_64,
                         .e_phentsize = sizeof(Elf64_Phdr)};
    int fd = file_of(&header, sizeof(header));
    assert_int_equal(elf_open(fd, &elf), 0);
    assert_int_equal(elf.n_segments, 0);
    close(fd);
    fd = file_of(&header, sizeof(header) - 1);
    assert_int_equal(elf_open(fd, &elf), ELF_MALFORMED);
    close(fd);
    header.e_phnum = 1;
    header.e_phoff = UINT64_MAX;
    fd = file_of(&header, sizeof(header));
    assert_int_equal(elf_open(fd, &elf), ELF_MALFORMED);
    close(fd);
    header.e_phnum = 0xffff;
    header.e_phoff = 0;
    fd = file_of(&header, sizeof(header));
    assert_int_equal(elf_open(fd, &elf), ELF_MALFORMED);
    close(fd);
    header.e_ident[EI_CLASS] = ELFCLASS32;
    fd = file_of(&header, sizeof(header));
    assert_int_equal(elf_open(fd, &elf), ELF_MALFORMED);
    close(fd);
    fd = file_of("#!/bin/sh\n", 10);
    assert_int_equal(elf_open(fd, &elf), ELF_MALFORMED);
    close(fd);
}

/* Wherever this program is cut, every reader ends with an outcome. */
static void cut_short(void **state)
{
    (void)state;
    struct elf elf;
    int self = open_self(&elf);
    size_t size = elf.size < 262144 ? (size_t)elf.size : 262144;
    uint8_t *data = malloc(size);
    assert_int_equal(pread(self, data, size, 0), size);
    int fd = file_of(data, size);
    for (size_t cut = size; cut > 0; cut = cut > 2048 ? cut - 1013 : cut - 1) {
        assert_int_equal(ftruncate(fd, (off_t)cut), 0);
        struct elf_build_ids ids;
        struct thread_local_symbol symbol;
        if (elf_open(fd, &elf))
            continue;
        elf_build_ids(&elf, &ids);
        thread_local_find(&elf, "otel_thread_ctx_v1", &symbol);
    }
    close(fd);
    close(self);
    free(data);
}

static void addresses(void **state)
{
    (void)state;
    struct elf elf;
    Dl_info info;
    int fd = open_self(&elf);
    assert_true(dladdr((void *)addresses, &info));
    uint64_t vaddr = (uint64_t)(uintptr_t)addresses - (uint64_t)(uintptr_t)info.dli_fbase;
    uint64_t offset, back;
    assert_true(elf_offset_of_address(&elf, vaddr, &offset));
    assert_true(elf_address_of_offset(&elf, offset, &back));
    assert_int_equal(back, vaddr);
    uint8_t code[16];
    assert_int_equal(elf_read(&elf, offset, code, sizeof(code)), 0);
    assert_memory_equal(code, (const void *)addresses, sizeof(code));
    assert_false(elf_offset_of_address(&elf, UINT64_MAX - 3, &offset));
    assert_false(elf_address_of_offset(&elf, UINT64_MAX - 3, &back));
    assert_int_equal(elf_read(&elf, elf.size - 1, code, 2), ELF_MALFORMED);
    assert_int_equal(elf_read(&elf, UINT64_MAX, code, 2), ELF_MALFORMED);
    close(fd);
}

static void dynamic_symbols(void **state)
{
    (void)state;
    struct link_map *map = NULL;
    void *handle = dlopen("libc.so.6", RTLD_LAZY);
    assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
    int fd = open(map->l_name, O_RDONLY | O_CLOEXEC);
    struct elf elf;
    struct elf_dynamic dynamic;
    struct elf_symbol found;
    assert_int_equal(elf_open(fd, &elf), 0);
    assert_int_equal(elf_dynamic_open(&elf, &dynamic), 0);
    const char *names[] = {"qsort", "setenv", "getpid", "strtod"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(elf_dynamic_find(&dynamic, names[i], &found), 0);
        assert_int_equal(map->l_addr + found.symbol.st_value, (uintptr_t)dlsym(handle, names[i]));
    }
    assert_int_equal(elf_dynamic_find(&dynamic, "no_such_function", &found), ELF_MISSING);
    uint32_t count;
    Elf64_Shdr section;
    assert_int_equal(elf_dynamic_count(&dynamic, &count), 0);
    assert_int_equal(elf_section_of_type(&elf, SHT_DYNSYM, &section), 0);
    assert_int_equal(count, section.sh_size / sizeof(Elf64_Sym));
    close(fd);
    dlclose(handle);
}

/* A file whose hash tables lead in circles. */
struct looped {
    Elf64_Ehdr header;
    Elf64_Phdr segments[2];
    Elf64_Dyn dynamic[6];
    uint32_t gnu[4];
    uint64_t bloom;
    uint32_t bucket;
    uint32_t chain[1];
    uint32_t sysv[6];
    Elf64_Sym symbols[3];
    char strings[16];
};

static struct looped looped_file(void)
{
    struct looped file = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
                   .e_type = ET_DYN,
                   .e_machine = EM_X86_64,
                   .e_phoff = offsetof(struct looped, segments),
                   .e_phentsize = sizeof(Elf64_Phdr),
                   .e_phnum = 2},
        .segments = {{.p_type = PT_LOAD, .p_filesz = sizeof(file)},
                     {.p_type = PT_DYNAMIC,
                      .p_offset = offsetof(struct looped, dynamic),
                      .p_filesz = sizeof(file.dynamic)}},
        .dynamic = {{DT_SYMTAB, {offsetof(struct looped, symbols)}},
                    {DT_STRTAB, {offsetof(struct looped, strings)}},
                    {DT_STRSZ, {16}},
                    {DT_HASH, {offsetof(struct looped, sysv)}}},
        .gnu = {1, 1, 1, 0},
        .bucket = 1,
        .sysv = {1, 3, 1, 0, 2, 1}, /* bucket 0 -> 1 -> 2 -> 1 -> ... */
        .strings = "\0other",
    };
    file.symbols[1] = (Elf64_Sym){.st_name = 1, .st_info = STT_TLS, .st_shndx = 1};
    file.symbols[2] = file.symbols[1];
    return file;
}

static void loops_end(void **state)
{
    (void)state;
    struct looped file = looped_file();
    for (int gnu = 0; gnu < 2; gnu++) {
        if (gnu)
            file.dynamic[3] = (Elf64_Dyn){DT_GNU_HASH, {offsetof(struct looped, gnu)}};
        int fd = file_of(&file, sizeof(file));
        struct elf elf;
        struct elf_dynamic dynamic;
        struct elf_symbol found;
        uint32_t count;
        assert_int_equal(elf_open(fd, &elf), 0);
        assert_int_equal(elf_dynamic_open(&elf, &dynamic), 0);
        assert_true(elf_dynamic_find(&dynamic, "otel_thread_ctx_v1", &found) > 0);
        elf_dynamic_count(&dynamic, &count);
        assert_true(count <= ELF_DYNAMIC_SYMBOLS_MAX);
        close(fd);
    }
}

static void extreme_numbers(void **state)
{
    (void)state;
    const uint64_t extremes[] = {
        0, 1, 0x7fffffffffffffff, 0x8000000000000000, UINT64_MAX, UINT64_MAX - 8};
    struct looped plain = looped_file();
    for (size_t at = sizeof(Elf64_Ehdr); at + 8 <= sizeof(plain); at += 4) {
        for (size_t i = 0; i < sizeof(extremes) / sizeof(*extremes); i++) {
            struct looped file = plain;
            memcpy((char *)&file + at, &extremes[i], 8);
            int fd = file_of(&file, sizeof(file));
            struct elf elf;
            struct thread_local_symbol symbol;
            struct elf_build_ids ids;
            if (!elf_open(fd, &elf)) {
                elf_build_ids(&elf, &ids);
                thread_local_find(&elf, "other", &symbol);
            }
            close(fd);
        }
    }
}

static int read_self(void *context, uint64_t address, void *out, size_t size)
{
    (void)context;
    memcpy(out, (const void *)(uintptr_t)address, size);
    return 0;
}

static void thread_local_of_this_program(void **state)
{
    (void)state;
    struct elf elf;
    struct thread_local_symbol symbol;
    struct context_variable variable;
    Dl_info info;
    int fd = open_self(&elf);
    assert_int_equal(thread_local_find(&elf, "otel_thread_ctx_v1", &symbol), 0);
    assert_true(symbol.defined);
    assert_true(symbol.in_executable);
    assert_true(dladdr((void *)thread_local_of_this_program, &info));
    struct thread_local_process process = {
        .read = read_self, .bias = (uint64_t)(uintptr_t)info.dli_fbase, .is_executable = true};
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), 0);
    assert_int_equal(variable.thread_local_model, THREAD_LOCAL_STATIC);
    assert_int_equal((uintptr_t)__builtin_thread_pointer() + (uint64_t)variable.offset,
                     (uintptr_t)&otel_thread_ctx_v1);
    assert_int_equal(thread_local_find(&elf, "no_such_variable", &symbol), 0);
    assert_false(symbol.defined);
    close(fd);
}

static uint64_t words[4];

static int read_words(void *context, uint64_t address, void *out, size_t size)
{
    (void)context;
    if (address != 0x1000 && address != 0x5000000000 && address != 0xa000000)
        return -EFAULT;
    memcpy(out, address == 0x1000 ? words : words + 2, size);
    return 0;
}

static struct thread_local_symbol symbol_by(enum thread_local_slot_kind kind)
{
    return (struct thread_local_symbol){.defined = true,
                                        .machine = EM_X86_64,
                                        .value = 8,
                                        .segment_size = 100,
                                        .segment_align = 64,
                                        .in_executable = true,
                                        .n_slots = 1,
                                        .slots = {{kind, 0}}};
}

static void thread_local_descriptors(void **state)
{
    (void)state;
    struct thread_local_symbol symbol = symbol_by(THREAD_LOCAL_SLOT_DESC);
    struct thread_local_process process = {
        .read = read_words, .bias = 0x1000, .libc = THREAD_LOCAL_LIBC_GLIBC};
    struct context_variable variable;
    words[1] = (uint64_t)-24; /* static descriptor */
    assert_int_equal(thread_local_locate(&symbol, &process, &variable),
                     THREAD_LOCAL_UNRESOLVED); /* no function */
    words[0] = 0x7000;
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), 0);
    assert_int_equal(variable.thread_local_model, THREAD_LOCAL_STATIC);
    assert_int_equal(variable.offset, -24);
    words[1] = 0x5000000000; /* dynamic descriptor */
    words[2] = 3;
    words[3] = 16;
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), 0);
    assert_int_equal(variable.thread_local_model, THREAD_LOCAL_DYNAMIC);
    assert_int_equal(variable.module, 3);
    assert_int_equal(variable.offset, 16);
    assert_int_equal(variable.dtv_offset, 8);
    assert_int_equal(variable.dtv_entry_size, 16);
    words[1] = 0xa000000; /* likewise, in the heap of an executable without PIE */
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), 0);
    assert_int_equal(variable.thread_local_model, THREAD_LOCAL_DYNAMIC);
    symbol.machine = EM_AARCH64;
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), 0);
    assert_int_equal(variable.thread_local_model, THREAD_LOCAL_DYNAMIC);
    words[1] = 0x40; /* static there */
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), 0);
    assert_int_equal(variable.thread_local_model, THREAD_LOCAL_STATIC);
    assert_int_equal(variable.offset, 0x40);
    symbol.machine = EM_X86_64;
    words[1] = 0x5000000000;
    process.libc = THREAD_LOCAL_LIBC_MUSL;
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), 0);
    assert_int_equal(variable.dtv_entry_size, 8);
    process.libc = THREAD_LOCAL_LIBC_NONE; /* the layout of its blocks is not known */
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), THREAD_LOCAL_UNKNOWN_LIBC);
    process.libc = THREAD_LOCAL_LIBC_MUSL;
    words[2] = 0; /* no module yet */
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), THREAD_LOCAL_UNRESOLVED);
    words[2] = 3;
    symbol.lazy_start = 0x5000000000 - 0x1000 - 24; /* the argument is a relocation still */
    symbol.lazy_end = 0x5000000000 - 0x1000 + 24;
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), THREAD_LOCAL_UNRESOLVED);
    symbol.lazy_end -= 24;
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), 0);
    words[1] = 0x6000000000; /* wild */
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), -EFAULT);
}

static void thread_local_slots(void **state)
{
    (void)state;
    struct thread_local_symbol symbol = symbol_by(THREAD_LOCAL_SLOT_OFFSET);
    struct thread_local_process process = {
        .read = read_words, .bias = 0x1000, .libc = THREAD_LOCAL_LIBC_MUSL};
    struct context_variable variable;
    words[0] = (uint64_t)-4096;
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), 0);
    assert_int_equal(variable.offset, -4096);
    words[0] = (uint64_t)INT64_MIN;
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), THREAD_LOCAL_UNRESOLVED);
    symbol.slots[0].kind = THREAD_LOCAL_SLOT_MODULE;
    words[0] = 2;
    words[1] = 40;
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), 0);
    assert_int_equal(variable.module, 2);
    symbol.n_slots = 0; /* Local Exec */
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), THREAD_LOCAL_UNRESOLVED);
    process.is_executable = true;
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), 0);
    assert_int_equal(variable.offset, 8 - 128);
    symbol.machine = EM_AARCH64;
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), 0);
    assert_int_equal(variable.offset, 64 + 8);
    symbol.segment_align = 3;
    assert_int_equal(thread_local_locate(&symbol, &process, &variable), THREAD_LOCAL_UNRESOLVED);
}

/* Of libraries and programs of each TLS model (test/support/publishers). */
struct thread_local_case {
    const char *name;
    int n_slots; /* -1: it does not say where the variable is */
    enum thread_local_slot_kind kind;
};

static const struct thread_local_case thread_local_files[] = {
    {"gd_exported.so", 1, THREAD_LOCAL_SLOT_MODULE},
    {"gd_symtab.so", 1, THREAD_LOCAL_SLOT_MODULE},
    {"ld_exported.so", 1, THREAD_LOCAL_SLOT_MODULE_OF_BLOCK},
    {"ld_exported_stripped.so", 1, THREAD_LOCAL_SLOT_MODULE_OF_BLOCK},
    {"ld_symtab.so", 1, THREAD_LOCAL_SLOT_MODULE_OF_BLOCK},
    {"ld_stripped.so", -1, 0},
    {"desc_exported.so", 1, THREAD_LOCAL_SLOT_DESC},
    {"desc_symtab.so", 1, THREAD_LOCAL_SLOT_DESC},
    {"ldesc_exported.so", 1, THREAD_LOCAL_SLOT_DESC_OF_BLOCK},
    {"ldesc_symtab.so", 1, THREAD_LOCAL_SLOT_DESC_OF_BLOCK},
    {"ldesc_stripped.so", -1, 0},
    {"ie_exported_stripped.so", 1, THREAD_LOCAL_SLOT_OFFSET},
    {"ie_symtab.so", 1, THREAD_LOCAL_SLOT_OFFSET},
    {"exe_le_symtab", 0, 0},
    {"exe_ld_exported", 0, 0},
    {"exe_le_stripped", -1, 0},
    {"static_pie_le_symtab", 0, 0},
};

static void check_thread_local_file(const char *libc, const struct thread_local_case *expected)
{
    struct elf elf;
    struct thread_local_symbol symbol;
    char path[512];
    snprintf(path, sizeof(path), "%s/%s/case_%s", PUBLISHERS, libc, expected->name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("%s: %s", path, strerror(errno));
    assert_int_equal(elf_open(fd, &elf), 0);
    assert_int_equal(thread_local_find(&elf, "otel_thread_ctx_v1", &symbol), 0);
    bool good = symbol.defined == (expected->n_slots >= 0);
    if (symbol.defined)
        good = symbol.value >= 40 && (int)symbol.n_slots == expected->n_slots &&
               (!symbol.n_slots || symbol.slots[0].kind == expected->kind);
    if (!good)
        fail_msg("%s: defined %d, %u slots, the first of kind %d", path, symbol.defined,
                 symbol.n_slots, symbol.slots[0].kind);
    close(fd);
}

static void thread_local_models(void **state)
{
    static const char *const libcs[] = {"glibc", "musl"};
    (void)state;
    for (size_t libc = 0; libc < 2; libc++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/%s", PUBLISHERS, libcs[libc]);
        if (access(path, F_OK)) {
            printf("skipped: no compiler for %s\n", libcs[libc]);
            continue;
        }
        for (size_t i = 0; i < sizeof(thread_local_files) / sizeof(*thread_local_files); i++)
            check_thread_local_file(libcs[libc], &thread_local_files[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(build_id),
        cmocka_unit_test(notes),
        cmocka_unit_test(htlhash),
        cmocka_unit_test(refuses),
        cmocka_unit_test(cut_short),
        cmocka_unit_test(addresses),
        cmocka_unit_test(dynamic_symbols),
        cmocka_unit_test(loops_end),
        cmocka_unit_test(extreme_numbers),
        cmocka_unit_test(thread_local_of_this_program),
        cmocka_unit_test(thread_local_descriptors),
        cmocka_unit_test(thread_local_slots),
        cmocka_unit_test(thread_local_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
