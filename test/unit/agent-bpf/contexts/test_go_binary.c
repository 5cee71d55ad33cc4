/* SPDX-License-Identifier: Apache-2.0 */
/* Small files with what the linkers of Go write; test/peers has those of the toolchains. */
#include "agent-bpf/files/elf_search.h"
#include "agent-bpf/contexts/go_binary.h"
#include "agent-bpf/go/go_buildinfo.h"
#include "agent-bpf/contexts/thread_local.h"
#include "test/support/fixtures/go_file.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

/* The rest of runtime.stackcheck after the load of g. */
#define STACKCHECK_TAIL                                                                            \
    0x48, 0x39, 0x60, 0x08, 0x77, 0x05, 0xe8, 1, 2, 3, 4, 0x48, 0x3b, 0x20, 0x77, 0x05, 0xe8, 5,   \
        6, 7, 8, 0xc3
static const uint8_t load_direct[] = {0x64, 0x48, 0x8b, 0x04, 0x25,
                                      0xb0, 0xff, 0xff, 0xff, STACKCHECK_TAIL}; /* -80 */
static const uint8_t load_by_immediate[] = {0x48, 0xc7, 0xc1, 0xf0, 0xff, 0xff,
                                            0xff, 0x64, 0x48, 0x8b, 0x01, STACKCHECK_TAIL};
/* At code address 0x401100: the word is at 0x402107 = next instruction + 0x1000. */
static const uint8_t load_by_word[] = {0x48, 0x8b, 0x0d, 0x00, 0x10, 0x00,
                                       0x00, 0x64, 0x48, 0x8b, 0x01, STACKCHECK_TAIL};
#define CODE_AT 0x100

static int find(const struct go_file *file, struct go_binary *go)
{
    struct elf elf;
    int fd = go_file_open(file);
    int error = elf_open(fd, &elf);
    error = error ? error : go_binary_find(&elf, go);
    close(fd);
    return error;
}

static struct go_file file_of(uint16_t machine, const void *code, size_t size)
{
    struct go_file file = {
        .machine = machine,
        .type = ET_EXEC,
        .version = "go1.26.8",
        .code = BYTES(code, size),
        .code_at = CODE_AT,
    };
    return file;
}

static struct go_file x86_file(void)
{
    return file_of(EM_X86_64, load_direct, sizeof(load_direct));
}

static void forms_of_build_info(void **state)
{
    (void)state;
    for (int no_sections = 0; no_sections < 2; no_sections++) {
        for (int form = GO_FILE_INLINE; form <= GO_FILE_RELOCATIONS; form++) {
            struct go_file file = x86_file();
            struct go_binary go;
            file.form = (enum go_file_form)form;
            file.no_sections = no_sections;
            go_file_make(&file);
            assert_int_equal(find(&file, &go), 0);
            assert_true(go.found);
            assert_int_equal(go.major, 1);
            assert_int_equal(go.minor, 26);
            assert_int_equal(go.g_offset, -80);
            assert_false(go.g_in_word || go.g_in_register);
        }
    }
}

static void only_executables(void **state)
{
    (void)state;
    const struct {
        uint16_t type;
        bool interpreter, pie_flag, found;
    } cases[] = {
        {ET_EXEC, false, false, true}, {ET_EXEC, true, false, true}, {ET_DYN, true, false, true},
        {ET_DYN, false, true, true},   /* static and position independent */
        {ET_DYN, false, false, false}, /* a plugin, or a C library made of Go */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct go_file file = x86_file();
        struct go_binary go;
        file.type = cases[i].type;
        file.interpreter = cases[i].interpreter;
        file.pie_flag = cases[i].pie_flag;
        go_file_make(&file);
        assert_int_equal(find(&file, &go), 0);
        assert_int_equal(go.found, cases[i].found);
        assert_int_equal(go.labels_form, cases[i].found ? GO_LABELS_SLICE : 0);
    }
}

static void no_go(void **state)
{
    (void)state;
    struct go_binary go;
    for (int no_sections = 0; no_sections < 2; no_sections++) {
        struct go_file file = x86_file();
        file.version = NULL;
        file.no_sections = no_sections;
        go_file_make(&file);
        assert_int_equal(find(&file, &go), 0);
        assert_false(go.found);
    }
    struct elf elf;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(elf_open(fd, &elf), 0);
    assert_int_equal(go_binary_find(&elf, &go), 0);
    assert_false(go.found);
    close(fd);
}

static void versions(void **state)
{
    (void)state;
    const struct {
        const char *text;
        bool parsed;
        uint16_t minor;
    } cases[] = {
        {"go1.13", true, 13},
        {"go1.20.14", true, 20},
        {"go1.26.8 X:boringcrypto", true, 26},
        {"go1.21.0-fips", true, 21},
        {"go1.22+patched", true, 22},
        {"go1.27rc1", false, 0},
        {"go1.27beta2", false, 0},
        {"devel go1.28-3f2b9a1 Tue Nov 3", false, 0},
        {"go1.27-devel_3f2b9a1 X:simd", false, 0},
        {"go1", false, 0},
        {"go1.", false, 0},
        {"go.21", false, 0},
        {"go1.021", false, 0},
        {"go1.99999", false, 0},
        {"gopher1.20", false, 0},
        {"1.20", false, 0},
        {"", false, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint16_t major = 0, minor = 0;
        assert_int_equal(go_version_parse(cases[i].text, &major, &minor), cases[i].parsed);
        if (cases[i].parsed) {
            assert_int_equal(major, 1);
            assert_int_equal(minor, cases[i].minor);
        }
    }
}

static void offsets_by_version(void **state)
{
    (void)state;
    const struct {
        const char *version;
        uint16_t curg, labels;
        uint8_t form;
    } cases[] = {
        {"go1.12", 0, 0, 0},
        {"go1.13.15", 192, 344, GO_LABELS_MAP},
        {"go1.16", 192, 344, GO_LABELS_MAP},
        {"go1.17", 192, 360, GO_LABELS_MAP},
        {"go1.20.14", 192, 360, GO_LABELS_MAP},
        {"go1.21.13", 192, 344, GO_LABELS_MAP},
        {"go1.22", 192, 344, GO_LABELS_MAP},
        {"go1.23.4", 192, 352, GO_LABELS_MAP},
        {"go1.24", 192, 352, GO_LABELS_SLICE},
        {"go1.25.7", 184, 344, GO_LABELS_SLICE},
        {"go1.26.8", 184, 352, GO_LABELS_SLICE},
        {"go1.27", 184, 352, GO_LABELS_SLICE},
        {"go1.28", 0, 0, 0},
        {"go2.20", 0, 0, 0},
        {"go1.27rc2", 0, 0, 0},
        {"devel go1.27-abcdef", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct go_file file = x86_file();
        struct go_binary go;
        file.version = cases[i].version;
        go_file_make(&file);
        assert_int_equal(find(&file, &go), cases[i].form ? 0 : GO_BINARY_UNSUPPORTED);
        assert_true(go.found);
        assert_int_equal(go.labels_form, cases[i].form);
        assert_int_equal(go.g_m, cases[i].form ? 48 : 0);
        assert_int_equal(go.m_curg, cases[i].curg);
        assert_int_equal(go.g_labels, cases[i].labels);
    }
}

static void g_on_x86(void **state)
{
    (void)state;
    uint8_t other[sizeof(load_direct)]; /* a function that only begins alike */
    memcpy(other, load_direct, sizeof(other));
    other[sizeof(other) - 1] = 0x90;
    const struct {
        struct bytes code;
        bool in_word;
        int64_t offset;
    } cases[] = {
        {BYTES(load_direct, sizeof(load_direct)), false, -80},
        {BYTES(load_by_immediate, sizeof(load_by_immediate)), false, -16},
        {BYTES(load_by_word, sizeof(load_by_word)), true, 0},
        {BYTES(other, sizeof(other)), false, -8},
        {BYTES(NULL, 0), false, -8},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct go_file file = file_of(EM_X86_64, cases[i].code.data, cases[i].code.len);
        struct go_binary go;
        go_file_make(&file);
        assert_int_equal(find(&file, &go), 0);
        assert_int_equal(go.g_in_word, cases[i].in_word);
        assert_int_equal(go.g_offset, cases[i].offset);
        assert_int_equal(go.g_vaddr, cases[i].in_word ? 0x402107 : 0);
        assert_false(go.g_in_register);
    }
}

/* load_g: where iscgo is, then the offset in one or two words. */
#define A64_HEAD 0xb000001b, 0x398c0360, 0xb4000080, 0xd53bd040 /* adrp x27 of the next page */
#define A64_TAIL 0xf87b681c, 0xd65f03c0
/* Forms of older versions: add x27, x27, #0x300; ldrsb x0, [x27]; at the end add x0, x0, x27. */
#define A64_ADD_HEAD 0xb000001b, 0x910c037b, 0x39800360
#define A64_ADD_TAIL 0x8b1b0000, 0xf940001c, 0xd65f03c0

static void g_on_aarch64(void **state)
{
    (void)state;
    const uint32_t mov[] = {A64_HEAD, 0xd280021b, A64_TAIL};              /* 16 */
    const uint32_t movk[] = {A64_HEAD, 0xd2a0003b, 0xf280021b, A64_TAIL}; /* 0x10010 */
    const uint32_t word[] = {A64_HEAD, 0xb000001b, 0xf940077b, A64_TAIL}; /* next page, 8 */
    const uint32_t add[] = {A64_ADD_HEAD, 0xb4000080, 0xd53bd040, 0xd280021b, A64_TAIL}; /* 1.16 */
    const uint32_t go_1_15[] = {A64_ADD_HEAD, 0xb40000a0, 0xd53bd040, 0xd280021b, A64_ADD_TAIL};
    const uint32_t go_1_15_pie[] = {A64_ADD_HEAD, 0xb40000c0, 0xd53bd040,
                                    0xd2a0003b,   0xf280021b, A64_ADD_TAIL};
    const uint32_t go_1_13[] = {A64_ADD_HEAD, 0xeb1f001f, 0x540000a0,
                                0xd53bd040,   0xd280021b, A64_ADD_TAIL};
    const uint32_t other_reg[] = {0xb000001a, 0x910c037b, 0x39800360, 0xb4000080,
                                  0xd53bd040, 0xd280021b, A64_TAIL}; /* adrp x26 */
    const uint32_t unknown[] = {A64_HEAD, 0xd503201f, A64_TAIL};
    const struct {
        struct bytes code;
        bool cgo, in_word, in_register;
        int64_t offset;
    } cases[] = {
        {BYTES(mov, sizeof(mov)), true, false, false, 16},
        {BYTES(movk, sizeof(movk)), true, false, false, 0x10010},
        {BYTES(word, sizeof(word)), true, true, false, 0},
        {BYTES(mov, sizeof(mov)), false, false, true, 0},
        {BYTES(movk, sizeof(movk)), false, false, true, 0},
        {BYTES(add, sizeof(add)), true, false, false, 16},
        {BYTES(add, sizeof(add)), false, false, true, 0},
        {BYTES(go_1_15, sizeof(go_1_15)), true, false, false, 16},
        {BYTES(go_1_15_pie, sizeof(go_1_15_pie)), true, false, false, 0x10010},
        {BYTES(go_1_13, sizeof(go_1_13)), true, false, false, 16},
        {BYTES(go_1_13, sizeof(go_1_13)), false, false, true, 0},
        {BYTES(other_reg, sizeof(other_reg)), true, false, true, 0},
        {BYTES(unknown, sizeof(unknown)), true, false, true, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct go_file file = file_of(EM_AARCH64, cases[i].code.data, cases[i].code.len);
        struct go_binary go;
        file.cgo = cases[i].cgo;
        go_file_make(&file);
        assert_int_equal(find(&file, &go), 0);
        assert_int_equal(go.g_in_word, cases[i].in_word);
        assert_int_equal(go.g_in_register, cases[i].in_register);
        assert_int_equal(go.g_offset, cases[i].offset);
        assert_int_equal(go.g_vaddr, cases[i].in_word ? 0x402008 : 0);
    }
}

static int read_word(void *context, uint64_t address, void *out, size_t size)
{
    assert_int_equal(address, 0x7000402107);
    assert_int_equal(size, 8);
    if (!context)
        return -EFAULT;
    memcpy(out, context, size);
    return 0;
}

static void locate(void **state)
{
    (void)state;
    struct go_binary go;
    struct context_variable variable;
    struct thread_local_process process = {.read = read_word, .is_executable = true};
    struct go_file file = x86_file();
    go_file_make(&file);
    assert_int_equal(find(&file, &go), 0);
    assert_int_equal(go_binary_locate(&go, &process, &variable), 0);
    assert_int_equal(variable.source, CONTEXT_GO_LABELS);
    assert_int_equal(variable.thread_local_model, THREAD_LOCAL_STATIC);
    assert_int_equal(variable.offset, -80);
    assert_int_equal(variable.go_form, GO_LABELS_SLICE);
    assert_int_equal(variable.go_g_m, 48);
    assert_int_equal(variable.go_m_curg, 184);
    assert_int_equal(variable.go_g_labels, 352);
    process.is_executable = false;
    assert_int_equal(go_binary_locate(&go, &process, &variable), THREAD_LOCAL_UNRESOLVED);
}

static void locate_by_word(void **state)
{
    (void)state;
    struct go_binary go;
    struct context_variable variable;
    struct go_file file = file_of(EM_X86_64, load_by_word, sizeof(load_by_word));
    go_file_make(&file);
    assert_int_equal(find(&file, &go), 0);
    struct thread_local_process process = {
        .read = read_word, .is_executable = true, .bias = 0x7000000000};
    const struct {
        int64_t word;
        int outcome;
    } cases[] = {{-120, 0},
                 {0, THREAD_LOCAL_UNRESOLVED},
                 {INT64_MAX, THREAD_LOCAL_UNRESOLVED},
                 {INT64_MIN, THREAD_LOCAL_UNRESOLVED}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int64_t word = cases[i].word;
        process.context = &word;
        assert_int_equal(go_binary_locate(&go, &process, &variable), cases[i].outcome);
        assert_int_equal(variable.offset, cases[i].outcome ? 0 : word);
    }
    process.context = NULL;
    assert_int_equal(go_binary_locate(&go, &process, &variable), -EFAULT);
}

static void locate_register(void **state)
{
    (void)state;
    struct go_binary go;
    struct context_variable variable;
    struct thread_local_process process = {.read = read_word, .is_executable = true};
    struct go_file file = file_of(EM_AARCH64, NULL, 0);
    go_file_make(&file);
    assert_int_equal(find(&file, &go), 0);
    assert_int_equal(go_binary_locate(&go, &process, &variable), 0);
    assert_int_equal(variable.source, CONTEXT_GO_LABELS);
    assert_int_equal(variable.thread_local_model, THREAD_LOCAL_NONE);
    assert_int_equal(variable.go_m_curg, 184);
}

/* No length or pointer leads out of the file or the version's room. */
static void lies(void **state)
{
    (void)state;
    struct go_binary go;
    const uint8_t lengths[] = {0, 127, 128, 200, 255};
    for (size_t i = 0; i < sizeof(lengths); i++) {
        struct go_file file = x86_file();
        go_file_make(&file);
        file.bytes[0x440 + 32] = lengths[i];
        assert_int_equal(find(&file, &go), ELF_MALFORMED);
        assert_false(go.found);
    }
    const uint64_t pointers[] = {1, 0x4023fd, 0x402400, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof(pointers) / sizeof(*pointers); i++) {
        struct go_file file = x86_file();
        file.form = GO_FILE_POINTERS;
        go_file_make(&file);
        memcpy(file.bytes + 0x440 + 16, &pointers[i], 8);
        assert_int_equal(find(&file, &go), ELF_MALFORMED);
        go_file_make(&file);
        memcpy(file.bytes + 0x580 + 8, &pointers[i], 8); /* the string's length */
        assert_true(find(&file, &go) != 0);
        assert_int_equal(go.labels_form, 0);
    }
}

/* Wherever the file is cut, and whatever byte of it is another, there is an outcome. */
static void damaged(void **state)
{
    (void)state;
    struct go_file file = file_of(EM_AARCH64, NULL, 0);
    file.form = GO_FILE_RELOCATIONS;
    struct go_binary go;
    struct elf elf;
    go_file_make(&file);
    for (size_t cut = sizeof(file.bytes); cut > 0; cut -= cut > 0x200 ? 7 : 1) {
        int fd = go_file_open(&file);
        assert_int_equal(ftruncate(fd, (off_t)cut), 0);
        if (!elf_open(fd, &elf) && !go_binary_find(&elf, &go) && go.found)
            assert_int_equal(go.minor, 26);
        close(fd);
    }
    for (size_t at = 0; at < sizeof(file.bytes); at++) {
        file.bytes[at] ^= 0xff;
        find(&file, &go);
        file.bytes[at] ^= 0xff;
    }
}

struct matches {
    size_t n, wanted;
    uint64_t vaddr[8];
};

static bool take(void *context, uint64_t vaddr, const uint8_t *match)
{
    struct matches *matches = context;
    assert_memory_equal(match, "needle", 6);
    for (int i = -ELF_SEARCH_AROUND; i < ELF_SEARCH_AROUND; i++) /* ASan: all of it is readable */
        assert_true(match[i] == match[i]);
    matches->vaddr[matches->n++] = vaddr;
    return matches->n == matches->wanted;
}

/* Matches at the ends and across windows are each seen once. */
static void search(void **state)
{
    (void)state;
    const size_t size = 0x90000;
    const uint64_t places[] = {0, 0x3fffd, 0x40000 - 6 + 64, 0x7ffff, 0x8fff0, size - 6};
    struct elf elf = {.fd = memfd_create("search", MFD_CLOEXEC), .size = size, .n_segments = 1};
    elf.segments[0] = (Elf64_Phdr){.p_type = PT_LOAD,
                                   .p_flags = PF_R | PF_X,
                                   .p_vaddr = 0x10000000,
                                   .p_filesz = UINT64_MAX}; /* the file's end counts */
    assert_int_equal(ftruncate(elf.fd, (off_t)size), 0);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(pwrite(elf.fd, "needle", 6, (off_t)places[i]), 6);
    struct matches all = {.wanted = SIZE_MAX}, even = {.wanted = 1}, none = {0};
    struct elf_search search = {.segment_flags = PF_X,
                                .needle = BYTES_LIT("needle"),
                                .align = 1,
                                .bytes_max = UINT64_MAX,
                                .take = take,
                                .context = &all};
    assert_int_equal(elf_search(&elf, &search), ELF_MISSING);
    assert_int_equal(all.n, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(all.vaddr[i], 0x10000000 + places[i]);
    search.align = 16;
    search.context = &even;
    assert_int_equal(elf_search(&elf, &search), 0);
    assert_int_equal(even.vaddr[0], 0x10000000);
    search.bytes_max = 5;
    search.context = &none;
    assert_int_equal(elf_search(&elf, &search), ELF_MISSING);
    search.bytes_max = UINT64_MAX;
    search.segment_flags = PF_W;
    assert_int_equal(elf_search(&elf, &search), ELF_MISSING);
    assert_int_equal(none.n, 0);
    close(elf.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_of_build_info),
        cmocka_unit_test(only_executables),
        cmocka_unit_test(no_go),
        cmocka_unit_test(versions),
        cmocka_unit_test(offsets_by_version),
        cmocka_unit_test(g_on_x86),
        cmocka_unit_test(g_on_aarch64),
        cmocka_unit_test(locate),
        cmocka_unit_test(locate_by_word),
        cmocka_unit_test(locate_register),
        cmocka_unit_test(lies),
        cmocka_unit_test(damaged),
        cmocka_unit_test(search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
