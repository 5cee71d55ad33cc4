/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are a CPython, as they are installed and made by the linker; and others. */
#include "agent-bpf/runtimes/python/python_reader.h"
#include "agent-bpf/runtimes/python/python_file.h"
#include "agent-bpf/runtimes/runtime_evaluation.h"
#include "test/support/fixtures/skip.h"
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static int open_file(const char *path, struct python_constants *constants,
                     enum runtime_refusal *why)
{
    struct elf elf;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("%s cannot be opened", path);
    int error = elf_open(fd, &elf);
    error = error ? -EINVAL : python_file_open(&elf, constants, why);
    close(fd);
    return error;
}

/* The version is in the path: ".../3.12.1/..." or "python3.11". */
static unsigned minor_of(const char *path)
{
    const char *at = strstr(path, "3.");
    return at ? (unsigned)atoi(at + 2) : 0;
}

static void installed(void **state)
{
    glob_t found;
    (void)state;
    if (glob("{/usr/bin/python3.[0-9]*[0-9],~/.pyenv/versions/3.*/lib/libpython3.*.so.1.0}",
             GLOB_BRACE | GLOB_TILDE, NULL, &found)) {
        globfree(&found);
        skip_because("there is no Python");
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        struct python_constants constants;
        enum runtime_refusal why;
        unsigned minor = minor_of(path);
        int error = open_file(path, &constants, &why);
        if (minor < 7) /* without _PyRuntime */
            assert_int_equal(error, -ENOENT);
        if (minor == 7)
            assert_int_equal(error, -ENOTSUP);
        if (minor < 8)
            continue;
        if (error)
            fail_msg("%s: %d, %d", path, error, why);
        assert_int_equal(PYTHON_MINOR(constants.layout.version), minor);
        assert_true(constants.evaluation[0].end - constants.evaluation[0].start > 10000);
        assert_int_equal(constants.current != PYTHON_CURRENT_NONE, minor >= 12);
        assert_true(constants.code_type);
    }
    globfree(&found);
}

static void others(void **state)
{
    struct python_constants constants;
    enum runtime_refusal why;
    (void)state;
    assert_int_equal(open_file("/proc/self/exe", &constants, &why), -ENOENT);
    assert_int_equal(open_file("/bin/sh", &constants, &why), -ENOENT);
}

/* By symbols, and in a stripped file by its FDEs and jumps. */
static void parts_of_the_evaluation_function(void **state)
{
    struct python_constants whole, stripped;
    enum runtime_refusal why;
    (void)state;
    assert_int_equal(open_file(RUNTIMES_FOLDER "/libruntime_python_whole.so", &whole, &why), 0);
    assert_int_equal(open_file(RUNTIMES_FOLDER "/libruntime_python_stripped.so", &stripped, &why),
                     0);
    assert_int_equal(whole.layout.version, 0x030b05f0);
    assert_true(whole.evaluation[1].end > whole.evaluation[1].start);
    assert_memory_equal(whole.evaluation, stripped.evaluation, sizeof(whole.evaluation));
}

static void the_reader(void **state)
{
    struct runtime_constants *constants = NULL;
    enum runtime_refusal why;
    struct elf elf;
    (void)state;
    int fd = open(RUNTIMES_FOLDER "/libruntime_python_whole.so", O_RDONLY | O_CLOEXEC);
    assert_int_equal(elf_open(fd, &elf), 0);
    assert_int_equal(python_reader_open(&elf, &constants, &why), 0);
    python_reader_close(constants);
    close(fd);
}

/* Cut anywhere, and with a byte changed anywhere: some answer, within its memory. */
static void hostile(void **state)
{
    static uint8_t original[65536], bytes[65536];
    struct python_constants constants;
    enum runtime_refusal why;
    struct elf elf;
    (void)state;
    int fd = open(RUNTIMES_FOLDER "/libruntime_python_stripped.so", O_RDONLY | O_CLOEXEC);
    ssize_t size = read(fd, original, sizeof(original));
    close(fd);
    assert_true(size > 0);
    fd = memfd_create("hostile", MFD_CLOEXEC);
    for (ssize_t i = 0; i < size; i += 1 + i / 256) {
        memcpy(bytes, original, sizeof(bytes));
        bytes[i] ^= 0x81;
        for (int cut = 0; cut < 2; cut++) {
            ssize_t length = cut ? i : size;
            assert_int_equal(ftruncate(fd, length), 0);
            assert_int_equal(pwrite(fd, bytes, (size_t)length, 0), length);
            if (!elf_open(fd, &elf) && !python_file_open(&elf, &constants, &why))
                for (int part = 0; part < RUNTIME_EVALUATION_MAX; part++)
                    assert_true(constants.evaluation[part].end - constants.evaluation[part].start <=
                                1u << 20);
        }
    }
    close(fd);
}

/* A function of nothing but jumps to what no FDE is of, and as many FDEs as may be: the search
 * ends.
 */
static void jumps(void **state)
{
    enum { TABLE = 4096, CODE = 16 << 20, SIZE = CODE + (1 << 20) };
    const Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                               .e_machine = EM_X86_64,
                               .e_type = ET_DYN,
                               .e_phoff = sizeof(header),
                               .e_phnum = 2,
                               .e_phentsize = sizeof(Elf64_Phdr)};
    const Elf64_Phdr segments[] = {
        {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = SIZE, .p_memsz = SIZE},
        {.p_type = PT_GNU_EH_FRAME, .p_vaddr = TABLE}};
    const uint32_t table[] = {0x3b031b01, 0, 1 << 20};
    const Elf64_Sym symbol = {.st_value = CODE, .st_size = SIZE - CODE};
    struct runtime_range ranges[RUNTIME_EVALUATION_MAX];
    struct timespec before, after;
    struct elf elf;
    (void)state;
    int fd = memfd_create("jumps", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    uint8_t *file = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(file, MAP_FAILED);
    memcpy(file, &header, sizeof(header));
    memcpy(file + sizeof(header), segments, sizeof(segments));
    memcpy(file + TABLE, table, sizeof(table));
    memset(file + CODE, 0xe9, SIZE - CODE);
    assert_int_equal(elf_open(fd, &elf), 0);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    runtime_evaluation_find(&elf, "", &symbol, ranges);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    assert_in_range(after.tv_sec - before.tv_sec, 0, 1);
    assert_int_equal(ranges[0].end, SIZE);
    assert_int_equal(ranges[1].end, 0);
    munmap(file, SIZE);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(installed),
        cmocka_unit_test(others),
        cmocka_unit_test(parts_of_the_evaluation_function),
        cmocka_unit_test(the_reader),
        cmocka_unit_test(hostile),
        cmocka_unit_test(jumps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
