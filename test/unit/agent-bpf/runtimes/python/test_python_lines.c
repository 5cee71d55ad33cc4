/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the standard libraries that are installed, against what their interpreters make of
 * them; and tables that no compiler writes. Arguments: code units for each interpreter, then the
 * interpreters (those of Debian).
 */
#include "agent-bpf/runtimes/python/python_lines.h"
#include "test/support/runtimes/pythons.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SCRIPT     SPANPROF_SOURCE_DIR "/test/support/runtimes/python/lines.py"
#define UNITS      "150000"
#define CODE_MAX   (8u << 20)
#define OLDEST     8
#define WRONG_TOLD 5

static const char *units = UNITS;

static void read_all(FILE *in, void *out, size_t size)
{
    if (fread(out, 1, size, in) != size)
        fail_msg("the interpreter's answer ends early");
}

static unsigned minor_of(const char *python)
{
    char command[512];
    unsigned minor = 0;
    snprintf(command, sizeof(command), "'%s' -c 'import sys; print(sys.version_info[1])'", python);
    FILE *in = popen(command, "r");
    if (!in || fscanf(in, "%u", &minor) != 1)
        fail_msg("%s does not run", python);
    pclose(in);
    return minor;
}

/* One code object: the number of its units; *wrong grows. */
static size_t compare_code(FILE *in, const int32_t head[3], enum python_lines_form form,
                           const char *python, size_t *wrong)
{
    static uint8_t table[CODE_MAX];
    int32_t expected[2];
    size_t padded = ((size_t)head[1] + 3) & ~(size_t)3;
    assert_in_range(padded, 0, sizeof(table));
    read_all(in, table, padded);
    for (int64_t lasti = 0; lasti < head[0]; lasti++) {
        read_all(in, expected, sizeof(expected));
        struct python_line line =
            python_line(form, BYTES(table, (size_t)head[1]), (uint32_t)head[2], lasti);
        if (line.line == (uint32_t)expected[0] && line.column == (uint32_t)expected[1])
            continue;
        if ((*wrong)++ < WRONG_TOLD)
            print_message("%s: first line %d, unit %ld of %d: %u:%u, not %d:%d\n", python, head[2],
                          (long)lasti, head[0], line.line, line.column, expected[0], expected[1]);
    }
    return (size_t)head[0];
}

static void compare_all(const char *python)
{
    char command[512];
    int32_t head[3];
    size_t n = 0, wrong = 0, codes = 0;
    unsigned minor = minor_of(python);
    if (minor < OLDEST) {
        print_message("%s: too old\n", python);
        return;
    }
    enum python_lines_form form = minor < 10    ? PYTHON_LNOTAB
                                  : minor == 10 ? PYTHON_LINETABLE
                                                : PYTHON_LOCATIONS;
    snprintf(command, sizeof(command), "'%s' '%s' %s", python, SCRIPT, units);
    FILE *in = popen(command, "r");
    assert_non_null(in);
    for (; fread(head, 1, sizeof(head), in) == sizeof(head); codes++)
        n += compare_code(in, head, form, python, &wrong);
    assert_int_equal(pclose(in), 0);
    print_message("%s: %zu code objects, %zu code units, %zu wrong\n", python, codes, n, wrong);
    assert_int_equal(wrong, 0);
    assert_true(n > 1000);
}

static void standard_library(void **state)
{
    (void)state;
    each_python(compare_all);
}

static void in_front_of_the_first(void **state)
{
    static const uint8_t table[] = {0xf8, 0xf8};
    (void)state;
    for (enum python_lines_form form = PYTHON_LNOTAB; form <= PYTHON_LOCATIONS; form++)
        assert_int_equal(python_line(form, BYTES(table, sizeof(table)), 17, -1).line, 17);
}

/* "No line" holds for its entry alone: the running line is kept (CPython's locations.md). */
static void no_line_keeps_the_running_line(void **state)
{
    /* 1 unit without a line; 1 unit: one line further; columns 4 to 9 */
    static const uint8_t table[] = {0xf8, 0xd8, 4, 9};
    (void)state;
    struct bytes bytes = BYTES(table, sizeof(table));
    assert_int_equal(python_line(PYTHON_LOCATIONS, bytes, 10, 0).line, 0);
    assert_int_equal(python_line(PYTHON_LOCATIONS, bytes, 10, 1).line, 11);
    assert_int_equal(python_line(PYTHON_LOCATIONS, bytes, 10, 1).column, 5);
    assert_int_equal(python_line(PYTHON_LOCATIONS, bytes, 10, 2).line, 0);
}

/* Any bytes: some answer, within the table. */
static void hostile(void **state)
{
    uint8_t table[64];
    (void)state;
    srand(1);
    for (int turn = 0; turn < 20000; turn++) {
        size_t size = (size_t)rand() % sizeof(table);
        uint8_t *exact = malloc(size + 1);
        for (size_t i = 0; i < size; i++)
            exact[i] = (uint8_t)(rand() % 4 ? rand() : 0xff);
        for (enum python_lines_form form = PYTHON_LNOTAB; form <= PYTHON_LOCATIONS; form++) {
            struct python_line line =
                python_line(form, BYTES(exact, size), UINT32_MAX >> rand() % 32, rand() % 100);
            assert_true(line.line <= INT32_MAX && line.column <= INT32_MAX);
        }
        free(exact);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(standard_library),
        cmocka_unit_test(in_front_of_the_first),
        cmocka_unit_test(no_line_keeps_the_running_line),
        cmocka_unit_test(hostile),
    };
    if (argc > 1)
        units = argv[1];
    pythons = argv + 2;
    n_pythons = argc > 2 ? argc - 2 : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
