/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/otlp_json.h"
#include "proto/otlp/otlp_schema.h"
#include "proto/pb.h"
#include "proto/wire.h"
#include "test/support/faults/fail_alloc.h"
#include "trace_service.pb-c.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

typedef Opentelemetry__Proto__Trace__V1__Span Span;

static const ProtobufCMessageDescriptor *const span =
    &opentelemetry__proto__trace__v1__span__descriptor;
static const ProtobufCMessageDescriptor *const any_value =
    &opentelemetry__proto__common__v1__any_value__descriptor;
static const ProtobufCMessageDescriptor *const key_value =
    &opentelemetry__proto__common__v1__key_value__descriptor;

#define LIMIT ((size_t)1 << 20)

static void assert_reads(const ProtobufCMessageDescriptor *descriptor, struct bytes text,
                         struct bytes expected)
{
    _cleanup_buf_ struct buf out = BUF_INIT(LIMIT);
    struct otlp_json_error error;
    int outcome = otlp_json_read(descriptor, text, &out, &error);
    if (outcome)
        fail_msg("%.*s: %s at %zu", (int)text.len, text.data, error.what, error.offset);
    assert_null(error.what);
    assert_int_equal(out.len, expected.len);
    assert_memory_equal(out.data, expected.data, expected.len);
    assert_int_equal(pb_check(descriptor, buf_bytes(&out)), PB_OK);
}

static void assert_writes(const ProtobufCMessageDescriptor *descriptor, struct bytes message,
                          const char *expected)
{
    _cleanup_buf_ struct buf out = BUF_INIT(LIMIT);
    assert_int_equal(otlp_json_write(descriptor, message, &out), OTLP_JSON_OK);
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_string_equal((char *)out.data, expected);
}

#define READS(descriptor, text, ...)                                                               \
    assert_reads((descriptor), BYTES_STR(text),                                                    \
                 BYTES(((const uint8_t[]){__VA_ARGS__}), sizeof((const uint8_t[]){__VA_ARGS__})))
#define WRITES(descriptor, expected, ...)                                                          \
    assert_writes((descriptor),                                                                    \
                  BYTES(((const uint8_t[]){__VA_ARGS__}), sizeof((const uint8_t[]){__VA_ARGS__})), \
                  expected)
#define READS_NOTHING(descriptor, text) assert_reads((descriptor), BYTES_STR(text), BYTES(NULL, 0))

/* At the byte where `place` begins in the text. */
static void assert_refused(const ProtobufCMessageDescriptor *descriptor, const char *text,
                           const char *what, size_t offset)
{
    _cleanup_buf_ struct buf out = BUF_INIT(LIMIT);
    struct otlp_json_error error;
    assert_int_equal(buf_append(&out, "before", 6), 0);
    int outcome = otlp_json_read(descriptor, BYTES_STR(text), &out, &error);
    if (outcome != OTLP_JSON_MALFORMED)
        fail_msg("taken: %s", text);
    assert_string_equal(error.what, what);
    assert_int_equal(error.offset, offset);
    assert_int_equal(out.len, 6);
}

/* ---- reading ---- */

static void test_keys_of_both_forms(void **state)
{
    (void)state;
    READS(span, "{\"traceState\":\"a\"}", 0x1a, 1, 'a');
    READS(span, "{\"trace_state\":\"a\"}", 0x1a, 1, 'a');
    READS(span, "{\"trace\\u0053tate\":\"a\"}", 0x1a, 1, 'a');
    READS_NOTHING(span, "{\"TraceState\":\"a\",\"tracestate\":\"a\",\"traceStates\":1}");
    READS_NOTHING(span, "{}");
    READS_NOTHING(span, "{\"unknown\":[{\"a\":[1,2,{}]},null],\"\":\"\"}");
    READS_NOTHING(span, "{\"name\":null,\"traceId\":null,\"events\":null,\"status\":null,"
                        "\"kind\":null,\"startTimeUnixNano\":null}");
    char text[400];
    snprintf(text, sizeof(text), "{\"\\u0041%0300d\":{},\"name\":\"x\"}", 0);
    READS(span, text, 0x2a, 1, 'x');
}

static void test_zeros_are_left_out(void **state)
{
    (void)state;
    READS_NOTHING(span, "{\"name\":\"\",\"kind\":0,\"startTimeUnixNano\":\"0\",\"traceId\":\"\","
                        "\"attributes\":[],\"droppedLinksCount\":0}");
    READS(any_value, "{\"stringValue\":\"\"}", 0x0a, 0);
    READS(any_value, "{\"intValue\":\"0\"}", 0x18, 0);
    READS(any_value, "{\"boolValue\":false}", 0x10, 0);
    READS(any_value, "{\"bytesValue\":\"\"}", 0x3a, 0);
    READS(any_value, "{\"arrayValue\":{}}", 0x2a, 0);
    READS(any_value, "{\"stringValue\":null,\"intValue\":1}", 0x18, 1);
}

static void test_ids_are_hex(void **state)
{
    (void)state;
    READS(span, "{\"spanId\":\"0123456789abCDeF\"}", 0x12, 8, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab,
          0xcd, 0xef);
    READS(span, "{\"parent_span_id\":\"ff\\u0030\\u0031\"}", 0x22, 2, 0xff, 0x01);
    READS(span, "{\"links\":[{\"traceId\":\"0a\"}]}", 0x6a, 3, 0x0a, 1, 0x0a);
    assert_refused(span, "{\"spanId\":\"012\"}", "an id is not in hex digits", 11);
    assert_refused(span, "{\"traceId\":\"W47/95gDgQPSabYzgT/GDA==\"}", "an id is not in hex digits",
                   12);
    assert_refused(span, "{\"spanId\":1}", "a string is missing", 10);
}

static const ProtobufCMessageDescriptor *profile_of(void)
{
    const ProtobufCMessageDescriptor *request = otlp_schema_request(SIGNAL_PROFILES);
    const ProtobufCMessageDescriptor *resource = request->fields[0].descriptor;
    const ProtobufCMessageDescriptor *scope = resource->fields[1].descriptor;
    return scope->fields[1].descriptor;
}

/* Skipped as unknown, the samples would be missing without a word. */
static void test_profiles_of_former_versions(void **state)
{
    static const char *const why = "profiles of OTLP 1.8 or before, which are not read as JSON";
    (void)state;
    assert_refused(profile_of(), "{\"period\":1,\"sample\":[]}", why, 12);
    assert_refused(profile_of(), "{\"s\\u0061mple\":[]}", why, 1);
    READS_NOTHING(profile_of(), "{\"sampled\":[],\"unknown\":1}");
    READS_NOTHING(span, "{\"sample\":1}");
}

static void test_a_profile_id_is_hex_or_base64(void **state)
{
    (void)state;
    READS(profile_of(), "{\"profileId\":\"000102030405060708090a0b0c0d0e0f\"}", 0x3a, 16, 0, 1, 2,
          3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    READS(profile_of(), "{\"profileId\":\"AAECAwQFBgcICQoLDA0ODw==\"}", 0x3a, 16, 0, 1, 2, 3, 4, 5,
          6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    WRITES(profile_of(), "{\"profileId\":\"000102030405060708090a0b0c0d0e0f\"}", 0x3a, 16, 0, 1, 2,
           3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    WRITES(profile_of(), "{\"profileId\":\"/w==\"}", 0x3a, 1, 0xff);
}

static void test_bytes_are_base64(void **state)
{
    (void)state;
    READS(any_value, "{\"bytesValue\":\"+/8=\"}", 0x3a, 2, 0xfb, 0xff);
    READS(any_value, "{\"bytesValue\":\"-_8\"}", 0x3a, 2, 0xfb, 0xff);
    READS(any_value, "{\"bytesValue\":\"+\\/8=\"}", 0x3a, 2, 0xfb, 0xff);
    READS(any_value, "{\"bytesValue\":\"\\u002B/8=\"}", 0x3a, 2, 0xfb, 0xff);
    assert_refused(any_value, "{\"bytesValue\":\"a*==\"}", "bytes are not in base64", 15);
    WRITES(any_value, "{\"bytesValue\":\"+/8=\"}", 0x3a, 2, 0xfb, 0xff);
    WRITES(any_value, "{\"bytesValue\":\"/w==\"}", 0x3a, 1, 0xff);
    WRITES(any_value, "{\"bytesValue\":\"AQID\"}", 0x3a, 3, 1, 2, 3);
}

static void test_numbers_as_such_or_in_quotes(void **state)
{
    (void)state;
    READS(any_value, "{\"intValue\":300}", 0x18, 0xac, 2);
    READS(any_value, "{\"intValue\":\"300\"}", 0x18, 0xac, 2);
    READS(any_value, "{\"intValue\":\"\\u0033e2\"}", 0x18, 0xac, 2);
    READS(any_value, "{\"intValue\":\"-1\"}", 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
          0xff, 1);
    READS(any_value, "{\"intValue\":-9223372036854775808}", 0x18, 0x80, 0x80, 0x80, 0x80, 0x80,
          0x80, 0x80, 0x80, 0x80, 1);
    READS(span, "{\"endTimeUnixNano\":\"18446744073709551615\"}", 0x41, 0xff, 0xff, 0xff, 0xff,
          0xff, 0xff, 0xff, 0xff);
    READS(span, "{\"flags\":769}", 0x85, 1, 1, 3, 0, 0);
    READS(span, "{\"droppedLinksCount\":4294967295}", 0x70, 0xff, 0xff, 0xff, 0xff, 0x0f);
    READS(any_value, "{\"doubleValue\":1}", 0x21, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f);
    READS(any_value, "{\"doubleValue\":\"-0.5\"}", 0x21, 0, 0, 0, 0, 0, 0, 0xe0, 0xbf);
    READS(any_value, "{\"doubleValue\":\"-Infinity\"}", 0x21, 0, 0, 0, 0, 0, 0, 0xf0, 0xff);
    READS(any_value, "{\"doubleValue\":\"NaN\"}", 0x21, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f);
    READS(any_value, "{\"doubleValue\":-0}", 0x21, 0, 0, 0, 0, 0, 0, 0, 0x80);
    READS(any_value, "{\"boolValue\":true}", 0x10, 1);
}

static void test_numbers_out_of_range(void **state)
{
    static const char range[] = "a number is no integer of the field's range";
    (void)state;
    assert_refused(any_value, "{\"intValue\":9223372036854775808}", range, 12);
    assert_refused(any_value, "{\"intValue\":-9223372036854775809}", range, 12);
    assert_refused(any_value, "{\"intValue\":1.5}", range, 12);
    assert_refused(span, "{\"endTimeUnixNano\":-1}", range, 19);
    assert_refused(span, "{\"endTimeUnixNano\":\"18446744073709551616\"}", range, 19);
    assert_refused(span, "{\"flags\":4294967296}", range, 9);
    assert_refused(span, "{\"kind\":2147483648}", range, 8);
    assert_refused(span, "{\"kind\":1e10}", range, 8);
    assert_refused(any_value, "{\"doubleValue\":1e309}", "a number is beyond a double", 15);
    assert_refused(any_value, "{\"doubleValue\":\"inf\"}", "a number is missing", 15);
    assert_refused(any_value, "{\"doubleValue\":NaN}", "a number is missing", 15);
    assert_refused(any_value, "{\"intValue\":\"\"}", "a number is missing", 12);
    assert_refused(any_value, "{\"intValue\":\" 1\"}", "a number is missing", 12);
    assert_refused(any_value, "{\"intValue\":\"1x\"}", "a number is missing", 12);
    assert_refused(any_value, "{\"intValue\":true}", "a number is missing", 12);
    assert_refused(any_value, "{\"boolValue\":1}", "true or false is missing", 13);
    assert_refused(any_value, "{\"boolValue\":\"true\"}", "true or false is missing", 13);
}

static void test_enumerators(void **state)
{
    (void)state;
    READS(span, "{\"kind\":2}", 0x30, 2);
    READS(span, "{\"kind\":\"SPAN_KIND_SERVER\"}", 0x30, 2);
    READS(span, "{\"kind\":99}", 0x30, 99); /* one to come */
    READS_NOTHING(span, "{\"kind\":\"SPAN_KIND_UNSPECIFIED\"}");
    assert_refused(span, "{\"kind\":\"SERVER\"}", "a number is missing", 8);
    WRITES(span, "{\"kind\":2}", 0x30, 2);
}

static void test_lists(void **state)
{
    const ProtobufCMessageDescriptor *stack =
        otlp_schema_request(SIGNAL_PROFILES)->fields[1].descriptor;
    (void)state;
    stack = ((const ProtobufCMessageDescriptor *)stack)->fields[6].descriptor;
    READS(stack, "{\"locationIndices\":[1,\"300\", -1 ]}", 0x0a, 13, 1, 0xac, 2, 0xff, 0xff, 0xff,
          0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1);
    READS_NOTHING(stack, "{\"locationIndices\":[]}");
    WRITES(stack, "{\"locationIndices\":[1,300,-1]}", 0x0a, 13, 1, 0xac, 2, 0xff, 0xff, 0xff, 0xff,
           0xff, 0xff, 0xff, 0xff, 0xff, 1);
    WRITES(stack, "{\"locationIndices\":[1,2,3]}", 0x08, 1, 0x0a, 2, 2, 3);
    assert_refused(stack, "{\"locationIndices\":[null]}", "a number is missing", 20);
    assert_refused(stack, "{\"locationIndices\":1}", "an array is missing", 19);
    assert_refused(stack, "{\"locationIndices\":[1,]}", "a number is missing", 22);
    assert_refused(span, "{\"events\":[null]}", "an object is missing", 11);
    assert_refused(span, "{\"status\":[]}", "an object is missing", 10);
    READS(span, "{\"events\":[{},{\"name\":\"x\"}]}", 0x5a, 0, 0x5a, 3, 0x12, 1, 'x');
}

static void test_what_is_there_twice(void **state)
{
    static const char twice[] = "a key twice, or two of which only one may be";
    (void)state;
    assert_refused(span, "{\"name\":\"a\",\"name\":\"b\"}", twice, 12);
    assert_refused(span, "{\"traceState\":\"a\",\"trace_state\":\"b\"}", twice, 18);
    assert_refused(span, "{\"name\":null, \"name\":\"b\"}", twice, 14);
    assert_refused(any_value, "{\"stringValue\":\"a\",\"intValue\":1}", twice, 19);
    assert_refused(any_value, "{\"intValue\":0,\"intValue\":null}", twice, 14);
}

static void test_texts(void **state)
{
    (void)state;
    READS(span, "{\"name\":\"\xc3\xa4\\n\\u20AC\\uD83D\\uDE00\"}", 0x2a, 10, 0xc3, 0xa4, '\n', 0xe2,
          0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80);
    READS(span, "{\"name\":\"a\\u0000b\"}", 0x2a, 3, 'a', 0, 'b');
    assert_refused(span, "{\"name\":\"a\xff\"}", "a string is not UTF-8", 9);
    assert_refused(span, "{\"na\xffme\":1}", "a string is not UTF-8", 2);
    assert_refused(span, "{\"name\":\"ab\\uD83D\"}", "an escape that stands for no character", 11);
    assert_refused(span, "{\"name\":\"a\nb\"}", "a control character in a string", 10);
    WRITES(span, "{\"name\":\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\xc3\xa4\"}", 0x2a, 13, '"',
           '\\', '/', '\b', '\f', '\n', '\r', '\t', 0, 0x1f, 0x7f, 0xc3, 0xa4);
}

static void test_what_is_no_json(void **state)
{
    (void)state;
    assert_refused(span, "", "an object is missing", 0);
    assert_refused(span, "[]", "an object is missing", 0);
    assert_refused(span, "{} {}", "more text after the end", 3);
    assert_refused(span, "{\"name\":\"a\"", "a comma or a closing bracket is missing", 11);
    assert_refused(span, "{\"name\":\"a\",}", "a string is missing", 12);
    assert_refused(span, "{\"name\":\"a", "a string does not end", 10);
    assert_refused(span, "{name:1}", "a string is missing", 1);
    assert_refused(span, "{\"name\" 1}", "a colon is missing", 8);
    assert_refused(span, "{\"x\":[1,]}", "a value is missing", 8);
    assert_refused(span, "\xef\xbb\xbf{}", "an object is missing", 0);
}

/* Arrays within AnyValues: two messages a level. */
static void nested(struct buf *text, size_t messages)
{
    for (size_t i = 1; i < messages; i++)
        assert_int_equal(buf_printf(text, i % 2 ? "{\"arrayValue\":" : "{\"values\":["), 0);
    assert_int_equal(buf_printf(text, "{"), 0);
    for (size_t i = messages; i-- > 0;)
        assert_int_equal(buf_printf(text, i && i % 2 == 0 ? "}]" : "}"), 0);
}

static void test_depth_is_limited(void **state)
{
    (void)state;
    for (size_t depth = PB_DEPTH_MAX - 1; depth <= PB_DEPTH_MAX + 1; depth++) {
        _cleanup_buf_ struct buf text = BUF_INIT(0);
        _cleanup_buf_ struct buf out = BUF_INIT(LIMIT);
        struct otlp_json_error error;
        nested(&text, depth);
        int outcome = otlp_json_read(any_value, buf_bytes(&text), &out, &error);
        assert_int_equal(outcome, depth <= PB_DEPTH_MAX ? OTLP_JSON_OK : OTLP_JSON_MALFORMED);
        if (outcome)
            continue;
        _cleanup_buf_ struct buf again = BUF_INIT(LIMIT);
        assert_int_equal(pb_check(any_value, buf_bytes(&out)), PB_OK);
        assert_int_equal(otlp_json_write(any_value, buf_bytes(&out), &again), OTLP_JSON_OK);
        assert_true(bytes_equal(buf_bytes(&again), buf_bytes(&text)));
    }
    _cleanup_buf_ struct buf deep = BUF_INIT(0);
    _cleanup_buf_ struct buf out = BUF_INIT(LIMIT);
    struct otlp_json_error error;
    nested(&deep, 100000);
    assert_int_equal(otlp_json_read(any_value, buf_bytes(&deep), &out, &error),
                     OTLP_JSON_MALFORMED);
    assert_string_equal(error.what, "nested too deep");
}

static void test_the_result_keeps_to_its_limit(void **state)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    (void)state;
    assert_int_equal(buf_printf(&text, "{\"locationIndices\":["), 0);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(buf_printf(&text, i ? ",-1" : "-1"), 0);
    assert_int_equal(buf_printf(&text, "]}"), 0);
    const ProtobufCMessageDescriptor *dictionary =
        otlp_schema_request(SIGNAL_PROFILES)->fields[1].descriptor;
    const ProtobufCMessageDescriptor *stack = dictionary->fields[6].descriptor;
    bool fitted = false;
    for (size_t limit = 1; limit < 12000; limit += 97) {
        _cleanup_buf_ struct buf out = BUF_INIT(limit);
        struct otlp_json_error error;
        int outcome = otlp_json_read(stack, buf_bytes(&text), &out, &error);
        assert_int_equal(outcome, limit < 10003 ? OTLP_JSON_TOO_BIG : OTLP_JSON_OK);
        assert_true(out.len <= limit);
        assert_null(error.what);
        fitted |= !outcome;
    }
    assert_true(fitted);
}

static void test_failing_memory(void **state)
{
    static const char text[] = "{\"name\":\"a\\nb\",\"attributes\":[{\"key\":\"\\u0041\",\"value\":"
                               "{\"bytesValue\":\"+\\/8=\"}}],\"k\\u0069nd\":\"1\"}";
    (void)state;
    for (unsigned n = 1;; n++) {
        _cleanup_buf_ struct buf out = BUF_INIT(LIMIT);
        struct otlp_json_error error;
        fail_alloc_at(n);
        int outcome = otlp_json_read(span, BYTES_STR(text), &out, &error);
        if (!fail_alloc_hit()) {
            assert_int_equal(outcome, OTLP_JSON_OK);
            assert_true(n > 3);
            break;
        }
        assert_int_equal(outcome, -ENOMEM);
        assert_null(error.what);
        assert_int_equal(out.len, 0);
    }
}

/* ---- writing ---- */

static void test_numbers_are_written(void **state)
{
    (void)state;
    WRITES(any_value, "{\"intValue\":\"-1\"}", 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
           0xff, 1);
    WRITES(any_value, "{\"intValue\":\"-9223372036854775808\"}", 0x18, 0x80, 0x80, 0x80, 0x80, 0x80,
           0x80, 0x80, 0x80, 0x80, 1);
    WRITES(any_value, "{\"intValue\":\"0\"}", 0x18, 0);
    WRITES(any_value, "{\"boolValue\":true}", 0x10, 1);
    WRITES(any_value, "{\"doubleValue\":0.1}", 0x21, 0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9,
           0x3f);
    WRITES(any_value, "{\"doubleValue\":-0}", 0x21, 0, 0, 0, 0, 0, 0, 0, 0x80);
    WRITES(any_value, "{\"doubleValue\":\"NaN\"}", 0x21, 1, 0, 0, 0, 0, 0, 0xf8, 0x7f);
    WRITES(any_value, "{\"doubleValue\":\"-Infinity\"}", 0x21, 0, 0, 0, 0, 0, 0, 0xf0, 0xff);
    WRITES(any_value, "{\"doubleValue\":4.94065645841247e-324}", 0x21, 1, 0, 0, 0, 0, 0, 0, 0);
    WRITES(span, "{\"endTimeUnixNano\":\"18446744073709551615\",\"flags\":769}", 0x41, 0xff, 0xff,
           0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x85, 1, 1, 3, 0, 0);
}

static void test_zigzag_both_ways(void **state)
{
    const ProtobufCMessageDescriptor *metric = otlp_schema_request(SIGNAL_METRICS);
    (void)state;
    metric = metric->fields[0].descriptor; /* ResourceMetrics */
    metric = ((const ProtobufCMessageDescriptor *)metric)->fields[1].descriptor; /* ScopeMetrics */
    metric = ((const ProtobufCMessageDescriptor *)metric)->fields[1].descriptor;
    READS(metric,
          "{\"exponentialHistogram\":{\"dataPoints\":[{\"scale\":-3,\"sum\":0,\"positive\":"
          "{\"offset\":2147483647,\"bucketCounts\":[\"1\",2]}}]}}",
          0x52, 25, 0x0a, 23, 0x30, 5, 0x29, 0, 0, 0, 0, 0, 0, 0, 0, 0x42, 10, 0x08, 0xfe, 0xff,
          0xff, 0xff, 0x0f, 0x12, 2, 1, 2);
    WRITES(metric,
           "{\"exponentialHistogram\":{\"dataPoints\":[{\"sum\":0,\"scale\":-3,\"positive\":"
           "{\"offset\":-2147483648,\"bucketCounts\":[\"1\",\"2\"]}}]}}",
           0x52, 25, 0x0a, 23, 0x30, 5, 0x29, 0, 0, 0, 0, 0, 0, 0, 0, 0x42, 10, 0x08, 0xff, 0xff,
           0xff, 0xff, 0x0f, 0x12, 2, 1, 2);
}

static void test_fields_that_lie_apart(void **state)
{
    (void)state;
    WRITES(span, "{\"name\":\"b\",\"attributes\":[{\"key\":\"x\"},{\"key\":\"y\"},{}]}", 0x4a, 3,
           0x0a, 1, 'x', 0x2a, 1, 'a', 0x4a, 3, 0x0a, 1, 'y', 0x2a, 1, 'b', 0x4a, 0);
    WRITES(any_value, "{\"intValue\":\"2\"}", 0x18, 1, 0x0a, 1, 'a', 0x18, 2);
    WRITES(any_value, "{\"stringValue\":\"a\"}", 0x18, 1, 0x0a, 1, 'a');
    /* a submessage in two pieces; of a oneof only what comes after another member */
    WRITES(span, "{\"status\":{\"message\":\"m\",\"code\":2}}", 0x7a, 2, 0x18, 2, 0x7a, 3, 0x12, 1,
           'm');
    WRITES(any_value, "{\"arrayValue\":{\"values\":[{},{}]}}", 0x2a, 2, 0x0a, 0, 0x2a, 2, 0x0a, 0);
    WRITES(any_value, "{\"arrayValue\":{\"values\":[{}]}}", 0x2a, 2, 0x0a, 0, 0x18, 1, 0x2a, 2,
           0x0a, 0);
}

static void test_unknown_fields_and_zeros_are_not_written(void **state)
{
    (void)state;
    WRITES(span, "{}", 0x30, 0, 0x2a, 0, 0xf8, 0x3f, 1);
    assert_writes(span, BYTES(NULL, 0), "{}");
}

#define NOT_WRITTEN(descriptor, ...)                                                               \
    do {                                                                                           \
        static const uint8_t message[] = {__VA_ARGS__};                                            \
        _cleanup_buf_ struct buf out = BUF_INIT(LIMIT);                                            \
        assert_int_equal(buf_append(&out, "x", 1), 0);                                             \
        assert_int_equal(pb_check((descriptor), BYTES(message, sizeof(message))), PB_MALFORMED);   \
        assert_int_equal(otlp_json_write((descriptor), BYTES(message, sizeof(message)), &out),     \
                         OTLP_JSON_MALFORMED);                                                     \
        assert_int_equal(out.len, 1);                                                              \
    } while (0)

static void test_malformed_messages_are_not_written(void **state)
{
    (void)state;
    NOT_WRITTEN(span, 0x2a, 2, 'a');
    NOT_WRITTEN(span, 0x28, 1);
    NOT_WRITTEN(span, 0x2a, 1, 0xff);
    NOT_WRITTEN(span, 0x4a, 2, 0x0a, 5);
    NOT_WRITTEN(key_value, 0x12, 3, 0x0a, 1, 0xff);
    NOT_WRITTEN(otlp_schema_request(SIGNAL_PROFILES)->fields[1].descriptor, 0x3a, 3, 0x0a, 1, 0x80);
}

/* ---- examples of the specification, each line one request ---- */

static const struct {
    enum signal signal;
    const char *text;
} examples[] = {
    {SIGNAL_TRACES,
     "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"
     "{\"stringValue\":\"my.service\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"my.library\","
     "\"version\":\"1.0.0\",\"attributes\":[{\"key\":\"my.scope.attribute\",\"value\":"
     "{\"stringValue\":\"some scope attribute\"}}]},\"spans\":[{\"traceId\":"
     "\"5b8efff798038103d269b633813fc60c\",\"spanId\":\"eee19b7ec3c1b174\",\"parentSpanId\":"
     "\"eee19b7ec3c1b173\",\"name\":\"I'm a server span\",\"kind\":2,\"startTimeUnixNano\":"
     "\"1544712660000000000\",\"endTimeUnixNano\":\"1544712661000000000\",\"attributes\":[{\"key\":"
     "\"my.span.attr\",\"value\":{\"stringValue\":\"some value\"}}]}]}]}]}"},
    {SIGNAL_METRICS,
     "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"name\":\"my.counter\",\"unit\":"
     "\"1\","
     "\"sum\":{\"dataPoints\":[{\"timeUnixNano\":\"1544712661300000000\",\"asDouble\":5.5}],"
     "\"aggregationTemporality\":1,\"isMonotonic\":true}},{\"name\":\"my.histogram\",\"histogram\":"
     "{\"dataPoints\":[{\"count\":\"2\",\"sum\":0,\"bucketCounts\":[\"1\",\"1\"],"
     "\"explicitBounds\":"
     "[1.25],\"min\":0,\"max\":2}]}},{\"name\":\"g\",\"gauge\":{\"dataPoints\":[{\"exemplars\":[{"
     "\"spanId\":\"eee19b7ec3c1b174\",\"traceId\":\"5b8efff798038103d269b633813fc60c\",\"asInt\":"
     "\"0\"}],\"asInt\":\"-7\"}]}},{\"summary\":{\"dataPoints\":[{\"quantileValues\":[{"
     "\"quantile\":0.99,\"value\":1e+300}]}]}}]}]}]}"},
    {SIGNAL_LOGS,
     "{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[{\"timeUnixNano\":"
     "\"1544712660300000000\","
     "\"severityNumber\":10,\"severityText\":\"Information\",\"body\":{\"kvlistValue\":{\"values\":"
     "[{\"key\":\"k\",\"value\":{\"arrayValue\":{\"values\":[{\"boolValue\":false},{}]}}}]}},"
     "\"traceId\":\"5b8efff798038103d269b633813fc60c\",\"spanId\":\"eee19b7ec3c1b174\","
     "\"observedTimeUnixNano\":\"1544712660300000000\",\"eventName\":\"e\"}]}]}]}"},
    {SIGNAL_PROFILES,
     "{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"sampleType\":{\"typeStrindex\":"
     "1,"
     "\"unitStrindex\":2},\"samples\":[{\"stackIndex\":1,\"attributeIndices\":[1,2],\"linkIndex\":"
     "1,"
     "\"values\":[\"-1\",\"9\"],\"timestampsUnixNano\":[\"1544712660300000000\",\"0\"]}],"
     "\"period\":\"50000000\",\"profileId\":\"5b8efff798038103d269b633813fc60c\","
     "\"originalPayloadFormat\":\"pprof\",\"originalPayload\":\"AAEC/w==\"}]}]}],\"dictionary\":"
     "{\"linkTable\":[{},{\"traceId\":\"5b8efff798038103d269b633813fc60c\",\"spanId\":"
     "\"eee19b7ec3c1b174\"}],\"stringTable\":[\"\",\"samples\",\"count\"],\"attributeTable\":[{},"
     "{\"keyStrindex\":1,\"value\":{\"stringValueStrindex\":0}}],\"stackTable\":[{},"
     "{\"locationIndices\":[1,2]}]}}"},
};

static void test_requests_of_all_signals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        _cleanup_buf_ struct buf message = BUF_INIT(LIMIT);
        struct otlp_json_error error;
        const ProtobufCMessageDescriptor *request = otlp_schema_request(examples[i].signal);
        assert_int_equal(otlp_json_read(request, BYTES_STR(examples[i].text), &message, &error), 0);
        assert_int_equal(pb_check(request, buf_bytes(&message)), PB_OK);
        assert_writes(request, buf_bytes(&message), examples[i].text);
    }
}

/* By the decoder of protobuf-c, which knows nothing of JSON. */
static void test_a_span_as_others_decode_it(void **state)
{
    static const char text[] =
        "{\"traceId\":\"5B8EFFF798038103D269B633813FC60C\",\"name\":\"x\\ty\",\"kind\":3,"
        "\"startTimeUnixNano\":\"1544712660000000000\",\"attributes\":[{\"key\":\"a\",\"value\":"
        "{\"doubleValue\":0.25}}],\"status\":{\"code\":2}}";
    _cleanup_buf_ struct buf message = BUF_INIT(LIMIT);
    struct otlp_json_error error;
    struct arena arena;
    ProtobufCMessage *decoded;
    (void)state;
    assert_int_equal(otlp_json_read(span, BYTES_STR(text), &message, &error), 0);
    arena_init(&arena, LIMIT);
    assert_int_equal(pb_unpack(span, buf_bytes(&message), &arena, &decoded), PB_OK);
    const Span *got = (const Span *)(const void *)decoded;
    assert_int_equal(got->trace_id.len, 16);
    assert_int_equal(got->trace_id.data[0], 0x5b);
    assert_string_equal(got->name, "x\ty");
    assert_int_equal(got->kind, 3);
    assert_true(got->start_time_unix_nano == UINT64_C(1544712660000000000));
    assert_int_equal(got->n_attributes, 1);
    assert_true(got->attributes[0]->value->double_value == 0.25);
    assert_int_equal(got->status->code, 2);
    arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_of_both_forms),
        cmocka_unit_test(test_zeros_are_left_out),
        cmocka_unit_test(test_ids_are_hex),
        cmocka_unit_test(test_profiles_of_former_versions),
        cmocka_unit_test(test_a_profile_id_is_hex_or_base64),
        cmocka_unit_test(test_bytes_are_base64),
        cmocka_unit_test(test_numbers_as_such_or_in_quotes),
        cmocka_unit_test(test_numbers_out_of_range),
        cmocka_unit_test(test_enumerators),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_what_is_there_twice),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_what_is_no_json),
        cmocka_unit_test(test_depth_is_limited),
        cmocka_unit_test(test_the_result_keeps_to_its_limit),
        cmocka_unit_test(test_failing_memory),
        cmocka_unit_test(test_numbers_are_written),
        cmocka_unit_test(test_zigzag_both_ways),
        cmocka_unit_test(test_fields_that_lie_apart),
        cmocka_unit_test(test_unknown_fields_and_zeros_are_not_written),
        cmocka_unit_test(test_malformed_messages_are_not_written),
        cmocka_unit_test(test_requests_of_all_signals),
        cmocka_unit_test(test_a_span_as_others_decode_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
