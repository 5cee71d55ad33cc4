/* SPDX-License-Identifier: Apache-2.0 */
/* What writers say of their layout, as each version of them does and as none may. */
#include "agent-bpf/contexts/otel_context.h"
#include "context/context_layout.h"
#include "proto/wire.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

struct said {
    const char *key;
    int64_t value;
};

#define SAID_MAX 8
#define V8                                                                                         \
    {OTEL_NODEJS_TAGGED_SIZE_KEY, 8}, {OTEL_NODEJS_MAP_TABLE_KEY, 24},                             \
    {                                                                                              \
        OTEL_NODEJS_TABLE_HEADER_KEY, 16                                                           \
    }

static void put_string(struct buf *out, uint32_t field, const char *text)
{
    wire_put_bytes(out, field, BYTES(text, strlen(text)));
}

/* ProcessContext.attributes: a KeyValue with an integer, or with a text if it is UNUSABLE. */
#define UNUSABLE INT64_MIN

static void put_attribute(struct buf *out, const struct said *said)
{
    _cleanup_buf_ struct buf pair = BUF_INIT(0), any = BUF_INIT(0);
    put_string(&pair, 1, said->key);
    if (said->value == UNUSABLE)
        put_string(&any, 1, "24");
    else
        wire_put_varint(&any, 3, (uint64_t)said->value);
    wire_put_bytes(&pair, 2, buf_bytes(&any));
    wire_put_bytes(out, 2, buf_bytes(&pair));
}

static int enter(const struct said said[SAID_MAX], struct context_variable *variable)
{
    static struct otel_context context;
    _cleanup_buf_ struct buf message = BUF_INIT(0);
    for (int i = 0; i < SAID_MAX && said[i].key; i++)
        put_attribute(&message, &said[i]);
    assert_int_equal(otel_context_decode(buf_bytes(&message), &context), 0);
    memset(variable, 0, sizeof(*variable));
    return nodejs_layout_enter(&context.nodejs, variable);
}

static void test_writers(void **state)
{
    static const struct {
        struct said said[SAID_MAX];
        struct context_variable expected;
    } writers[] = {
        {{{NULL, 0}}, {.nodejs_form = NODEJS_SLOT_IN_VARIABLE}},
        {{{"threadlocal.of_later", 5}}, {.nodejs_form = NODEJS_SLOT_IN_VARIABLE}},
        {{V8}, {.nodejs_form = NODEJS_SLOT_IN_VARIABLE}},
        {{V8, {OTEL_NODEJS_RECORD_KEY, 24}}, {.nodejs_form = NODEJS_SLOT, .nodejs_slot = 24}},
        {{V8, {OTEL_NODEJS_RECORD_KEY, 248}}, {.nodejs_form = NODEJS_SLOT, .nodejs_slot = 248}},
        {{V8, {OTEL_NODEJS_WRAPPED_KEY, 24}, {OTEL_NODEJS_NATIVE_KEY, 0}},
         {.nodejs_form = NODEJS_SLOT_OF_OWNER, .nodejs_slot = 24}},
        {{{OTEL_NODEJS_NATIVE_KEY, 24}, {OTEL_NODEJS_WRAPPED_KEY, 32}, V8},
         {.nodejs_form = NODEJS_SLOT_OF_OWNER, .nodejs_slot = 32, .nodejs_owner = 24}},
        {{{OTEL_NODEJS_RECORD_KEY, 7}, {OTEL_NODEJS_RECORD_KEY, 32}}, /* the last one counts */
         {.nodejs_form = NODEJS_SLOT, .nodejs_slot = 32}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(writers) / sizeof(*writers); i++) {
        struct context_variable variable;
        assert_int_equal(enter(writers[i].said, &variable), 0);
        assert_memory_equal(&variable, &writers[i].expected, sizeof(variable));
    }
}

static void test_unsupported(void **state)
{
    static const struct said layouts[][SAID_MAX] = {
        {{OTEL_NODEJS_TAGGED_SIZE_KEY, 4}}, /* pointer compression */
        {{OTEL_NODEJS_TAGGED_SIZE_KEY, UNUSABLE}},
        {{OTEL_NODEJS_MAP_TABLE_KEY, 32}},
        {{OTEL_NODEJS_TABLE_HEADER_KEY, 8}},
        {{OTEL_NODEJS_TABLE_HEADER_KEY, INT64_MAX}},
        {{OTEL_NODEJS_RECORD_KEY, 25}},
        {{OTEL_NODEJS_RECORD_KEY, 0}},
        {{OTEL_NODEJS_RECORD_KEY, 16}},
        {{OTEL_NODEJS_RECORD_KEY, 256}},
        {{OTEL_NODEJS_RECORD_KEY, -24}},
        {{OTEL_NODEJS_RECORD_KEY, 65560}}, /* 24, in 16 bits */
        {{OTEL_NODEJS_RECORD_KEY, INT64_C(0x100000018)}},
        {{OTEL_NODEJS_RECORD_KEY, UNUSABLE}},
        {{OTEL_NODEJS_WRAPPED_KEY, 24}}, /* @datadog/pprof 5.16 */
        {{OTEL_NODEJS_NATIVE_KEY, 24}},
        {{OTEL_NODEJS_WRAPPED_KEY, 24}, {OTEL_NODEJS_NATIVE_KEY, 4}},
        {{OTEL_NODEJS_WRAPPED_KEY, 24}, {OTEL_NODEJS_NATIVE_KEY, -8}},
        {{OTEL_NODEJS_WRAPPED_KEY, 24}, {OTEL_NODEJS_NATIVE_KEY, 65536}},
        {{OTEL_NODEJS_WRAPPED_KEY, 8}, {OTEL_NODEJS_NATIVE_KEY, 0}},
        {{OTEL_NODEJS_RECORD_KEY, 24}, {OTEL_NODEJS_WRAPPED_KEY, 24}, {OTEL_NODEJS_NATIVE_KEY, 0}},
        {{OTEL_NODEJS_RECORD_KEY, 24}, {OTEL_NODEJS_NATIVE_KEY, 0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        struct context_variable variable, untouched = {0};
        assert_int_equal(enter(layouts[i], &variable), NODEJS_LAYOUT_UNSUPPORTED);
        assert_memory_equal(&variable, &untouched, sizeof(variable));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writers),
        cmocka_unit_test(test_unsupported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
