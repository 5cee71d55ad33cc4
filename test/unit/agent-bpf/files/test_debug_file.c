/* SPDX-License-Identifier: Apache-2.0 */
/* A stripped program is named by the file that its symbols were moved to. */
#include "agent-bpf/files/debug_file.h"
#include "agent-bpf/files/elf_symtab.h"
#include "agent-bpf/symbols/function_names.h"
#include "test/support/fixtures/skip.h"
#include "test/support/rigs/reader_rig.h"
#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define FUNCTION "known_by_symtab"
#define STRIPPED NAMES_FILES ".stripped"
#define DEBUG    NAMES_FILES ".debug"

static char directory[64];

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/spanprof-debug-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command);
}

static struct elf opened(const char *path)
{
    struct elf elf;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(elf_open(fd, &elf), 0);
    return elf;
}

static uint64_t function_address(void)
{
    struct elf elf = opened(NAMES_PROGRAM);
    struct elf_symbol found;
    assert_int_equal(elf_symtab_find(&elf, FUNCTION, STT_FUNC, &found), 0);
    close(elf.fd);
    return found.symbol.st_value;
}

static bool is_named(const char *path, uint32_t pid)
{
    struct elf elf = opened(path);
    struct function_names *names;
    struct function_name name;
    assert_int_equal(function_names_open(&elf, pid, &names), 0);
    close(elf.fd); /* they keep their own */
    bool found = !function_names_find(names, function_address() + 2, &name);
    if (found)
        assert_string_equal(name.function, FUNCTION);
    function_names_close(names);
    return found;
}

static void not_stripped(void **state)
{
    (void)state;
    assert_true(is_named(NAMES_PROGRAM, 0));
    assert_false(is_named(STRIPPED, 0));
}

static void *read_file(const char *path, size_t *size)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && !fstat(fd, &status));
    void *data = malloc((size_t)status.st_size);
    assert_non_null(data);
    assert_int_equal(read(fd, data, (size_t)status.st_size), status.st_size);
    close(fd);
    *size = (size_t)status.st_size;
    return data;
}

static void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

/* A process whose root holds such a debug file, of that owner; it waits to be killed. */
static pid_t process_with(const char *debug, uid_t owner)
{
    struct elf elf = opened(STRIPPED);
    struct elf_build_ids ids;
    char hex[64], path[256], command[2048];
    assert_int_equal(elf_build_ids(&elf, &ids), 0);
    close(elf.fd);
    assert_int_equal(ids.gnu_len, 20);
    bytes_to_hex(BYTES(ids.gnu, ids.gnu_len), hex);
    snprintf(path, sizeof(path), "%s/usr/lib/debug/.build-id/%.2s", directory, hex);
    snprintf(command, sizeof(command),
             "mkdir -p %s && rm -f %s/%s.debug && cp %s %s/%s.debug && chown %u %s/%s.debug", path,
             path, hex + 2, debug, path, hex + 2, owner, path, hex + 2);
    assert_int_equal(system(command), 0);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (!pid) {
        if (chroot(directory) || chdir("/") || write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static bool is_named_in(const char *debug, uid_t owner)
{
    pid_t pid = process_with(debug, owner);
    bool named = is_named(STRIPPED, (uint32_t)pid);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return named;
}

static void in_the_root_of_a_process(void **state)
{
    (void)state;
    struct stat status;
    if (geteuid() || stat(STRIPPED, &status))
        skip_because("needs root and an installed file without symbols");
    assert_true(is_named_in(DEBUG, 0));
    assert_true(is_named_in(DEBUG, status.st_uid));
    assert_false(is_named_in(DEBUG, 4711));  /* of a stranger */
    assert_false(is_named_in(STRIPPED, 0));  /* no symbols in it */
    assert_false(is_named_in("/bin/sh", 0)); /* another build id */
}

/* The stripped program with these bytes as its .gnu_debugdata. */
static const char *program_with(const void *data, size_t size)
{
    static char program[128];
    char section[128], command[512];
    snprintf(program, sizeof(program), "%s/program", directory);
    snprintf(section, sizeof(section), "%s/section", directory);
    write_file(section, data, size);
    snprintf(command, sizeof(command), "%s --add-section .gnu_debugdata=%s %s %s", OBJCOPY, section,
             STRIPPED, program);
    assert_int_equal(system(command), 0);
    return program;
}

static uint8_t *compress(const void *data, size_t size, size_t *compressed_size)
{
    size_t room = lzma_stream_buffer_bound(size);
    uint8_t *compressed = malloc(room);
    assert_non_null(compressed);
    *compressed_size = 0;
    assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, data, size, compressed,
                                             compressed_size, room),
                     LZMA_OK);
    return compressed;
}

static int decode(const char *path)
{
    struct elf elf = opened(path);
    size_t size;
    int fd = -1;
    int error = debug_file_decode(&elf, &fd, &size);
    assert_true((fd >= 0) == !error);
    if (!error)
        close(fd);
    close(elf.fd);
    return error;
}

static void inside_of_the_program(void **state)
{
    (void)state;
    size_t size, compressed_size;
    void *debug = read_file(DEBUG, &size);
    uint8_t *compressed = compress(debug, size, &compressed_size);
    assert_true(is_named(program_with(compressed, compressed_size), 0));
    assert_int_equal(decode(program_with(compressed, compressed_size)), 0);
    assert_int_equal(decode(program_with(compressed, compressed_size / 2)), ELF_MALFORMED);
    assert_false(is_named(program_with(compressed, compressed_size / 2), 0));
    compressed[compressed_size / 2] ^= 0xff;
    assert_int_equal(decode(program_with(compressed, compressed_size)), ELF_MALFORMED);
    assert_int_equal(decode(program_with(debug, size)), ELF_MALFORMED); /* not compressed */
    assert_int_equal(decode(STRIPPED), ELF_MISSING);
    free(compressed);
    free(debug);
}

static void endless(void **state)
{
    (void)state;
    size_t compressed_size, size = DEBUG_FILE_MEMORY_MAX + (1u << 20);
    uint8_t *zeros = calloc(1, size);
    uint8_t *compressed = compress(zeros, size, &compressed_size);
    assert_true(compressed_size < size / DEBUG_FILE_RATIO_MAX);
    assert_int_equal(decode(program_with(compressed, compressed_size)), ELF_MALFORMED);
    free(compressed);
    for (size_t i = 0; i < size; i++) /* within the ratio, but too much */
        zeros[i] = (uint8_t)(i % 16 ? 0 : rand());
    compressed = compress(zeros, size, &compressed_size);
    assert_true(compressed_size > size / DEBUG_FILE_RATIO_MAX);
    assert_true(compressed_size < DEBUG_FILE_DATA_MAX);
    assert_int_equal(decode(program_with(compressed, compressed_size)), ELF_MALFORMED);
    free(compressed);
    free(zeros);
}

int main(void)
{
    reader_rig_attach();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_stripped),
        cmocka_unit_test(in_the_root_of_a_process),
        cmocka_unit_test(inside_of_the_program),
        cmocka_unit_test(endless),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
