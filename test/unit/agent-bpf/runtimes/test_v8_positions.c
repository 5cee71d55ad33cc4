/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as V8 writes them, both forms, and what is no table. */
#include "agent-bpf/runtimes/v8/v8_positions.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static struct v8_file file = {
    .version = V8_VERSION(12, 4),
    .n_bytecodes = 8,
    .bytecode_sizes = {{1, 1, 1, 1, 2, 3, 1, 4},
                       {1, 1, 1, 1, 3, 5, 1, 7},
                       {1, 1, 1, 1, 5, 9, 1, 9}},
};

static int32_t position(struct bytes table, uint64_t offset)
{
    int64_t found;
    return v8_positions_find(&file, table, offset, &found) ? V8_POSITION_SCRIPT(found) : -1;
}

/* Entries: code -1 at 100, 3 at 110, 7 at 105. A position is (offset + 1) << 1. */
static void signed_deltas(void **state)
{
    static const uint8_t bytes[] = {0x01, 0x94, 0x03, /* expression + 0, 202 */
                                    0x08, 0x28,       /* statement + 4, + 20 */
                                    0x09, 0x13};      /* expression + 4, - 10 */
    (void)state;
    file.version = V8_VERSION(12, 4);
    assert_int_equal(position(BYTES(bytes, sizeof(bytes)), 0), 100);
    assert_int_equal(position(BYTES(bytes, sizeof(bytes)), 2), 100);
    assert_int_equal(position(BYTES(bytes, sizeof(bytes)), 3), 110);
    assert_int_equal(position(BYTES(bytes, sizeof(bytes)), 6), 110);
    assert_int_equal(position(BYTES(bytes, sizeof(bytes)), 7), 105);
    assert_int_equal(position(BYTES(bytes, sizeof(bytes)), 1 << 20), 105);
}

/* The same: the lowest two bits are flags, the rest is what is added. */
static void flagged_deltas(void **state)
{
    static const uint8_t bytes[] = {0x02, 0x94, 0x03, 0x13, 0x28, 0x12, 0x13};
    (void)state;
    file.version = V8_VERSION(14, 1);
    assert_int_equal(position(BYTES(bytes, sizeof(bytes)), 2), 100);
    assert_int_equal(position(BYTES(bytes, sizeof(bytes)), 3), 110);
    assert_int_equal(position(BYTES(bytes, sizeof(bytes)), 7), 105);
}

static void inlined_parts(void **state)
{
    int64_t value = ((int64_t)3 << 31) | (101 << 1);
    (void)state;
    assert_int_equal(V8_POSITION_INLINED(value), 3);
    assert_int_equal(V8_POSITION_SCRIPT(value), 100);
    assert_false(V8_POSITION_EXTERNAL(value));
}

static void no_table(void **state)
{
    static const uint8_t endless[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t half[] = {0x02};
    int64_t found;
    (void)state;
    assert_false(v8_positions_find(&file, BYTES(NULL, 0), 5, &found));
    assert_false(v8_positions_find(&file, BYTES(half, sizeof(half)), 5, &found));
    assert_false(v8_positions_find(&file, BYTES(endless, sizeof(endless)), 5, &found));
}

static int32_t baseline(struct bytes table, struct bytes codes, uint64_t offset)
{
    int32_t found;
    return v8_positions_baseline(&file, table, codes, offset, &found) ? found : -2;
}

/* The first entry is what comes in front of bytecode 0. */
static void bytecodes(void **state)
{
    static const uint8_t codes[] = {4, 0, /* wide */ 0,       5, 0, 0, 0, 0,
                                    6, 1, /* extra wide */ 4, 0, 0, 0, 0, 6};
    static const uint8_t table[] = {0x20, 0x05, 0x80, 0x01, 0x03, 0x04, 0x02};
    struct bytes t = BYTES(table, sizeof(table)), c = BYTES(codes, sizeof(codes));
    (void)state;
    assert_int_equal(baseline(t, c, 0), -1);
    assert_int_equal(baseline(t, c, 31), -1);
    assert_int_equal(baseline(t, c, 32), 0);
    assert_int_equal(baseline(t, c, 36), 0);
    assert_int_equal(baseline(t, c, 37), 2);
    assert_int_equal(baseline(t, c, 37 + 127), 2);
    assert_int_equal(baseline(t, c, 37 + 128), 8);
    assert_int_equal(baseline(t, c, 37 + 128 + 3), 9);
    assert_int_equal(baseline(t, c, 37 + 128 + 7), 15);
    assert_int_equal(baseline(t, c, 37 + 128 + 9), -2); /* the table ends */
}

static void bad_bytecodes(void **state)
{
    static const uint8_t codes[] = {200, 0}, prefix[] = {0};
    static const uint8_t table[] = {1, 1, 1, 1};
    (void)state;
    assert_int_equal(baseline(BYTES(table, 4), BYTES(codes, 2), 3), -2);
    assert_int_equal(baseline(BYTES(table, 4), BYTES(prefix, 1), 3), -2);
    assert_int_equal(baseline(BYTES(table, 4), BYTES(NULL, 0), 3), -2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signed_deltas), cmocka_unit_test(flagged_deltas),
        cmocka_unit_test(inlined_parts), cmocka_unit_test(no_table),
        cmocka_unit_test(bytecodes),     cmocka_unit_test(bad_bytecodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
