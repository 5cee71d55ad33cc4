/* SPDX-License-Identifier: Apache-2.0 */
/* Runtimes as they are installed here, each that there is; and small files of the linker's. */
#include "agent-bpf/runtimes/runtime_find.h"
#include "test/support/fixtures/skip.h"
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

static enum runtime runtime_of(const char *path)
{
    struct elf elf;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("%s cannot be opened", path);
    int error = elf_open(fd, &elf);
    if (error)
        fail_msg("%s: elf_open() = %d", path, error);
    enum runtime runtime = runtime_find(&elf);
    close(fd);
    return runtime;
}

static void assert_runtime(const char *path, enum runtime expected)
{
    enum runtime found = runtime_of(path);
    if (found != expected)
        fail_msg("%s is \"%s\", not \"%s\"", path, runtime_row(found)->id,
                 runtime_row(expected)->id);
}

static void assert_all(const char *pattern, enum runtime expected)
{
    glob_t found;
    char reason[256];
    snprintf(reason, sizeof(reason), "there is no %s", pattern);
    if (glob(pattern, GLOB_BRACE | GLOB_TILDE, NULL, &found)) {
        globfree(&found);
        skip_because(reason);
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        assert_runtime(found.gl_pathv[i], expected);
    globfree(&found);
}

static void python(void **state)
{
    (void)state;
    assert_all("{/usr/bin/python3.[0-9]*[0-9],/usr/lib/*/libpython3.*[0-9].so,"
               "~/.pyenv/versions/*/lib/libpython[23].*[0-9m].so}",
               RUNTIME_PYTHON);
}

/* A launcher of a shared libpython is nothing by itself, nor is the library of the stable ABI. */
static void python_launcher(void **state)
{
    (void)state;
    assert_all("~/.pyenv/versions/3.*/lib/libpython3.so", RUNTIME_UNKNOWN);
}

static void java(void **state)
{
    (void)state;
    assert_all("/usr/lib/jvm/*/lib/server/libjvm.so", RUNTIME_JAVA);
}

static void java_launcher(void **state)
{
    (void)state;
    assert_all("/usr/lib/jvm/*/bin/java", RUNTIME_UNKNOWN);
}

static void node(void **state)
{
    (void)state;
    assert_all("{/usr/bin/nodejs,/usr/bin/node,/usr/lib/*/libnode.so.*}", RUNTIME_NODE);
}

static void go(void **state)
{
    (void)state;
    assert_all("{/usr/local/go/bin/go,/usr/local/go/bin/gofmt,/usr/lib/go-*/bin/go}", RUNTIME_GO);
}

static void rust(void **state)
{
    (void)state;
    assert_all("{~/.cargo/bin/cargo,~/.rustup/toolchains/*/bin/cargo,/usr/bin/rustc}",
               RUNTIME_RUST);
}

static void php(void **state)
{
    (void)state;
    assert_all("/usr/bin/php[78].*", RUNTIME_PHP);
}

static void ruby(void **state)
{
    (void)state;
    assert_all("/usr/lib/*/libruby-*.so.*", RUNTIME_RUBY);
}

static void beam(void **state)
{
    (void)state;
    assert_all("/usr/lib/erlang/erts-*/bin/beam.smp", RUNTIME_BEAM);
}

static void perl(void **state)
{
    (void)state;
    assert_all("{/usr/bin/perl,/usr/lib/*/libperl.so.5.*}", RUNTIME_PERL);
}

static void luajit(void **state)
{
    (void)state;
    assert_all("{/usr/bin/luajit,/usr/lib/*/libluajit-5.1.so.*}", RUNTIME_LUAJIT);
}

/* Stripped. */
static void by_exports(void **state)
{
    (void)state;
    assert_runtime(RUNTIMES_FOLDER "/libruntime_lib_dotnet.so", RUNTIME_DOTNET);
    assert_runtime(RUNTIMES_FOLDER "/libruntime_lib_php.so", RUNTIME_PHP);
    assert_runtime(RUNTIMES_FOLDER "/libruntime_lib_beam.so", RUNTIME_BEAM);
    assert_runtime(RUNTIMES_FOLDER "/libruntime_lib_perl.so", RUNTIME_PERL);
    assert_runtime(RUNTIMES_FOLDER "/libruntime_lib_luajit.so", RUNTIME_LUAJIT);
    assert_runtime(RUNTIMES_FOLDER "/libruntime_lib_ruby.so", RUNTIME_RUBY);
    assert_runtime(RUNTIMES_FOLDER "/libruntime_lib_user.so", RUNTIME_UNKNOWN);
}

static void by_paths_of_sources(void **state)
{
    (void)state;
    assert_runtime(RUNTIMES_FOLDER "/runtime_rust_paths", RUNTIME_RUST);
    assert_runtime(RUNTIMES_FOLDER "/runtime_no_rust", RUNTIME_UNKNOWN);
}

static void none(void **state)
{
    (void)state;
    assert_runtime("/proc/self/exe", RUNTIME_UNKNOWN);
    assert_runtime("/bin/sh", RUNTIME_UNKNOWN);
    assert_all("/lib/*-linux-gnu/libc.so.6", RUNTIME_UNKNOWN);
}

static size_t read_all(const char *path, uint8_t *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, out, size);
    close(fd);
    assert_true(n > 0);
    return (size_t)n;
}

/* Cut anywhere, and with a byte changed anywhere: some answer, within its memory. */
static void hostile(void **state)
{
    static uint8_t original[65536], bytes[65536];
    (void)state;
    size_t size = read_all(RUNTIMES_FOLDER "/runtime_rust_paths", original, sizeof(original));
    int fd = memfd_create("hostile", MFD_CLOEXEC);
    for (size_t i = 0; i < size; i += 1 + i / 64) {
        struct elf elf;
        memcpy(bytes, original, size);
        bytes[i] ^= 0x81;
        for (int cut = 0; cut < 2; cut++) {
            size_t length = cut ? i : size;
            assert_int_equal(ftruncate(fd, (off_t)length), 0);
            assert_int_equal(pwrite(fd, bytes, length, 0), length);
            if (!elf_open(fd, &elf))
                assert_true(runtime_find(&elf) < RUNTIME_NATIVE);
        }
    }
    close(fd);
}

static void rows(void **state)
{
    (void)state;
    for (unsigned runtime = RUNTIME_UNKNOWN + 1; runtime < RUNTIMES; runtime++) {
        const struct runtime_row *row = runtime_row(runtime);
        assert_true(*row->id && row->exports && row->line);
        assert_true(!*row->where || !*row->by_hand); /* code or a command */
        assert_int_equal(!*row->variable, !*row->mark);
        assert_true(!*row->variable || *row->line); /* who has a variable has a line that sets it */
        for (unsigned other = 0; other < runtime; other++)
            assert_string_not_equal(row->id, runtime_row(other)->id);
    }
    assert_string_equal(runtime_row(RUNTIME_UNKNOWN)->id, "");
    assert_string_equal(runtime_row(RUNTIMES)->line, "");
    assert_string_equal(runtime_row(UINT32_MAX)->line, "");
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(python),
        T(python_launcher),
        T(java),
        T(java_launcher),
        T(node),
        T(go),
        T(rust),
        T(php),
        T(ruby),
        T(by_exports),
        T(beam),
        T(perl),
        T(luajit),
        T(none),
        T(hostile),
        T(rows),
        T(by_paths_of_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
