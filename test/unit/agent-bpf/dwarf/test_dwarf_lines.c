/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose lines are known, as compilers write its DWARF in all versions. */
#include "agent-bpf/dwarf/dwarf_lines.h"
#include "agent-bpf/files/elf_symtab.h"
#include "base/clock.h"
#include "test/support/fixtures/skip.h"
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define PATH_BYTES 512

static struct dwarf_function found[DWARF_FUNCTIONS_AT_MAX];

static struct elf opened(const char *path)
{
    struct elf elf;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(elf_open(fd, &elf), 0);
    return elf;
}

/* What is known of the code at a symbol. */
static size_t find_at(const char *path, const char *shared_path, const char *symbol,
                      uint64_t deadline_ns)
{
    struct elf elf = opened(path), shared = {.fd = -1};
    struct elf_symbol at;
    struct dwarf_lines *lines;
    if (shared_path)
        shared = opened(shared_path);
    assert_int_equal(elf_symtab_find(&elf, symbol, STT_NOTYPE, &at), 0);
    assert_int_equal(dwarf_lines_open(&elf, &elf, shared_path ? &shared : NULL, &lines), 0);
    close(elf.fd); /* it keeps its own */
    close(shared.fd);
    size_t n = dwarf_lines_find(lines, at.symbol.st_value, deadline_ns, found);
    assert_int_equal(dwarf_lines_find(lines, at.symbol.st_value, deadline_ns, found), n);
    assert_true(dwarf_lines_bytes(lines) < DWARF_LOADED_BYTES_MAX);
    dwarf_lines_close(lines);
    return n;
}

static void assert_function(size_t i, const char *name, const char *file, uint32_t line)
{
    const char *base = strrchr(found[i].file, '/');
    assert_non_null(base);
    assert_int_equal(found[i].file[0], '/');
    assert_string_equal(found[i].name, name);
    assert_string_equal(base + 1, file);
    assert_int_equal(found[i].line, line);
}

static void check(const char *path, const char *shared)
{
    assert_int_equal(find_at(path, shared, "lines_marker", UINT64_MAX), 3);
    assert_function(0, "innermost", "lines_innermost.h", 103);
    assert_function(1, "middle", "lines_middle.h", 202);
    assert_function(2, "outer", "lines_program.c", 302);
}

static void check_deep(const char *path, const char *shared)
{
    assert_int_equal(find_at(path, shared, "lines_deep_marker", UINT64_MAX),
                     DWARF_FUNCTIONS_AT_MAX);
    size_t last = DWARF_FUNCTIONS_AT_MAX - 1;
    assert_function(last, "deep", "lines_deep.h", 602);
    for (size_t i = 0; i < last; i++) {
        char name[32];
        size_t depth = 35 - last + i;
        snprintf(name, sizeof(name), "deep%zu", depth);
        assert_function(i, name, "lines_deep.h", 500 + (uint32_t)depth);
    }
}

static void in_all_forms(void **state)
{
    struct dirent *entry;
    unsigned n = 0;
    (void)state;
    DIR *directory = opendir(LINES_PROGRAMS);
    assert_non_null(directory);
    while ((entry = readdir(directory))) {
        char path[PATH_BYTES];
        if (entry->d_name[0] == '.' || strchr(entry->d_name, '.'))
            continue;
        snprintf(path, sizeof(path), LINES_PROGRAMS "/%s", entry->d_name);
        print_message("%s\n", entry->d_name);
        check(path, NULL);
        check_deep(path, NULL);
        n++;
    }
    closedir(directory);
    assert_true(n >= 8);
}

/* dwz moves what programs have in common to a file of its own. */
static void shared(void **state)
{
    char directory[] = "/tmp/spanprof-lines-XXXXXX", command[1024], one[64], common[64];
    (void)state;
    if (system("command -v dwz >/dev/null"))
        skip_because("no dwz");
    assert_non_null(mkdtemp(directory));
    snprintf(one, sizeof(one), "%s/one", directory);
    snprintf(common, sizeof(common), "%s/common", directory);
    snprintf(command, sizeof(command),
             "cp " LINES_PROGRAMS "/gcc5 %s && cp %s %s/two && dwz -l none -L none -m %s %s %s/two",
             one, one, directory, common, one, directory);
    assert_int_equal(system(command), 0);
    check(one, common);
    check_deep(one, common);
    assert_int_equal(find_at(one, NULL, "lines_marker", UINT64_MAX), 1); /* nameless without */
    snprintf(command, sizeof(command), "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

/* Split DWARF has its entries elsewhere: what is left is the line. */
static void split(void **state)
{
    (void)state;
    const char *path = LINES_PROGRAMS "/split.out";
    assert_int_equal(find_at(path, NULL, "lines_marker", UINT64_MAX), 1);
    assert_function(0, "", "lines_innermost.h", 103);
}

static void too_late(void **state)
{
    (void)state;
    assert_int_equal(find_at(LINES_PROGRAMS "/gcc5", NULL, "lines_marker", 0), 0);
}

static void without(void **state)
{
    (void)state;
    struct dwarf_lines *lines;
    struct elf elf = opened(LINES_PROGRAMS "/none.out");
    assert_int_equal(dwarf_lines_open(&elf, &elf, NULL, &lines), ELF_MISSING);
    close(elf.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_all_forms), cmocka_unit_test(shared),  cmocka_unit_test(split),
        cmocka_unit_test(too_late),     cmocka_unit_test(without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
