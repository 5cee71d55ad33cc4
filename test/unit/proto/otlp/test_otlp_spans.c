/* SPDX-License-Identifier: Apache-2.0 */
#include "test_otlp_spans.h"
#include "proto/pb.h"
#include "trace_service.pb-c.h"

typedef Opentelemetry__Proto__Trace__V1__Span Span;

static int keep_span(void *context, const struct otlp_span *span, struct buf *added)
{
    (void)added;
    *(struct otlp_span *)context = *span;
    return 0;
}

static int drop_body(void *context, struct bytes body, uint64_t n_spans)
{
    (void)context;
    (void)body;
    (void)n_spans;
    return 0;
}

static struct otlp_span first_span(struct bytes request)
{
    struct otlp_span span = {.kind = 0};
    struct otlp_rewrite settings = {keep_span, drop_body, &span, 1 << 20, NULL};
    assert_int_equal(otlp_spans_rewrite(request, &settings), OTLP_OK);
    return span;
}

static void test_fields_of_a_span(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0), spans = BUF_INIT(0);
    struct bytes found, text;
    int64_t number;
    (void)state;
    put_scope(&spans, 9, 1);
    put(&request, 1, buf_bytes(&spans));
    struct otlp_span span = first_span(buf_bytes(&request));
    assert_int_equal(span.trace_id.len, 16);
    assert_int_equal(span.trace_id.data[15], 9);
    assert_int_equal(span.span_id.len, 8);
    assert_int_equal(span.parent_span_id.len, 0);
    assert_true(bytes_is(span.name, "span 9"));
    assert_int_equal(span.kind, SPAN_SERVER);
    assert_int_equal(span.start_unix_ns, 1009);
    assert_int_equal(span.end_unix_ns, 2009);
    assert_int_equal(span.flags, 0x101);
    assert_int_equal(span.resource.len, 0);
    assert_true(otlp_span_attribute(&span, "http.route", &found));
    assert_true(otlp_key_value_string(found, &text) && bytes_is(text, "/cart"));
    assert_false(otlp_key_value_int(found, &number));
    assert_true(otlp_span_attribute(&span, "size", &found));
    assert_true(otlp_key_value_int(found, &number) && number == -5);
    assert_false(otlp_key_value_string(found, &text));
    assert_false(otlp_span_attribute(&span, "http", &found));
    assert_false(otlp_resource_attribute(span.resource, "service.name", &found));
}

static void test_ids_of_any_length_come_through(void **state)
{
    static const uint8_t request[] = {0x0a, 9, 0x12, 7, 0x12, 5, 0x0a, 1, 'x', 0x12, 0};
    struct otlp_span span = first_span(BYTES(request, sizeof(request)));
    (void)state;
    assert_int_equal(otlp_spans_check(BYTES(request, sizeof(request))), OTLP_OK);
    assert_int_equal(span.trace_id.len, 1);
    assert_int_equal(span.span_id.len, 0);
}

static void test_local_roots(void **state)
{
    static const uint8_t zero[8], id[8] = {1};
    static const struct {
        size_t parent_len;
        const uint8_t *parent;
        uint32_t flags;
        uint32_t kind;
        bool root;
    } cases[] = {
        {0, NULL, 0x100, SPAN_INTERNAL, true}, {8, zero, 0x100, SPAN_INTERNAL, true},
        {8, id, 0x100, SPAN_SERVER, false},    {8, id, 0x300, SPAN_INTERNAL, true},
        {8, id, 0x200, SPAN_INTERNAL, false},  {8, id, 0, SPAN_SERVER, true},
        {8, id, 1, SPAN_CONSUMER, true},       {8, id, 1, SPAN_CLIENT, false},
        {8, id, 0, SPAN_UNSPECIFIED, false},   {8, id, 0, SPAN_PRODUCER, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct otlp_span span = {.parent_span_id = BYTES(cases[i].parent, cases[i].parent_len),
                                 .flags = cases[i].flags,
                                 .kind = cases[i].kind};
        assert_int_equal(otlp_span_is_local_root(&span), cases[i].root);
    }
}

/* Each form, as the decoder sees it. */
static void test_attributes_are_what_they_say(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    const struct bytes list[] = {BYTES_LIT("one"), BYTES_LIT(""), BYTES_LIT("three")};
    struct arena arena;
    ProtobufCMessage *message;
    (void)state;
    assert_int_equal(otlp_attribute_string(&out, 9, "text", BYTES(NULL, 0)), 0);
    assert_int_equal(otlp_attribute_int(&out, 9, "zero", 0), 0);
    assert_int_equal(otlp_attribute_int(&out, 9, "least", INT64_MIN), 0);
    assert_int_equal(otlp_attribute_strings(&out, 9, "list", list, 3), 0);
    assert_int_equal(otlp_attribute_strings(&out, 9, "none", NULL, 0), 0);
    arena_init(&arena, 1 << 20);
    assert_int_equal(pb_unpack(&opentelemetry__proto__trace__v1__span__descriptor, buf_bytes(&out),
                               &arena, &message),
                     PB_OK);
    const Span *span = (const Span *)(const void *)message;
    assert_int_equal(span->n_attributes, 5);
    assert_string_equal(span->attributes[0]->key, "text");
    assert_int_equal(span->attributes[0]->value->value_case, 1);
    assert_string_equal(span->attributes[0]->value->string_value, "");
    assert_int_equal(span->attributes[1]->value->value_case, 3);
    assert_true(span->attributes[2]->value->int_value == INT64_MIN);
    assert_int_equal(span->attributes[3]->value->array_value->n_values, 3);
    assert_string_equal(span->attributes[3]->value->array_value->values[2]->string_value, "three");
    assert_int_equal(span->attributes[4]->value->value_case, 5);
    assert_int_equal(span->attributes[4]->value->array_value->n_values, 0);
    arena_close(&arena);
}

static void test_attributes_are_whole_or_not_there(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(20);
    struct bytes text = BYTES_LIT("0123456789");
    (void)state;
    assert_int_equal(otlp_attribute_string(&out, 9, "key", text), BUF_FULL);
    assert_int_equal(otlp_attribute_strings(&out, 9, "key", &text, 1), BUF_FULL);
    assert_int_equal(otlp_attribute_int(&out, 9, "a key that is too long", 1), BUF_FULL);
    assert_int_equal(out.len, 0);
}

/* The last key, and the last member of the value's parts, as a decoder would merge them. */
static void test_parts_of_an_attribute_merge(void **state)
{
    static const uint8_t attribute[] = {0x0a, 1, 'k', 0x12, 2, 0x18, 7, 0x12, 3,
                                        0x0a, 1, 'v', 0x12, 0, 0x0a, 1, 'q'};
    _cleanup_buf_ struct buf resource = BUF_INIT(0);
    struct bytes found, text;
    int64_t number;
    (void)state;
    put(&resource, 1, BYTES(attribute, sizeof(attribute)));
    assert_false(otlp_resource_attribute(buf_bytes(&resource), "k", &found));
    assert_true(otlp_resource_attribute(buf_bytes(&resource), "q", &found));
    assert_true(otlp_key_value_string(found, &text) && bytes_is(text, "v"));
    assert_false(otlp_key_value_int(found, &number));
    assert_false(otlp_key_value_string(BYTES(NULL, 0), &text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_of_a_span),
        cmocka_unit_test(test_ids_of_any_length_come_through),
        cmocka_unit_test(test_local_roots),
        cmocka_unit_test(test_attributes_are_what_they_say),
        cmocka_unit_test(test_attributes_are_whole_or_not_there),
        cmocka_unit_test(test_parts_of_an_attribute_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
