/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void check(const char *text, size_t max, const char *expected)
{
    struct bytes cut = utf8_cut(BYTES_STR(text), max);
    assert_int_equal(cut.len, strlen(expected));
    assert_memory_equal(cut.data, expected, cut.len);
}

static void whole_texts_stay(void **state)
{
    static const char *const texts[] = {
        "", "plain", "\xc3\x9f", "a\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        check(texts[i], strlen(texts[i]), texts[i]);
        check(texts[i], 100, texts[i]);
    }
    assert_int_equal(utf8_cut(BYTES(NULL, 0), 5).len, 0);
}

static void cut_between_characters(void **state)
{
    (void)state;
    check("abc", 2, "ab");
    check("abc", 0, "");
    check("stra\xc3\x9f"
          "e",
          6, "stra\xc3\x9f");
    check("stra\xc3\x9f"
          "e",
          5, "stra");
    check("\xe2\x82\xac\xe2\x82\xac", 5, "\xe2\x82\xac");
    check("\xe2\x82\xac\xe2\x82\xac", 4, "\xe2\x82\xac");
    for (size_t max = 1; max < 5; max++)
        check("a\xf0\x9f\x98\x80", max, "a");
    check("\xf0\x9f\x98\x80", 3, "");
}

/* A name that somebody else has cut. */
static void half_a_character_at_the_end_goes(void **state)
{
    (void)state;
    check("gr\xc3\xb6\xc3\x9f"
          "en-stra\xc3",
          16,
          "gr\xc3\xb6\xc3\x9f"
          "en-stra");
    check("a\xe2\x82", 16, "a");
    check("\xf0\x9f\x98", 16, "");
}

static void what_is_no_character_stays(void **state)
{
    (void)state;
    check("a\xff", 16, "a\xff");
    check("a\x80", 16, "a\x80");
    check("\x80\x80\x80\x80\x80", 16, "\x80\x80\x80\x80\x80");
    check("\xc3\x9f\x80", 16, "\xc3\x9f\x80");
    check("\xc0", 16, "\xc0");
    check("\xf5\x80", 16, "\xf5\x80");
}

/* Of what is UTF-8 the beginnings are, and no more is lost than has to be. */
static void every_beginning_is_valid(void **state)
{
    static const char text[] = "a\xc3\x9f"
                               "b\xe2\x82\xac"
                               "c\xf0\x9f\x98\x80\xc3\xb6z";
    (void)state;
    for (size_t max = 0; max < sizeof(text); max++) {
        struct bytes cut = utf8_cut(BYTES_LIT(text), max);
        assert_true(bytes_utf8_valid(cut));
        assert_true(cut.len <= max && cut.len + 3 >= max);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_texts_stay),
        cmocka_unit_test(cut_between_characters),
        cmocka_unit_test(half_a_character_at_the_end_goes),
        cmocka_unit_test(what_is_no_character_stays),
        cmocka_unit_test(every_beginning_is_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
