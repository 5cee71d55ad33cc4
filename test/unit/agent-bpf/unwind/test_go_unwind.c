/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a small table of each form; test/peers compares those of the toolchains with readelf. */
#include "agent-bpf/unwind/eh_cfa.h"
#include "agent-bpf/unwind/go_unwind.h"
#include "test/support/fixtures/go_table.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define PAGE   (GO_TABLE_TEXT & ~(uint64_t)(UNWIND_PAGE_BYTES - 1))
#define FIRST  GO_TABLE_TEXT
#define SECOND (GO_TABLE_TEXT + 0x40)
#define END    (GO_TABLE_TEXT + 0x100)

static const struct go_table_form forms[] = {
    {.magic = 0xfb},
    {.magic = 0xfa},
    {.magic = 0xf0, .text_word = GO_TABLE_TEXT},
    {.magic = 0xf1, .text_word = GO_TABLE_TEXT},
};

#define N_FORMS (sizeof(forms) / sizeof(*forms))

static struct go_symbols *open_form(struct go_table_form form)
{
    static uint8_t table[GO_TABLE_SIZE];
    struct go_symbols *symbols;
    struct elf elf;
    go_table_make(&form, table);
    int fd = go_table_file(BYTES(table, sizeof(table)), GO_TABLE_NO_MODULE, true);
    assert_int_equal(elf_open(fd, &elf), 0);
    assert_int_equal(go_symbols_open(&elf, &symbols), 0);
    close(fd);
    return symbols;
}

/* ---- go_symbols_stacks() ---- */

struct told {
    struct go_stack stacks[8];
    size_t n;
};

static int take_stack(void *context, const struct go_stack *stack)
{
    struct told *told = context;
    assert_true(told->n < sizeof(told->stacks) / sizeof(*told->stacks));
    told->stacks[told->n++] = *stack;
    return 0;
}

static void expect_stack(const struct told *told, size_t i, struct go_stack expected)
{
    assert_true(i < told->n);
    assert_int_equal(told->stacks[i].start, expected.start);
    assert_int_equal(told->stacks[i].end, expected.end);
    assert_int_equal(told->stacks[i].depth, expected.depth);
    assert_int_equal(told->stacks[i].flags, expected.flags);
}

static void depths(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        struct told told = {0};
        struct go_symbols *symbols = open_form(forms[i]);
        assert_int_equal(go_symbols_stacks(symbols, 0, UINT64_MAX, take_stack, &told), 0);
        assert_int_equal(told.n, 5);
        expect_stack(&told, 0, (struct go_stack){FIRST, FIRST + 0x8, 0, 0});
        expect_stack(&told, 1, (struct go_stack){FIRST + 0x8, FIRST + 0x38, 0x20, 0});
        expect_stack(&told, 2, (struct go_stack){FIRST + 0x38, SECOND, 0, 0});
        expect_stack(&told, 3, (struct go_stack){SECOND, SECOND + 4, 0, 0});
        expect_stack(&told, 4, (struct go_stack){SECOND + 4, END, 0x10, 0});
        go_symbols_close(symbols);
    }
}

static void cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        struct told told = {0};
        struct go_symbols *symbols = open_form(forms[i]);
        uint64_t from = FIRST + 0x10, to = SECOND + 2;
        assert_int_equal(go_symbols_stacks(symbols, from, to, take_stack, &told), 0);
        assert_int_equal(told.n, 3);
        expect_stack(&told, 0, (struct go_stack){from, FIRST + 0x38, 0x20, 0});
        expect_stack(&told, 1, (struct go_stack){FIRST + 0x38, SECOND, 0, 0});
        expect_stack(&told, 2, (struct go_stack){SECOND, to, 0, 0});
        told.n = 0;
        assert_int_equal(go_symbols_stacks(symbols, END, UINT64_MAX, take_stack, &told), 0);
        go_symbols_stacks(symbols, 0, FIRST, take_stack, &told);
        assert_int_equal(told.n, 0);
        go_symbols_close(symbols);
    }
}

static uint8_t flags_of_second(struct go_table_form form)
{
    struct told told = {0};
    struct go_symbols *symbols = open_form(form);
    assert_int_equal(go_symbols_stacks(symbols, SECOND, END, take_stack, &told), 0);
    go_symbols_close(symbols);
    assert_int_equal(told.n, 2);
    assert_int_equal(told.stacks[0].flags, told.stacks[1].flags);
    return told.stacks[0].flags;
}

static void flags(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        struct go_table_form form = forms[i];
        form.flags = GO_FUNCTION_OUTERMOST;
        assert_int_equal(flags_of_second(form), i ? GO_FUNCTION_OUTERMOST : 0);
        form.flags = GO_FUNCTION_WRITES_SP;
        assert_int_equal(flags_of_second(form), i ? GO_FUNCTION_WRITES_SP : 0);
        form.second = "runtime.mcall"; /* said or not */
        assert_true(flags_of_second(form) & GO_FUNCTION_OUTERMOST);
    }
}

static void flags_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORMS - 1; i++) {
        struct go_table_form form = forms[i];
        form.second = "runtime.goexit";
        assert_int_equal(flags_of_second(form), GO_FUNCTION_OUTERMOST);
        form.second = "runtime.systemstack";
        assert_int_equal(flags_of_second(form), GO_FUNCTION_WRITES_SP);
        form.second = "runtime.systemstack_switch";
        assert_int_equal(flags_of_second(form), 0);
    }
}

static int refuse(void *context, const struct go_stack *stack)
{
    (void)context, (void)stack;
    return -ENOMEM;
}

static void stopped(void **state)
{
    struct go_symbols *symbols = open_form(forms[3]);
    (void)state;
    assert_int_equal(go_symbols_stacks(symbols, FIRST, END, refuse, NULL), -ENOMEM);
    go_symbols_close(symbols);
}

/* ---- go_unwind_page() ---- */

static struct unwind_rule by_sp(int32_t offset, int16_t fp_place, int16_t fp)
{
    return (struct unwind_rule){
        .cfa = UNWIND_REGISTER,
        .base = 7, /* rsp */
        .cfa_offset = offset,
        .offsets = {-1, fp, UNWIND_LOST},
        .places = (uint8_t)(fp_place << 2 * UNWIND_FP | UNWIND_IN_REGISTER << 2 * UNWIND_THIRD),
    };
}

static void expect_rule(const struct unwind_page *page, uint64_t address, struct unwind_rule rule)
{
    assert_memory_equal(unwind_page_find(page, address), &rule, sizeof(rule));
}

static const struct unwind_rule nothing = {.cfa = UNWIND_NO_INFO};
static const struct unwind_rule c_code = {.cfa = UNWIND_REGISTER, .base = 6, .cfa_offset = 16};

/* A page in which C code lies in front of Go's and behind, and says something within. */
static void open_page(struct go_table_form form, uint16_t machine, struct unwind_page *page)
{
    struct go_symbols *symbols = open_form(form);
    assert_int_equal(unwind_page_init(page, PAGE), 0);
    assert_int_equal(unwind_page_put(page, FIRST - 0x20, &c_code), 0);
    assert_int_equal(unwind_page_put(page, FIRST + 0x10, &nothing), 0);
    assert_int_equal(unwind_page_put(page, END - 0x10, &c_code), 0);
    assert_int_equal(unwind_page_put(page, END + 0x20, &nothing), 0);
    assert_int_equal(go_unwind_page(symbols, machine, page), 0);
    go_symbols_close(symbols);
}

static void rows(void **state)
{
    const struct unwind_rule on_entry = by_sp(8, UNWIND_IN_REGISTER, 6);
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        struct unwind_page page;
        open_page(forms[i], EM_X86_64, &page);
        expect_rule(&page, PAGE, nothing);
        expect_rule(&page, FIRST - 0x21, nothing);
        expect_rule(&page, FIRST - 0x20, c_code);
        expect_rule(&page, FIRST - 1, c_code);
        expect_rule(&page, FIRST, on_entry);
        expect_rule(&page, FIRST + 0x7, on_entry);
        expect_rule(&page, FIRST + 0x8, by_sp(0x28, UNWIND_AT_CFA, -2));
        expect_rule(&page, FIRST + 0x37, by_sp(0x28, UNWIND_AT_CFA, -2));
        expect_rule(&page, FIRST + 0x38, on_entry);
        expect_rule(&page, SECOND + 3, on_entry);
        expect_rule(&page, SECOND + 4, by_sp(0x18, UNWIND_AT_CFA, -2));
        expect_rule(&page, END - 1, by_sp(0x18, UNWIND_AT_CFA, -2));
        expect_rule(&page, END, c_code);
        expect_rule(&page, END + 0x20, nothing);
        unwind_page_close(&page);
    }
}

static void other_stacks(void **state)
{
    const struct unwind_rule changed = {
        .cfa = UNWIND_REGISTER,
        .base = 6, /* rbp */
        .cfa_offset = 16,
        .offsets = {-1, -2, UNWIND_LOST},
        .places = UNWIND_IN_REGISTER << 2 * UNWIND_THIRD,
        .flags = UNWIND_OTHER_STACK,
    };
    struct go_table_form form = forms[3];
    struct unwind_page page;
    (void)state;
    form.flags = GO_FUNCTION_WRITES_SP;
    open_page(form, EM_X86_64, &page);
    expect_rule(&page, FIRST + 0x8, by_sp(0x28, UNWIND_AT_CFA, -2));
    expect_rule(&page, SECOND, changed);
    expect_rule(&page, END - 1, changed);
    unwind_page_close(&page);
    form.flags |= GO_FUNCTION_OUTERMOST;
    open_page(form, EM_X86_64, &page);
    const struct unwind_rule *rule = unwind_page_find(&page, SECOND + 4);
    assert_int_equal(UNWIND_PLACE(rule, UNWIND_RA), UNWIND_IN_REGISTER);
    assert_int_equal(rule->offsets[UNWIND_RA], UNWIND_LOST);
    assert_int_equal(rule->flags, 0);
    unwind_page_close(&page);
}

/* The return address is kept in a register until there is a frame, then at its bottom. */
static void on_aarch64(void **state)
{
    struct unwind_rule leaf = {
        .cfa = UNWIND_REGISTER,
        .base = 31, /* sp */
        .offsets = {30, 29, UNWIND_LOST},
        .places = 0x3f,
    };
    struct unwind_rule framed = {
        .cfa = UNWIND_REGISTER,
        .base = 31,
        .cfa_offset = 0x20,
        .offsets = {0, -1, UNWIND_LOST},
        .places = UNWIND_AT_SP | UNWIND_AT_SP << 2 | UNWIND_IN_REGISTER << 4,
    };
    struct unwind_page page;
    (void)state;
    open_page(forms[3], EM_AARCH64, &page);
    expect_rule(&page, FIRST, leaf);
    expect_rule(&page, FIRST + 0x8, framed);
    unwind_page_close(&page);
}

static void other_machines(void **state)
{
    struct go_symbols *symbols = open_form(forms[3]);
    struct unwind_page page;
    (void)state;
    assert_int_equal(unwind_page_init(&page, PAGE), 0);
    assert_int_equal(go_unwind_page(symbols, EM_RISCV, &page), -EINVAL);
    assert_int_equal(page.n_rows, 1); /* as it was */
    unwind_page_close(&page);
    go_symbols_close(symbols);
}

/* Whatever a byte of the table says: rows in order, and none outside of Go's code. */
static void damaged(void **state)
{
    uint8_t table[GO_TABLE_SIZE];
    struct go_symbols *symbols;
    struct unwind_page page;
    struct elf elf;
    size_t made = 0;
    (void)state;
    for (size_t i = 0; i < N_FORMS * GO_TABLE_SIZE; i++) {
        go_table_make(&forms[i / GO_TABLE_SIZE], table);
        table[i % GO_TABLE_SIZE] ^= 0xff;
        int fd = go_table_file(BYTES(table, sizeof(table)), GO_TABLE_MODULE, true);
        int error = elf_open(fd, &elf);
        error = error ? error : go_symbols_open(&elf, &symbols);
        close(fd);
        if (error)
            continue;
        assert_int_equal(unwind_page_init(&page, PAGE), 0);
        assert_int_equal(go_unwind_page(symbols, EM_X86_64, &page), 0);
        for (uint32_t row = 1; row < page.n_rows; row++)
            assert_true(page.rows[row - 1].low < page.rows[row].low);
        made += page.n_rows > 1;
        unwind_page_close(&page);
        go_symbols_close(symbols);
    }
    assert_true(made > GO_TABLE_SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depths),         cmocka_unit_test(cut),
        cmocka_unit_test(flags),          cmocka_unit_test(flags_by_name),
        cmocka_unit_test(stopped),        cmocka_unit_test(rows),
        cmocka_unit_test(other_stacks),   cmocka_unit_test(on_aarch64),
        cmocka_unit_test(other_machines), cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
