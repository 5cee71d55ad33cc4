/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/hotspot/hotspot_decode.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void assert_number(struct bytes bytes, unsigned excluded, uint32_t expected, size_t used)
{
    struct bytes rest = bytes;
    uint32_t value;
    assert_true(hotspot_unsigned5(&rest, excluded, &value));
    assert_int_equal(value, expected);
    assert_int_equal(bytes.len - rest.len, used);
}

static void numbers(void **state)
{
    (void)state;
    assert_number(BYTES_LIT("\x00"), 0, 0, 1);
    assert_number(BYTES_LIT("\xbf\x01"), 0, 191, 1);
    assert_number(BYTES_LIT("\xc0\x00"), 0, 192, 2);
    assert_number(BYTES_LIT("\xff\x02"), 0, 255 + 2 * 64, 2);
    assert_number(BYTES_LIT("\x01"), 1, 0, 1);
    assert_number(BYTES_LIT("\xc0\x01"), 1, 191, 1);
    assert_number(BYTES_LIT("\xc1\x01"), 1, 192, 2);
    assert_number(BYTES_LIT("\xff\xff\xff\xff\xff\x01"), 0, (uint32_t)0xff * 0x01041041u, 5);
}

static void numbers_cut(void **state)
{
    const struct bytes bad[] = {BYTES_LIT(""), BYTES_LIT("\xc0"), BYTES_LIT("\xff\xff\xff\xff")};
    uint32_t value;
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct bytes rest = bad[i];
        assert_false(hotspot_unsigned5(&rest, 0, &value));
    }
    struct bytes zero = BYTES_LIT("\x00\x05"); /* no byte of a number is 0 since 20 */
    assert_false(hotspot_unsigned5(&zero, 1, &value));
}

static void scopes(void **state)
{
    struct hotspot_scope scope;
    (void)state;
    assert_true(hotspot_scope_read(BYTES_LIT("\x05\x02\x08"), 0, &scope));
    assert_int_equal(scope.sender, 5);
    assert_int_equal(scope.metadata, 2);
    assert_int_equal(scope.bci, 7);
    assert_true(hotspot_scope_read(BYTES_LIT("\x01\x03\x01"), 1, &scope));
    assert_int_equal(scope.sender, 0);
    assert_int_equal(scope.metadata, 2);
    assert_int_equal(scope.bci, 0); /* in front of the first bytecode */
    assert_false(hotspot_scope_read(BYTES_LIT("\x05\x02"), 0, &scope));
    assert_false(hotspot_scope_read(BYTES_LIT("\x05\x02\xff\xff\xff\xff\xff"), 0, &scope));
}

static void lines(void **state)
{
    /* 0: line 7; 3: 9; 9: 8, by numbers of their own; 12: 8 */
    const struct bytes table = BYTES_LIT("\x07\x1a\xff\x0c\x01\x18\x00");
    const struct {
        uint16_t bci;
        uint32_t line;
    } cases[] = {{0, 7}, {2, 7}, {3, 9}, {8, 9}, {9, 8}, {11, 8}, {12, 8}, {500, 8}};
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(hotspot_line_of(table, 0, cases[i].bci), cases[i].line);
}

/* Entries go back where javac has moved code. */
static void lines_unsorted(void **state)
{
    /* 10: line 5 (wide), 0: line 6 (wide back), 4: line 7 */
    const struct bytes table = BYTES_LIT("\xff\x14\x0a\xff\x13\x02\x21\x00");
    (void)state;
    assert_int_equal(hotspot_line_of(table, 0, 3), 6);
    assert_int_equal(hotspot_line_of(table, 0, 4), 7);
    assert_int_equal(hotspot_line_of(table, 0, 10), 5);
}

static void lines_cut(void **state)
{
    (void)state;
    assert_int_equal(hotspot_line_of(BYTES_LIT(""), 0, 3), 0);
    assert_int_equal(hotspot_line_of(BYTES_LIT("\x07\x1a"), 0, 1), 7); /* one behind it is there */
    assert_int_equal(hotspot_line_of(BYTES_LIT("\x07\x1a"), 0, 5), 0); /* the next may be missing */
    assert_int_equal(hotspot_line_of(BYTES_LIT("\x07\xff"), 0, 5), 0);
    assert_int_equal(hotspot_line_of(BYTES_LIT("\x00"), 0, 5), 0);
}

/* No bytes lead out of the table or to a line below 0. */
static void hostile(void **state)
{
    (void)state;
    srand(1);
    for (unsigned round = 0; round < 20000; round++) {
        uint8_t *table = malloc(16);
        for (unsigned i = 0; i < 16; i++)
            table[i] = (uint8_t)(rand() & 7 ? rand() : 0xff);
        assert_true(hotspot_line_of(BYTES(table, round % 17), round & 1, (uint16_t)rand()) <=
                    INT32_MAX);
        free(table);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(numbers),        T(numbers_cut), T(scopes),  T(lines),
        T(lines_unsorted), T(lines_cut),   T(hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
