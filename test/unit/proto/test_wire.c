/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define READ(...)    READ_(((const uint8_t[]){__VA_ARGS__}))
#define READ_(array) wire_read(BYTES(array, sizeof(array)))

static const uint64_t numbers[] = {
    0, 1, 127, 128, 300, 16383, 16384, UINT32_MAX, UINT64_C(1) << 56, INT64_MAX, UINT64_MAX};
#define N_NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static void test_what_is_written_is_read(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct wire_field field;
    (void)state;
    for (size_t i = 0; i < N_NUMBERS; i++) {
        assert_int_equal(wire_put_varint(&out, 1, numbers[i]), 0);
        assert_int_equal(wire_put_fixed64(&out, 15, numbers[i]), 0);
        assert_int_equal(wire_put_fixed32(&out, 16, (uint32_t)numbers[i]), 0);
    }
    assert_int_equal(wire_put_bytes(&out, WIRE_FIELD_MAX, BYTES_LIT("hello")), 0);
    assert_int_equal(wire_put_bytes(&out, 2, BYTES(NULL, 0)), 0);
    struct wire_reader reader = wire_read(buf_bytes(&out));
    for (size_t i = 0; i < N_NUMBERS; i++) {
        assert_int_equal(wire_next(&reader, &field), WIRE_FIELD);
        assert_true(field.number == 1 && field.type == WIRE_VARINT && field.value == numbers[i]);
        assert_int_equal(field.raw.len, 1 + wire_varint_size(numbers[i]));
        assert_int_equal(wire_next(&reader, &field), WIRE_FIELD);
        assert_true(field.number == 15 && field.type == WIRE_FIXED64 && field.value == numbers[i]);
        assert_int_equal(wire_next(&reader, &field), WIRE_FIELD);
        assert_true(field.number == 16 && field.type == WIRE_FIXED32);
        assert_int_equal(field.value, (uint32_t)numbers[i]);
        assert_int_equal(field.raw.len, 2 + 4);
    }
    assert_int_equal(wire_next(&reader, &field), WIRE_FIELD);
    assert_true(field.number == WIRE_FIELD_MAX && bytes_is(field.bytes, "hello"));
    assert_int_equal(field.raw.len, wire_bytes_size(WIRE_FIELD_MAX, 5));
    assert_int_equal(wire_next(&reader, &field), WIRE_FIELD);
    assert_true(field.number == 2 && field.bytes.len == 0);
    assert_int_equal(wire_next(&reader, &field), WIRE_END);
    assert_int_equal(wire_next(&reader, &field), WIRE_END);
}

static void test_nothing_is_no_field(void **state)
{
    struct wire_reader reader = wire_read(BYTES(NULL, 0));
    struct wire_field field;
    uint64_t value;
    (void)state;
    assert_int_equal(wire_next(&reader, &field), WIRE_END);
    assert_false(wire_next_varint(&reader, &value));
}

static void assert_malformed(struct wire_reader reader)
{
    const uint8_t *at = reader.at;
    struct wire_field field;
    assert_int_equal(wire_next(&reader, &field), WIRE_MALFORMED);
    assert_ptr_equal(reader.at, at);
    assert_int_equal(wire_next(&reader, &field), WIRE_MALFORMED);
}

static void test_malformed_fields_are_refused(void **state)
{
    (void)state;
    assert_malformed(READ(0x0b));                                     /* start of a group */
    assert_malformed(READ(0x0c));                                     /* its end */
    assert_malformed(READ(0x0e, 0));                                  /* type 6 */
    assert_malformed(READ(0x0f, 0));                                  /* type 7 */
    assert_malformed(READ(0x00, 0));                                  /* field 0 */
    assert_malformed(READ(0x02, 0));                                  /* field 0 */
    assert_malformed(READ(0x88, 0x80, 0x80, 0x80, 0x10, 0));          /* field 2^29 */
    assert_malformed(READ(0x88, 0x80, 0x80, 0x80, 0x80, 0x00, 0));    /* a tag of 6 bytes */
    assert_malformed(READ(0x08));                                     /* no value */
    assert_malformed(READ(0x08, 0x80));                               /* half a value */
    assert_malformed(READ(0x88));                                     /* half a tag */
    assert_malformed(READ(0x09, 1, 2, 3, 4, 5, 6, 7));                /* 7 of 8 bytes */
    assert_malformed(READ(0x0d, 1, 2, 3));                            /* 3 of 4 */
    assert_malformed(READ(0x0a, 2, 'x'));                             /* 1 of 2 */
    assert_malformed(READ(0x0a));                                     /* no length */
    assert_malformed(READ(0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f));       /* 4 GiB */
    assert_malformed(READ(0x0a, 0x81, 0x80, 0x80, 0x80, 0x80, 0, 1)); /* a length of 6 bytes */
}

static void test_varints_end_at_64_bits(void **state)
{
    struct wire_reader most =
        READ(0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
    struct wire_reader padded = READ(0x08, 0x81, 0x80, 0x80, 0x80, 0x00);
    struct wire_field field;
    (void)state;
    assert_int_equal(wire_next(&most, &field), WIRE_FIELD);
    assert_true(field.value == UINT64_MAX);
    assert_int_equal(wire_next(&padded, &field), WIRE_FIELD);
    assert_int_equal(field.value, 1);
    assert_malformed(READ(0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02));
    assert_malformed(READ(0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00));
}

static void test_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NUMBERS; i++) {
        _cleanup_buf_ struct buf out = BUF_INIT(0);
        assert_int_equal(wire_put_bare_varint(&out, numbers[i]), 0);
        assert_int_equal(out.len, wire_varint_size(numbers[i]));
    }
    assert_int_equal(wire_varint_size(UINT64_MAX), 10);
    assert_int_equal(wire_tag_size(15), 1);
    assert_int_equal(wire_tag_size(16), 2);
    assert_int_equal(wire_tag_size(WIRE_FIELD_MAX), 5);
    assert_int_equal(wire_bytes_size(1, 127), 129);
    assert_int_equal(wire_bytes_size(1, 128), 131);
}

/* For each length about the steps of the length's own size, and room kept for more than that. */
static void test_nesting_closes_up(void **state)
{
    static const size_t lengths[] = {0, 1, 126, 127, 128, 129, 16383, 16384, 70000};
    static const uint8_t filler[70000] = {0x5a};
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        _cleanup_buf_ struct buf nested = BUF_INIT(0);
        _cleanup_buf_ struct buf plain = BUF_INIT(0);
        struct bytes inner = BYTES(filler, lengths[i]);
        struct wire_nest outer_nest, inner_nest;
        assert_int_equal(wire_begin(&nested, 3, 1 << 28, &outer_nest), 0);
        assert_int_equal(wire_begin(&nested, 1000, 70000, &inner_nest), 0);
        assert_int_equal(buf_append_bytes(&nested, inner), 0);
        wire_end(&nested, &inner_nest);
        assert_int_equal(wire_put_varint(&nested, 4, 7), 0);
        wire_end(&nested, &outer_nest);
        wire_put_header(&plain, 3, wire_bytes_size(1000, inner.len) + 2);
        wire_put_bytes(&plain, 1000, inner);
        wire_put_varint(&plain, 4, 7);
        assert_true(bytes_equal(buf_bytes(&nested), buf_bytes(&plain)));
    }
}

static void test_full_buffer_stays_as_it_is(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(4);
    struct wire_nest nest;
    (void)state;
    assert_int_equal(wire_put_varint(&out, 1, 1), 0);
    assert_int_equal(wire_put_varint(&out, 1, 1 << 20), BUF_FULL);
    assert_int_equal(wire_put_fixed64(&out, 1, 1), BUF_FULL);
    assert_int_equal(wire_put_fixed32(&out, 1, 1), BUF_FULL);
    assert_int_equal(wire_put_bytes(&out, 1, BYTES_LIT("x")), BUF_FULL);
    assert_int_equal(wire_put_header(&out, 1, 1 << 20), BUF_FULL);
    assert_int_equal(wire_put_bare_varint(&out, 1 << 20), BUF_FULL);
    assert_int_equal(wire_begin(&out, 1, 1000, &nest), BUF_FULL);
    assert_int_equal(out.len, 2);
    assert_memory_equal(out.data, ((uint8_t[]){0x08, 1}), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_nothing_is_no_field),
        cmocka_unit_test(test_malformed_fields_are_refused),
        cmocka_unit_test(test_varints_end_at_64_bits),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_nesting_closes_up),
        cmocka_unit_test(test_full_buffer_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
