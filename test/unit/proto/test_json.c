/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void assert_skips(const char *text, bool valid)
{
    struct json json = json_open(BYTES_STR(text));
    int outcome = json_skip(&json);
    outcome = outcome ? outcome : json_finish(&json);
    if ((outcome == JSON_OK) != valid)
        fail_msg("%s: %s", text, json.what ? json.what : "taken");
    assert_true(valid || json.what);
    assert_true(json.at <= json.end);
}

static const char *const valid_texts[] = {"0",
                                          "-0",
                                          "12",
                                          "-1.5e+10",
                                          "1E9",
                                          "\"\"",
                                          "\"a\\\"b\\\\\"",
                                          "true",
                                          "false",
                                          "null",
                                          "[]",
                                          "[ ]",
                                          "{}",
                                          "{ }",
                                          "[1,2]",
                                          "[[],[{}],{\"a\":[]}]",
                                          " {\"a\" : 1 , \"b\":[true]} ",
                                          "\t\r\n[\n]\n",
                                          "\"\\u0000\\uD83D\\uDE00\"",
                                          "{\"\":{\"\":{}}}"};
static const char *const invalid_texts[] = {"",
                                            " ",
                                            "01",
                                            "-",
                                            "+1",
                                            "1.",
                                            ".5",
                                            "1e",
                                            "1e+",
                                            "0x1",
                                            "NaN",
                                            "Infinity",
                                            "tru",
                                            "nul",
                                            "truex",
                                            "\"",
                                            "\"a",
                                            "\"\\",
                                            "\"\\\"",
                                            "\"\n\"",
                                            "\"\x01\"",
                                            "[",
                                            "[1",
                                            "[1,",
                                            "[1,]",
                                            "[,1]",
                                            "[1 2]",
                                            "]",
                                            "[}",
                                            "{",
                                            "{\"a\"",
                                            "{\"a\":",
                                            "{\"a\":1",
                                            "{\"a\":1,}",
                                            "{,}",
                                            "{a:1}",
                                            "{1:1}",
                                            "{\"a\" 1}",
                                            "{\"a\":1]",
                                            "[1}",
                                            "1 1",
                                            "[] []",
                                            "'a'",
                                            "/**/1",
                                            "\"\xff\"",
                                            "\"\xc3\"",
                                            "\"\xed\xa0\x80\"",
                                            "\"\xc0\xaf\""};

static void test_values_by_the_grammar(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(valid_texts) / sizeof(valid_texts[0]); i++)
        assert_skips(valid_texts[i], true);
    for (size_t i = 0; i < sizeof(invalid_texts) / sizeof(invalid_texts[0]); i++)
        assert_skips(invalid_texts[i], false);
}

static void test_skipped_depth_is_limited(void **state)
{
    char text[2 * JSON_SKIP_DEPTH_MAX + 8];
    (void)state;
    for (size_t depth = JSON_SKIP_DEPTH_MAX - 1; depth <= JSON_SKIP_DEPTH_MAX + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        text[2 * depth] = '\0';
        assert_skips(text, depth <= JSON_SKIP_DEPTH_MAX);
    }
    struct buf deep = BUF_INIT(0);
    for (size_t i = 0; i < 1000000; i++)
        assert_int_equal(buf_append(&deep, i % 2 ? "{\"a\":" : "[", i % 2 ? 5 : 1), 0);
    struct json json = json_open(buf_bytes(&deep));
    assert_int_equal(json_skip(&json), JSON_MALFORMED);
    buf_close(&deep);
}

static int unescape(const char *text, struct buf *out)
{
    struct json json = json_open(BYTES_STR(text));
    struct json_string string;
    assert_int_equal(json_string(&json, &string), JSON_OK);
    assert_int_equal(json_finish(&json), JSON_OK);
    return json_unescape(&json, string.raw, out);
}

static void assert_unescapes(const char *text, struct bytes expected)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    assert_int_equal(unescape(text, &out), JSON_OK);
    assert_int_equal(out.len, expected.len);
    assert_memory_equal(out.data, expected.data, expected.len);
}

static void test_escapes(void **state)
{
    static const char *const bad[] = {"\"\\x\"",       "\"\\u12\"",       "\"\\u12G4\"",
                                      "\"\\uD800\"",   "\"\\uDC00\"",     "\"\\uD800\\u0041\"",
                                      "\"\\uD800x\"",  "\"\\uD800\\\"\"", "\"\\U0041\"",
                                      "\"\\\xc3\xa4\""};
    (void)state;
    assert_unescapes("\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", BYTES_LIT("a\"\\/\b\f\n\r\tz"));
    assert_unescapes("\"\\u0041\\u00e4\\u20AC\\uD83D\\uDE00\"",
                     BYTES_LIT("A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"));
    assert_unescapes("\"a\\u0000b\"", BYTES_LIT("a\0b"));
    assert_unescapes("\"\\uFFFF\\uD7FF\\uE000\"",
                     BYTES_LIT("\xef\xbf\xbf\xed\x9f\xbf\xee\x80\x80"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        _cleanup_buf_ struct buf out = BUF_INIT(0);
        assert_int_equal(unescape(bad[i], &out), JSON_MALFORMED);
    }
}

static void test_a_full_buffer_is_told(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(3);
    (void)state;
    assert_int_equal(unescape("\"abcd\"", &out), BUF_FULL);
    assert_int_equal(unescape("\"ab\\u20AC\"", &out), BUF_FULL);
}

static void assert_integer(const char *text, bool valid, bool negative, uint64_t magnitude)
{
    bool got_negative;
    uint64_t got;
    assert_int_equal(json_number_length(BYTES_STR(text)), strlen(text));
    assert_int_equal(json_integer(BYTES_STR(text), &got_negative, &got), valid);
    if (!valid)
        return;
    assert_int_equal(got_negative, negative);
    assert_true(got == magnitude);
}

static void test_integers(void **state)
{
    (void)state;
    assert_integer("0", true, false, 0);
    assert_integer("-0", true, true, 0);
    assert_integer("18446744073709551615", true, false, UINT64_MAX);
    assert_integer("18446744073709551616", false, false, 0);
    assert_integer("-9223372036854775808", true, true, (uint64_t)1 << 63);
    assert_integer("5.0", true, false, 5);
    assert_integer("1e3", true, false, 1000);
    assert_integer("-2.5E1", true, true, 25);
    assert_integer("0.5", false, false, 0);
    assert_integer("1e400", false, false, 0);
    assert_integer("1e-1", false, false, 0);
    assert_integer("18446744073709551616.0", false, false, 0);
}

static void assert_double(const char *text, bool valid, double expected)
{
    double got;
    assert_int_equal(json_double(BYTES_STR(text), &got), valid);
    if (valid)
        assert_memory_equal(&got, &expected, sizeof(got));
}

static void test_doubles(void **state)
{
    char digits[JSON_NUMBER_MAX + 2];
    struct bytes token;
    (void)state;
    assert_double("0", true, 0);
    assert_double("-0", true, -0.0);
    assert_double("0.1", true, 0.1);
    assert_double("9007199254740993", true, 9007199254740992.0);
    assert_double("-1.7976931348623157e308", true, -1.7976931348623157e308);
    assert_double("5e-324", true, 5e-324);
    assert_double("1e-400", true, 0);
    assert_double("1e309", false, 0);
    memset(digits, '1', sizeof(digits));
    struct json json = json_open(BYTES(digits, JSON_NUMBER_MAX));
    assert_int_equal(json_number(&json, &token), JSON_OK);
    json = json_open(BYTES(digits, JSON_NUMBER_MAX + 1));
    assert_int_equal(json_number(&json, &token), JSON_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_by_the_grammar),
        cmocka_unit_test(test_skipped_depth_is_limited),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_a_full_buffer_is_told),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_doubles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
