/* SPDX-License-Identifier: Apache-2.0 */
/* Small tables of each form; test/peers has those of the toolchains. */
#include "agent-bpf/go/go_symbols.h"
#include "test/support/fixtures/go_table.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static int open_table(struct bytes table, enum go_table_module module, bool sections,
                      struct go_symbols **symbols)
{
    struct elf elf;
    int fd = go_table_file(table, module, sections);
    assert_int_equal(elf_open(fd, &elf), 0);
    int error = go_symbols_open(&elf, symbols);
    close(fd); /* they keep their own */
    return error;
}

static void expect(const struct go_symbols *symbols, uint64_t at, const char *function,
                   const char *file, uint32_t line)
{
    struct function_name name;
    assert_int_equal(go_symbols_find(symbols, GO_TABLE_TEXT + at, &name), 0);
    assert_string_equal(name.function, function);
    assert_string_equal(name.file, file);
    assert_string_equal(name.system_name, "");
    assert_int_equal(name.line, line);
}

static void expect_all(const struct go_symbols *symbols)
{
    struct function_name name;
    expect(symbols, 0, "main.first", "/src/a.go", 10);
    expect(symbols, 0x1f, "main.first", "/src/a.go", 10);
    expect(symbols, 0x20, "main.first", "/src/a.go", 12);
    expect(symbols, 0x40, "main.second", "/src/a.go", 30);
    expect(symbols, 0x40 + 0x7f, "main.second", "/src/a.go", 30);
    expect(symbols, 0x40 + 0x80, "main.second", "/src/a.go", 0); /* inlined there */
    expect(symbols, 0x40 + 0x8f, "main.second", "/src/a.go", 0);
    expect(symbols, 0xff, "main.second", "/src/a.go", 30);
    assert_int_equal(go_symbols_find(symbols, GO_TABLE_TEXT + 0x100, &name), ELF_MISSING);
    assert_int_equal(go_symbols_find(symbols, GO_TABLE_TEXT - 1, &name), ELF_MISSING);
    assert_int_equal(go_symbols_find(symbols, 0, &name), ELF_MISSING);
    assert_int_equal(go_symbols_find(symbols, UINT64_MAX, &name), ELF_MISSING);
}

static const struct go_table_form forms[] = {
    {.magic = 0xfb},
    {.magic = 0xfa},
    {.magic = 0xf0, .text_word = GO_TABLE_TEXT},
    {.magic = 0xf1, .text_word = GO_TABLE_TEXT},
};

static void each_form(void **state)
{
    uint8_t table[GO_TABLE_SIZE];
    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        for (int sections = 0; sections < 2; sections++) {
            struct go_symbols *symbols;
            go_table_make(&forms[i], table);
            assert_int_equal(
                open_table(BYTES(table, sizeof(table)), GO_TABLE_NO_MODULE, sections, &symbols), 0);
            expect_all(symbols);
            go_symbols_close(symbols);
        }
    }
}

/* As since Go 1.26, and in position independent programs. */
static void text_of_the_module(void **state)
{
    const struct go_table_form form = {.magic = 0xf1};
    uint8_t table[GO_TABLE_SIZE];
    struct go_symbols *symbols;
    (void)state;
    go_table_make(&form, table);
    struct bytes bytes = BYTES(table, sizeof(table));
    assert_int_equal(open_table(bytes, GO_TABLE_NO_MODULE, true, &symbols), ELF_MISSING);
    assert_int_equal(open_table(bytes, GO_TABLE_MODULE, true, &symbols), 0);
    expect_all(symbols);
    go_symbols_close(symbols);
    assert_int_equal(open_table(bytes, GO_TABLE_RELOCATED, true, &symbols), 0);
    expect_all(symbols);
    go_symbols_close(symbols);
}

static void not_relocated(void **state)
{
    const struct go_table_form form = {.magic = 0xfa};
    uint8_t table[GO_TABLE_SIZE];
    struct go_symbols *symbols;
    (void)state;
    go_table_make(&form, table);
    memset(table + 0x50, 0, 8); /* as in a position independent program */
    assert_int_equal(open_table(BYTES(table, sizeof(table)), GO_TABLE_MODULE, true, &symbols),
                     ELF_MISSING);
}

/* Every address, with each byte of the table turned over in turn, and with each length of it. */
static void damaged(void **state)
{
    uint8_t table[GO_TABLE_SIZE];
    struct go_symbols *symbols;
    struct function_name name;
    size_t opened = 0;
    (void)state;
    for (size_t form = 0; form < sizeof(forms) / sizeof(*forms); form++) {
        for (size_t i = 0; i < GO_TABLE_SIZE; i++) {
            go_table_make(&forms[form], table);
            table[i] = (uint8_t)~table[i];
            size_t size = i % 2 ? sizeof(table) : i;
            if (open_table(BYTES(table, size), GO_TABLE_MODULE, true, &symbols))
                continue;
            opened++;
            for (uint64_t at = 0; at < 0x110; at += 0x10)
                if (!go_symbols_find(symbols, GO_TABLE_TEXT + at, &name))
                    assert_true(*name.function && bytes_utf8_valid(BYTES_STR(name.file)));
            go_symbols_close(symbols);
        }
    }
    assert_true(opened > GO_TABLE_SIZE);
}

/* Counts that reach beyond everything. */
static void lies(void **state)
{
    const uint64_t numbers[] = {UINT64_MAX, UINT64_MAX / 8, UINT64_MAX / 8 + 2, 1u << 30, 0};
    uint8_t table[GO_TABLE_SIZE];
    struct go_symbols *symbols;
    struct function_name name;
    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        for (size_t word = 1; word < 9; word++) {
            go_table_make(&forms[3], table);
            memcpy(table + 8 * word, &numbers[i], 8);
            if (open_table(BYTES(table, sizeof(table)), GO_TABLE_NO_MODULE, true, &symbols))
                continue;
            for (uint64_t at = 0; at < 0x110; at += 0x10)
                go_symbols_find(symbols, GO_TABLE_TEXT + at, &name);
            go_symbols_close(symbols);
        }
    }
}

/* Arguments DIRECTORY: writes the tables there, seeds for fuzzing. */
static int write_tables(const char *directory)
{
    uint8_t table[GO_TABLE_SIZE];
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/go%zu", directory, i);
        FILE *file = fopen(path, "wb");
        go_table_make(&forms[i], table);
        if (!file || fwrite(table, sizeof(table), 1, file) != 1 || fclose(file))
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form),     cmocka_unit_test(text_of_the_module),
        cmocka_unit_test(not_relocated), cmocka_unit_test(damaged),
        cmocka_unit_test(lies),
    };
    return argc > 1 ? write_tables(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
