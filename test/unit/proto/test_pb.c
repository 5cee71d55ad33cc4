/* SPDX-License-Identifier: Apache-2.0 */
#include "common.pb-c.h"
#include "profiles.pb-c.h"
#include "proto/pb.h"
#include "proto/wire.h"
#include "test/support/fixtures/pb_pack.h"
#include "trace_service.pb-c.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

typedef Opentelemetry__Proto__Common__V1__AnyValue AnyValue;
typedef Opentelemetry__Proto__Common__V1__KeyValue KeyValue;
typedef Opentelemetry__Proto__Profiles__V1development__Sample Sample;

static const ProtobufCMessageDescriptor *const any_value =
    &opentelemetry__proto__common__v1__any_value__descriptor;
static const ProtobufCMessageDescriptor *const key_value =
    &opentelemetry__proto__common__v1__key_value__descriptor;
static const ProtobufCMessageDescriptor *const status =
    &opentelemetry__proto__trace__v1__status__descriptor;
static const ProtobufCMessageDescriptor *const sample =
    &opentelemetry__proto__profiles__v1development__sample__descriptor;

#define CHECK(descriptor, ...)                                                                     \
    pb_check((descriptor),                                                                         \
             BYTES(((const uint8_t[]){__VA_ARGS__}), sizeof((const uint8_t[]){__VA_ARGS__})))

/* AnyValues and ArrayValues in turn, `depth` messages with the outermost. */
static void nest(struct buf *out, size_t depth)
{
    for (size_t i = 1; i < depth; i++) { /* from the innermost outwards */
        _cleanup_buf_ struct buf inner = BUF_INIT(0);
        bool in_array = (depth - i) % 2 == 0;
        assert_int_equal(buf_append_bytes(&inner, buf_bytes(out)), 0);
        buf_clear(out);
        assert_int_equal(wire_put_bytes(out, in_array ? 1 : 5, buf_bytes(&inner)), 0);
    }
}

static void test_depth_is_limited(void **state)
{
    (void)state;
    for (size_t depth = 1; depth < 2 * PB_DEPTH_MAX; depth++) {
        _cleanup_buf_ struct buf message = BUF_INIT(0);
        nest(&message, depth);
        int outcome = depth <= PB_DEPTH_MAX ? PB_OK : PB_MALFORMED;
        assert_int_equal(pb_check(any_value, buf_bytes(&message)), outcome);
    }
}

static void test_deep_input_does_not_reach_the_decoder(void **state)
{
    _cleanup_buf_ struct buf message = BUF_INIT(0);
    struct arena arena;
    ProtobufCMessage *decoded = (ProtobufCMessage *)(void *)&arena;
    (void)state;
    nest(&message, 5000);
    arena_init(&arena, 1 << 20);
    assert_int_equal(pb_unpack(any_value, buf_bytes(&message), &arena, &decoded), PB_MALFORMED);
    assert_null(decoded);
    assert_int_equal(arena.used_bytes, 0);
    arena_close(&arena);
}

static void test_strings_are_utf8(void **state)
{
    (void)state;
    assert_int_equal(CHECK(key_value, 0x0a, 2, 0xc3, 0xa4), PB_OK);
    assert_int_equal(CHECK(key_value, 0x0a, 1, 0xc3), PB_MALFORMED);
    assert_int_equal(CHECK(key_value, 0x0a, 9, '1', '2', '3', '4', '5', '6', '7', '8', 0xff),
                     PB_MALFORMED);
    assert_int_equal(CHECK(key_value, 0x0a, 9, 0xff, '2', '3', '4', '5', '6', '7', '8', '9'),
                     PB_MALFORMED);
    assert_int_equal(CHECK(any_value, 0x0a, 3, 0xed, 0xa0, 0x80), PB_MALFORMED); /* surrogate */
    assert_int_equal(CHECK(any_value, 0x3a, 1, 0xff), PB_OK);                    /* bytes */
    assert_int_equal(CHECK(key_value, 0x7a, 1, 0xff), PB_OK);                    /* unknown */
    assert_int_equal(CHECK(key_value, 0x12, 3, 0x0a, 1, 0xff), PB_MALFORMED);    /* nested */
}

static void test_known_fields_have_their_type(void **state)
{
    (void)state;
    assert_int_equal(CHECK(key_value, 0x08, 1), PB_MALFORMED);          /* a string as varint */
    assert_int_equal(CHECK(key_value, 0x10, 1), PB_MALFORMED);          /* a message as varint */
    assert_int_equal(CHECK(any_value, 0x15, 0, 0, 0, 0), PB_MALFORMED); /* a bool as fixed32 */
    assert_int_equal(CHECK(any_value, 0x1a, 1, 1), PB_MALFORMED);       /* not repeated */
    assert_int_equal(CHECK(any_value, 0x18, 0xff), PB_MALFORMED);       /* cut short */
    assert_int_equal(CHECK(any_value, 0x12, 0), PB_MALFORMED);          /* a bool as bytes */
    assert_int_equal(CHECK(status, 0x12, 1, 'x', 0x18, 0x63), PB_OK);   /* an enumerator to come */
    assert_int_equal(CHECK(status, 0x08, 1, 0xfd, 0x7f, 1, 2, 3, 4), PB_OK); /* unknown fields */
    assert_int_equal(CHECK(status, 0x0b, 0x0c), PB_MALFORMED);               /* an unknown group */
    assert_int_equal(pb_check(status, BYTES(NULL, 0)), PB_OK);
}

static void test_repeated_numbers_are_packed_or_not(void **state)
{
    (void)state;
    assert_int_equal(CHECK(sample, 0x12, 3, 1, 0x80, 1), PB_OK);
    assert_int_equal(CHECK(sample, 0x12, 2, 1, 0x80), PB_MALFORMED);
    assert_int_equal(CHECK(sample, 0x10, 1, 0x10, 2), PB_OK);
    assert_int_equal(CHECK(sample, 0x2a, 8, 1, 2, 3, 4, 5, 6, 7, 8), PB_OK);
    assert_int_equal(CHECK(sample, 0x2a, 7, 1, 2, 3, 4, 5, 6, 7), PB_MALFORMED);
    assert_int_equal(CHECK(sample, 0x29, 1, 2, 3, 4, 5, 6, 7, 8), PB_OK);
    assert_int_equal(CHECK(sample, 0x2d, 1, 2, 3, 4), PB_MALFORMED);
}

/* A request with something of each kind. */
static void make_request(struct buf *out)
{
    Opentelemetry__Proto__Common__V1__ArrayValue array =
        OPENTELEMETRY__PROTO__COMMON__V1__ARRAY_VALUE__INIT;
    AnyValue value = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__INIT;
    AnyValue list = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__INIT;
    KeyValue pair = OPENTELEMETRY__PROTO__COMMON__V1__KEY_VALUE__INIT;
    value.value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE;
    value.string_value = (char *)"a value";
    AnyValue *values[40];
    for (size_t i = 0; i < 40; i++)
        values[i] = &value;
    array.values = values;
    array.n_values = 40;
    list.value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_ARRAY_VALUE;
    list.array_value = &array;
    pair.key = (char *)"a.key";
    pair.value = &list;
    pb_pack(&pair.base, out);
}

/* Whatever allocation it is that fails, at whatever limit: an outcome, and no fault. */
static void test_unpack_keeps_to_the_arena(void **state)
{
    _cleanup_buf_ struct buf message = BUF_INIT(0);
    size_t enough = 0;
    (void)state;
    make_request(&message);
    for (size_t limit = 0; limit < 64 << 10 && !enough; limit += 16) {
        struct arena arena;
        ProtobufCMessage *decoded;
        arena_init(&arena, limit);
        int outcome = pb_unpack(key_value, buf_bytes(&message), &arena, &decoded);
        assert_true(arena.used_bytes <= limit);
        if (outcome == PB_OK) {
            enough = limit;
            const KeyValue *pair = (const KeyValue *)(const void *)decoded;
            assert_string_equal(pair->key, "a.key");
            assert_int_equal(pair->value->array_value->n_values, 40);
            assert_string_equal(pair->value->array_value->values[39]->string_value, "a value");
        } else {
            assert_int_equal(outcome, PB_TOO_BIG);
            assert_null(decoded);
        }
        arena_close(&arena);
    }
    assert_true(enough > message.len);
}

/* Empty spans take two bytes each, and more than a hundred once decoded. */
static void test_bodies_that_swell_are_refused(void **state)
{
    static uint8_t spans[(1 << 20) + 4];
    const ProtobufCMessageDescriptor *scope =
        &opentelemetry__proto__trace__v1__scope_spans__descriptor;
    (void)state;
    for (size_t i = 0; i < sizeof(spans); i += 2)
        spans[i] = 0x12;
    assert_int_equal(pb_check(scope, BYTES(spans, 2000)), PB_OK); /* a few are no matter */
    assert_int_equal(pb_check(scope, BYTES(spans, sizeof(spans))), PB_TOO_BIG);
}

/* A value that comes twice and says nothing either time: legal, but not to protobuf-c. */
static void test_what_cannot_be_merged(void **state)
{
    static const uint8_t twice[] = {0x12, 2, 0x4a, 0, 0x12, 2, 0x4a, 0};
    struct arena arena;
    ProtobufCMessage *decoded;
    (void)state;
    arena_init(&arena, 1 << 20);
    assert_int_equal(pb_check(key_value, BYTES(twice, sizeof(twice))), PB_OK);
    int outcome = pb_unpack(key_value, BYTES(twice, sizeof(twice)), &arena, &decoded);
    assert_int_not_equal(outcome, PB_TOO_BIG); /* PB_OK by a protobuf-c that merges them */
    assert_int_equal(outcome == PB_OK, decoded != NULL);
    arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_depth_is_limited),
        cmocka_unit_test(test_deep_input_does_not_reach_the_decoder),
        cmocka_unit_test(test_strings_are_utf8),
        cmocka_unit_test(test_known_fields_have_their_type),
        cmocka_unit_test(test_repeated_numbers_are_packed_or_not),
        cmocka_unit_test(test_unpack_keeps_to_the_arena),
        cmocka_unit_test(test_bodies_that_swell_are_refused),
        cmocka_unit_test(test_what_cannot_be_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
