/* SPDX-License-Identifier: Apache-2.0 */
/* What libraries write as labels, and what looks like it. */
#include "agent-bpf/drain/labels.h"
#include "base/buf.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN   "00f067aa0ba902b7"
#define TRACE2 "0af7651916cd43dd8448eb211c80319c"
#define SPAN2  "b7ad6b7169203331"
#define ZEROS  "00000000000000000000000000000000"
/* 0x00f067aa0ba902b7 and 0xb7ad6b7169203331 */
#define SPAN_DECIMAL  "67667974448284343"
#define SPAN2_DECIMAL "13235353014750950193"
#define NO            "0000000000000000"

static const char *const my_traces[] = {"traceID", "trace", "both", NULL};
static const char *const my_spans[] = {"spanID", "both", NULL};
static const struct label_names configured = {my_traces, my_spans};
static const struct label_names none = {0};

/* "key=value|key=value" in the form of record.h. */
static void make(struct buf *out, const char *text)
{
    buf_clear(out);
    while (*text) {
        size_t key = strcspn(text, "="), value = strcspn(text + key + 1, "|");
        uint8_t lengths[2] = {(uint8_t)key, (uint8_t)value};
        assert_int_equal(buf_append(out, lengths, 2), 0);
        assert_int_equal(buf_append(out, text, key), 0);
        assert_int_equal(buf_append(out, text + key + 1, value), 0);
        text += key + 1 + value;
        text += *text == '|';
    }
}

static void expect(const char *labels, const struct label_names *names, const char *trace,
                   const char *span, const char *root)
{
    _cleanup_buf_ struct buf made = BUF_INIT(0);
    struct label_ids ids;
    char got_trace[33], got_span[17], got_root[17];
    make(&made, labels);
    bool any = labels_ids(buf_bytes(&made), names, &ids);
    bytes_to_hex(BYTES(ids.trace_id, 16), got_trace);
    bytes_to_hex(BYTES(ids.span_id, 8), got_span);
    bytes_to_hex(BYTES(ids.local_root_id, 8), got_root);
    bool wanted = strcmp(trace, ZEROS) != 0 || strcmp(span, NO) != 0 || strcmp(root, NO) != 0;
    if (any != wanted || strcmp(got_trace, trace) != 0 || strcmp(got_span, span) != 0 ||
        strcmp(got_root, root) != 0)
        fail_msg("%s: got %s %s %s", labels, got_trace, got_span, got_root);
}

static void names_of_libraries(void **state)
{
    (void)state;
    expect("span_id=" SPAN "|span_name=GET /|trace_id=" TRACE, &none, TRACE, SPAN, NO);
    expect("span_id=" SPAN "|span_name=GET /", &none, ZEROS, SPAN, NO);
    expect("trace_id=" TRACE, &none, TRACE, NO, NO);
    expect("otel_traceid=" TRACE, &none, TRACE, NO, NO);
    expect("otel.traceid=" TRACE, &none, TRACE, NO, NO);
    expect("otel.trace_id=" TRACE "|otel.span_id=" SPAN, &none, TRACE, SPAN, NO);
    expect("otel_traceid=" TRACE "|otel_spanid=" SPAN, &none, TRACE, SPAN, NO);
    expect("local root span id=" SPAN2_DECIMAL "|span id=" SPAN_DECIMAL "|trace endpoint=GET /",
           &none, ZEROS, SPAN, SPAN2);
    expect("trace id=" TRACE "|span id=" SPAN_DECIMAL, &none, TRACE, SPAN, NO);
    expect("local root span id=" SPAN_DECIMAL, &none, ZEROS, NO, SPAN);
    expect("profile_id=" SPAN, &none, ZEROS, SPAN, NO);
    expect("trace_id=4BF92F3577B34DA6A3CE929D0E0E4736", &none, TRACE, NO, NO);
    expect("worker=7|shard=eu", &none, ZEROS, NO, NO);
    expect("", &none, ZEROS, NO, NO);
}

/* The first row that has an id counts, whatever the order of the labels. */
static void precedence(void **state)
{
    (void)state;
    expect("otel_traceid=" TRACE2 "|trace_id=" TRACE "|span_id=" SPAN, &none, TRACE, SPAN, NO);
    expect("profile_id=" SPAN2 "|span_id=" SPAN, &none, ZEROS, SPAN, NO);
    expect("trace id=" TRACE2 "|span id=" SPAN_DECIMAL "|trace_id=" TRACE, &none, TRACE, NO, NO);
    expect("otel_traceid=" TRACE "|span_id=" SPAN, &none, ZEROS, SPAN, NO); /* not mixed */
    expect("otel_traceid=" TRACE "|span_id=worker", &none, TRACE, NO, NO);  /* no id, no row */
}

static void configured_names(void **state)
{
    (void)state;
    expect("traceID=" TRACE "|spanID=" SPAN, &configured, TRACE, SPAN, NO);
    expect("traceID=" TRACE "|spanID=" SPAN, &none, ZEROS, NO, NO);
    expect("trace_id=" TRACE2 "|trace=" TRACE, &configured, TRACE, NO, NO);
    expect("trace_id=" TRACE2 "|trace=here", &configured, TRACE2, NO, NO);
    expect("both=" TRACE, &configured, TRACE, NO, NO);
    expect("both=" SPAN, &configured, ZEROS, SPAN, NO);
    expect("traceid=" TRACE, &configured, ZEROS, NO, NO); /* another name */
}

static void strict_forms(void **state)
{
    static const char *const values[] = {
        "trace_id=" ZEROS,
        "span_id=" NO,
        "trace_id=" SPAN,
        "span_id=" TRACE,
        "trace_id=" TRACE "0",
        "trace_id=4bf92f3577b34da6a3ce929d0e0e473",
        "trace_id=4bf92f3577b34da6a3ce929d0e0e473g",
        "trace_id= bf92f3577b34da6a3ce929d0e0e4736",
        "trace_id=0x92f3577b34da6a3ce929d0e0e4736a",
        "trace_id=",
        "trace_id=4bf92f35-77b3-4da6-a3ce-929d0e0e4736",
        "span_id=" SPAN_DECIMAL, /* 17 digits */
        "span id=" SPAN,         /* hex */
        "span id=0",
        "span id=01",
        "span id=-1",
        "span id=+1",
        "span id= 1",
        "span id=1 ",
        "span id=1.0",
        "span id=18446744073709551616",
        "span id=99999999999999999999",
        "span id=118446744073709551615",
        "span id=",
        "trace id=" SPAN_DECIMAL,
        "profile_id=" SPAN_DECIMAL,
        "Trace_id=" TRACE,
        "trace_id2=" TRACE,
        "trace_i=" TRACE,
    };
    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        expect(values[i], &none, ZEROS, NO, NO);
    expect("span id=18446744073709551615", &none, ZEROS, "ffffffffffffffff", NO);
    expect("span id=1", &none, ZEROS, "0000000000000001", NO);
    /* 16 digits: the name says of which form */
    expect("span_id=1234567890123456", &none, ZEROS, "1234567890123456", NO);
    expect("span id=1234567890123456", &none, ZEROS, "000462d53c8abac0", NO);
}

static void contradictions(void **state)
{
    (void)state;
    expect("otel_traceid=" TRACE "|otel.traceid=" TRACE, &none, TRACE, NO, NO);
    expect("otel_traceid=" TRACE "|otel.traceid=" TRACE2, &none, ZEROS, NO, NO);
    expect("otel_traceid=" TRACE "|otel.traceid=" TRACE2 "|profile_id=" SPAN, &none, ZEROS, NO, NO);
    expect("otel_traceid=" TRACE "|otel.traceid=" TRACE2 "|span_id=" SPAN, &none, ZEROS, SPAN, NO);
    expect("trace_id=" TRACE "|trace_id=" TRACE2, &none, TRACE, NO, NO); /* the first of a key */
}

static void incomplete_labels(void **state)
{
    _cleanup_buf_ struct buf made = BUF_INIT(0);
    struct label_ids ids;
    (void)state;
    make(&made, "span_id=" SPAN "|trace_id=" TRACE);
    size_t first = 2 + 7 + 16;
    for (size_t len = 0; len <= made.len; len++) {
        bool any = labels_ids(BYTES(made.data, len), &none, &ids);
        assert_int_equal(any, len >= first);
        assert_int_equal(!bytes_zero(ids.trace_id, 16), len == made.len);
    }
    struct bytes rest = BYTES("\x00\x00\x01\x00k\x00\x01v\xff\xffshort", 14), key, value;
    assert_true(labels_next(&rest, &key, &value));
    assert_int_equal(key.len + value.len, 0);
    assert_true(labels_next(&rest, &key, &value));
    assert_true(bytes_is(key, "k") && value.len == 0);
    assert_true(labels_next(&rest, &key, &value));
    assert_true(bytes_is(value, "v") && key.len == 0);
    assert_false(labels_next(&rest, &key, &value));
}

static bool is_id(const char *key, const char *value, const struct label_names *names)
{
    return labels_is_id(BYTES_STR(key), BYTES_STR(value), names);
}

static void labels_that_are_ids(void **state)
{
    (void)state;
    assert_true(is_id("trace_id", TRACE, &none));
    assert_true(is_id("local root span id", SPAN_DECIMAL, &none));
    assert_true(is_id("traceID", TRACE, &configured));
    assert_false(is_id("traceID", TRACE, &none));
    assert_false(is_id("trace_id", "tomorrow", &none)); /* text like any other */
    assert_false(is_id("span_name", SPAN, &none));
    assert_false(is_id("", SPAN, &configured));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_libraries),  cmocka_unit_test(precedence),
        cmocka_unit_test(configured_names),    cmocka_unit_test(strict_forms),
        cmocka_unit_test(contradictions),      cmocka_unit_test(incomplete_labels),
        cmocka_unit_test(labels_that_are_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
