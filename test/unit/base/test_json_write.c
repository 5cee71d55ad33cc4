/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_write.h"
#include "proto/json.h"
#include "test/support/faults/fail_alloc.h"
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void assert_text(struct bytes text, const char *expected)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct json_writer json = {.out = &out};
    json_put_text(&json, NULL, text);
    assert_int_equal(json.error, 0);
    assert_true(bytes_utf8_valid(buf_bytes(&out)));
    if (!bytes_is(buf_bytes(&out), expected))
        fail_msg("%.*s is not %s", (int)out.len, (const char *)out.data, expected);
}

static void test_texts(void **state)
{
    (void)state;
    assert_text(BYTES_LIT("plain"), "\"plain\"");
    assert_text((struct bytes){0}, "\"\"");
    assert_text(BYTES_LIT("a\"b\\c\n\x7f\x01"), "\"a\\u0022b\\u005cc\\u000a\\u007f\\u0001\"");
    assert_text(BYTES_LIT("</script><!--&'"), "\"\\u003c/script\\u003e\\u003c!--\\u0026\\u0027\"");
    assert_text(BYTES_LIT("\xe2\x80\xa8\xe2\x80\xa9\xe2\x82\xac"),
                "\"\\u2028\\u2029\xe2\x82\xac\"");
    assert_text(BYTES_LIT("a\0b"), "\"a\\u0000b\"");
    assert_text(BYTES_LIT("\xc3\xa4\xf0\x9f\x94\xa5"), "\"\xc3\xa4\xf0\x9f\x94\xa5\"");
}

static void test_invalid_utf8(void **state)
{
    (void)state;
    assert_text(BYTES_LIT("a\xff\xfe"), "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_text(BYTES_LIT("\xc3"), "\"\xef\xbf\xbd\"");
    assert_text(BYTES_LIT("\xe2\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_text(BYTES_LIT("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_text(BYTES_LIT("\xc0\xaf<"), "\"\xef\xbf\xbd\xef\xbf\xbd\\u003c\"");
}

/* A special byte at each place of words of eight, beside all kinds of neighbours. */
static void test_plain_runs(void **state)
{
    static const uint8_t neighbours[] = {'a',  ' ',  '!',  '#',  '[', ']',
                                         0x7f, 0x80, 0xff, 0x21, 0x5d};
    static const uint8_t specials[] = {'"', '\\', 0, 1, 0x1f};
    uint8_t text[40];
    (void)state;
    for (size_t n = 0; n < sizeof(neighbours); n++)
        for (size_t s = 0; s < sizeof(specials); s++)
            for (size_t at = 0; at < sizeof(text); at++) {
                bool foreign = false;
                memset(text, neighbours[n], sizeof(text));
                text[at] = specials[s];
                assert_int_equal(json_plain_length(BYTES(text, sizeof(text)), &foreign), at);
                assert_int_equal(foreign, at > 0 && neighbours[n] >= 0x80);
                assert_int_equal(json_plain_length(BYTES(text, at), &foreign), at);
            }
}

static void assert_needed(struct bytes text, const char *expected)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    assert_int_equal(json_write_text(&out, text, JSON_ESCAPES_NEEDED), 0);
    if (!bytes_is(buf_bytes(&out), expected))
        fail_msg("%.*s is not %s", (int)out.len, (const char *)out.data, expected);
}

static void test_needed_escapes(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    (void)state;
    assert_needed((struct bytes){0}, "\"\"");
    assert_needed(BYTES_LIT("<&'>\x7f\xc3\xa4"), "\"<&'>\x7f\xc3\xa4\"");
    assert_needed(BYTES_LIT("a\"b\\c\b\f\n\r\t\x01"), "\"a\\\"b\\\\c\\b\\f\\n\\r\\t\\u0001\"");
    assert_needed(BYTES_LIT("a\0b"), "\"a\\u0000b\"");
    assert_int_equal(json_write_text(&out, BYTES_LIT("a\xff"), JSON_ESCAPES_NEEDED), JSON_NOT_UTF8);
}

static void test_quoted_integers(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    (void)state;
    assert_int_equal(json_write_integer(&out, true, UINT64_MAX, true), 0);
    assert_int_equal(json_write_integer(&out, false, 0, false), 0);
    assert_true(bytes_is(buf_bytes(&out), "\"-18446744073709551615\"0"));
}

static void write_all(struct json_writer *json)
{
    json_begin_object(json, NULL);
    json_put_uint(json, "u", UINT64_MAX);
    json_put_int(json, "i", INT64_MIN);
    json_put_int(json, "one", -1);
    json_put_bool(json, "yes", true);
    json_put_bool(json, "no", false);
    json_put_hex(json, "hex", "\x01\xab", 2);
    json_put_double(json, "pi", 3.14159265);
    json_put_double(json, "nan", (double)NAN);
    json_put_double(json, "tiny", 0.000379069);
    json_put_ms(json, "ms", UINT64_C(1795284000000250000));
    json_put_ms(json, "whole", UINT64_C(5000000));
    json_put_ms(json, "zero", 0);
    json_begin_array(json, "empty");
    json_end_array(json);
    json_begin_array(json, "list");
    json_put_uint(json, NULL, 1);
    json_begin_object(json, NULL);
    json_end_object(json);
    json_begin_array(json, NULL);
    json_put_string(json, NULL, "x");
    json_end_array(json);
    json_end_array(json);
    json_begin_object(json, "pairs");
    json_put_pair(json, BYTES_LIT("a\"<"), BYTES_LIT("b"));
    json_put_pair(json, BYTES_LIT("c"), BYTES_LIT("d"));
    json_end_object(json);
    json_end_object(json);
}

static const char all[] =
    "{\"u\":18446744073709551615,\"i\":-9223372036854775808,\"one\":-1,\"yes\":true,\"no\":false,"
    "\"hex\":\"01ab\",\"pi\":3.14159,\"nan\":0,\"tiny\":0.000379069,\"ms\":1795284000000.25,"
    "\"whole\":5,\"zero\":0,\"empty\":[],\"list\":[1,{},[\"x\"]],"
    "\"pairs\":{\"a\\u0022\\u003c\":\"b\",\"c\":\"d\"}}";

static void test_structure(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct json_writer json = {.out = &out};
    (void)state;
    write_all(&json);
    assert_int_equal(json.error, 0);
    assert_int_equal(out.len, sizeof(all) - 1);
    assert_memory_equal(out.data, all, out.len);
    struct json reader = json_open(buf_bytes(&out));
    assert_int_equal(json_skip(&reader), JSON_OK);
    assert_int_equal(json_finish(&reader), JSON_OK);
}

/* Whatever bytes: one string, and nothing of it outside. */
static void test_any_bytes(void **state)
{
    (void)state;
    srand(1);
    for (int round = 0; round < 2000; round++) {
        uint8_t text[64];
        size_t len = (size_t)rand() % sizeof(text);
        for (size_t i = 0; i < len; i++)
            text[i] = (uint8_t)(rand() % 4 ? rand() : "<\"\\\xe2"[rand() % 4]);
        _cleanup_buf_ struct buf out = BUF_INIT(0);
        struct json_writer json = {.out = &out};
        json_put_text(&json, NULL, BYTES(text, len));
        struct json reader = json_open(buf_bytes(&out));
        struct json_string string;
        assert_int_equal(json_string(&reader, &string), JSON_OK);
        assert_int_equal(json_finish(&reader), JSON_OK);
        assert_null(memchr(out.data, '<', out.len));
    }
}

static void test_limits(void **state)
{
    (void)state;
    for (size_t limit = 1; limit < sizeof(all) - 1; limit++) {
        _cleanup_buf_ struct buf out = BUF_INIT(limit);
        struct json_writer json = {.out = &out};
        write_all(&json);
        assert_int_equal(json.error, BUF_FULL);
        assert_memory_equal(out.data, all, out.len);
    }
    for (unsigned n = 1;; n++) {
        _cleanup_buf_ struct buf out = BUF_INIT(0);
        struct json_writer json = {.out = &out};
        fail_alloc_at(n);
        write_all(&json);
        if (!fail_alloc_hit())
            break;
        assert_int_equal(json.error, -ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_runs),      cmocka_unit_test(test_needed_escapes),
        cmocka_unit_test(test_quoted_integers), cmocka_unit_test(test_texts),
        cmocka_unit_test(test_invalid_utf8),    cmocka_unit_test(test_structure),
        cmocka_unit_test(test_any_bytes),       cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
