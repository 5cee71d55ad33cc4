/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void test_compare(void **state)
{
    (void)state;
    assert_true(bytes_equal(BYTES(NULL, 0), BYTES("x", 0)));
    assert_true(bytes_is(BYTES("abcd", 3), "abc"));
    assert_false(bytes_is(BYTES("abcd", 4), "abc"));
    assert_false(bytes_is(BYTES("abd", 3), "abc"));
    assert_true(bytes_zero("\0\0\0", 4));
    assert_false(bytes_zero("\0\0\1", 3));
    assert_true(bytes_zero(NULL, 0));
}

static void test_hex(void **state)
{
    char text[9];
    uint8_t raw[4];
    (void)state;
    bytes_to_hex(BYTES("\x00\x1f\xab\xff", 4), text);
    assert_string_equal(text, "001fabff");
    assert_true(bytes_from_hex(BYTES_LIT("001fABff"), raw, 4));
    assert_memory_equal(raw, "\x00\x1f\xab\xff", 4);
    assert_false(bytes_from_hex(BYTES_LIT("001fABf"), raw, 4));
    assert_false(bytes_from_hex(BYTES_LIT("001fABff0"), raw, 4));
    assert_false(bytes_from_hex(BYTES_LIT("001fABfff"), raw, 4));
    for (int c = 0; c < 256; c++) {
        char digits[2] = {'0', (char)c};
        bool good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        assert_int_equal(bytes_from_hex(BYTES(digits, 2), raw, 1), good);
    }
}

static void test_base64_vectors(void **state)
{
    static const char *const vectors[][2] = {/* RFC 4648, section 10 */
                                             {"", ""},
                                             {"f", "Zg=="},
                                             {"fo", "Zm8="},
                                             {"foo", "Zm9v"},
                                             {"foob", "Zm9vYg=="},
                                             {"fooba", "Zm9vYmE="},
                                             {"foobar", "Zm9vYmFy"}};
    char text[16];
    uint8_t raw[16];
    (void)state;
    for (size_t i = 0; i < 7; i++) {
        size_t len = strlen(vectors[i][0]);
        assert_int_equal(bytes_from_base64(BYTES_STR(vectors[i][1]), raw), len);
        assert_memory_equal(raw, vectors[i][0], len);
        size_t text_len = bytes_to_base64(BYTES_STR(vectors[i][0]), false, text);
        assert_int_equal(text_len, strcspn(vectors[i][1], "="));
        assert_memory_equal(text, vectors[i][1], text_len);
        assert_int_equal(bytes_from_base64(BYTES_STR(text), raw), len);
    }
    bytes_to_base64(BYTES("\xfb\xff\xfe", 3), false, text);
    assert_string_equal(text, "+//+");
    bytes_to_base64(BYTES("\xfb\xff\xfe", 3), true, text);
    assert_string_equal(text, "-__-");
    assert_int_equal(bytes_from_base64(BYTES_LIT("-__-"), raw), 3);
}

static void test_base64_malformed(void **state)
{
    static const char *const bad[] = {"Z",    "Zg=",   "Zg===", "Z===", "====", "Zm9vY",    "Zm 9",
                                      "Zh==", "Zm9=v", "Zm9",   "=Zg=", "Zg\n", "Zm9vYg=\n"};
    uint8_t raw[16];
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(bytes_from_base64(BYTES_STR(bad[i]), raw), -1);
}

static void test_base64_round_trip(void **state)
{
    uint8_t in[64], out[72];
    char text[90];
    (void)state;
    srand(1);
    for (size_t len = 0; len <= 64; len++) {
        for (size_t i = 0; i < len; i++)
            in[i] = (uint8_t)rand();
        size_t n = bytes_to_base64(BYTES(in, len), len % 2, text);
        assert_int_equal(strlen(text), n);
        assert_int_equal(bytes_from_base64(BYTES(text, n), out), len);
        assert_memory_equal(in, out, len);
    }
}

static void test_utf8(void **state)
{
    static const char *const good[] = {"",
                                       "plain",
                                       "\xc2\x80",
                                       "\xc3\xa4",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc3",
                                      "\xc3(",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xe2\x82",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xff",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xf0\x9f\x98"};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(bytes_utf8_valid(BYTES_STR(good[i])));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(bytes_utf8_valid(BYTES_STR(bad[i])));
}

static void check_sanitized(const char *in, size_t len, size_t size, const char *expected)
{
    char *out = malloc(size);
    size_t n = bytes_sanitize(BYTES(in, len), out, size);
    assert_int_equal(n, strlen(expected));
    assert_string_equal(out, expected);
    free(out);
}

static void test_sanitize(void **state)
{
    (void)state;
    check_sanitized("plain", 5, 10, "plain");
    check_sanitized("a\nb\x1b[31m\x7f\0z", 11, 20, "a?b?[31m??z");
    check_sanitized("\xc2\x9b\x31", 3, 10, "?1"); /* C1's control sequence introducer */
    check_sanitized("\xff\xc3\xa4\xc3", 4, 10, "?\xc3\xa4?");
    check_sanitized("abcdef", 6, 4, "abc");
    check_sanitized("ab\xc3\xa4", 4, 4, "ab"); /* cut in front of a character that does not fit */
    check_sanitized("abc", 3, 1, "");
    assert_int_equal(bytes_sanitize(BYTES_LIT("abc"), NULL, 0), 0);
}

static void test_siphash(void **state)
{
    uint8_t key[16], in[15], out[16];
    (void)state;
    for (uint8_t i = 0; i < 16; i++)
        key[i] = i;
    for (uint8_t i = 0; i < 15; i++)
        in[i] = i;
    /* The vectors of the SipHash paper and of its reference implementation. */
    assert_true(bytes_siphash(BYTES(in, 15), key) == UINT64_C(0xa129ca6149be45e5));
    assert_true(bytes_siphash(BYTES(in, 0), key) == UINT64_C(0x726fdb47dd0e0e31));
    bytes_siphash128(BYTES(in, 0), key, out);
    assert_memory_equal(out, "\xa3\x81\x7f\x04\xba\x25\xa8\xe6\x6d\xf6\x72\x14\xc7\x55\x02\x93",
                        16);
    bytes_siphash128(BYTES(in, 1), key, out);
    assert_memory_equal(out, "\xda\x87\xc1\xd8\x6b\x99\xaf\x44\x34\x76\x59\x11\x9b\x22\xfc\x45",
                        16);
}

static void check_fnv(const char *text, const char *expected)
{
    struct fnv128 fnv;
    uint8_t out[16];
    char hex[33];
    fnv128_init(&fnv);
    for (size_t i = 0; i < strlen(text); i++)
        fnv128_add(&fnv, text + i, 1);
    fnv128_finish(&fnv, out);
    bytes_to_hex(BYTES(out, 16), hex);
    assert_string_equal(hex, expected);
}

static void test_fnv128(void **state)
{
    (void)state;
    check_fnv("", "6c62272e07bb014262b821756295c58d");
    check_fnv("a", "d228cb696f1a8caf78912b704e4a8964");
    check_fnv("foobar", "343e1662793c64bf6f0d3597ba446f18");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_hex),
        cmocka_unit_test(test_base64_vectors),
        cmocka_unit_test(test_base64_malformed),
        cmocka_unit_test(test_base64_round_trip),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_sanitize),
        cmocka_unit_test(test_siphash),
        cmocka_unit_test(test_fnv128),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
