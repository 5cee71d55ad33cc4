/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client_http.h"
#include "client/client_json.h"
#include "client/client_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

/* ---- answers ---- */

static void test_nobody_listens(void **state)
{
    struct http_answer answer;
    char path[200];
    (void)state;
    assert_int_equal(client_http_get("/nonexistent/socket", "/", &answer), -ENOENT);
    http_answer_close(&answer);
    memset(path, 'a', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(client_http_get(path, "/", &answer), -ENAMETOOLONG);
    http_answer_close(&answer);
}

/* ---- JSON ---- */

static void test_a_tree_is_read(void **state)
{
    struct arena arena;
    struct value root;
    (void)state;
    arena_init(&arena, 1u << 20);
    assert_int_equal(client_json_read(BYTES_LIT("{\"a\": [1.5, \"x\\ny\", null, true, {}], "
                                                "\"b\": {\"c\": -2}, \"\\u0064\": \"\"}"),
                                      &arena, &root),
                     0);
    assert_int_equal(root.n, 3);
    const struct value *item = value_items(&root, "a");
    assert_int_equal(value_get(&root, "a")->n, 5);
    assert_true(item->number == 1.5);
    assert_true(bytes_is(item->next->text, "x\ny"));
    assert_int_equal(item->next->next->kind, VALUE_NULL);
    assert_true(item->next->next->next->number == 1);
    assert_true(value_number(value_get(&root, "b"), "c") == -2);
    assert_non_null(value_get(&root, "d"));
    assert_int_equal(value_text(&root, "none").len, 0);
    assert_null(value_items(&root, "b"));
    assert_true(value_number(NULL, "x") == 0);
    arena_close(&arena);
}

static void test_no_tree_is_read(void **state)
{
    static const char *const texts[] = {"",          "{",     "[1",  "{\"a\"}",
                                        "{\"a\": }", "[1] x", "nul", "1e999"};
    char deep[101] = "";
    struct arena arena;
    struct value root;
    (void)state;
    arena_init(&arena, 1u << 20);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        assert_int_equal(client_json_read(BYTES_STR(texts[i]), &arena, &root), -EPROTO);
    memset(deep, '[', 50);
    memset(deep + 50, ']', 50);
    assert_int_equal(client_json_read(BYTES_STR(deep), &arena, &root), -EPROTO);
    arena_close(&arena);
    arena_init(&arena, 4096);
    char many[20002] = "[";
    for (size_t i = 1; i < 20000; i += 2)
        memcpy(many + i, "1,", 2);
    memcpy(many + 19999, "1]", 2);
    assert_int_equal(client_json_read(BYTES(many, 20001), &arena, &root), -ENOMEM);
    arena_close(&arena);
}

/* ---- texts ---- */

static void test_durations(void **state)
{
    static const struct {
        double ns;
        const char *text;
    } cases[] = {{0, "0"},
                 {7, "7.00 ns"},
                 {1500, "1.50 µs"},
                 {999999, "1.00 ms"},
                 {12345678, "12.3 ms"},
                 {412e6, "412 ms"},
                 {999.6e6, "1.00 s"},
                 {125e9, "125 s"}};
    char out[CLIENT_DURATION_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_string_equal(client_duration(cases[i].ns, out), cases[i].text);
}

static void assert_text(const char *text, size_t width, bool fill, const char *wanted)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    assert_int_equal(client_put_text(&out, BYTES_STR(text), width, fill), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_string_equal((const char *)out.data, wanted);
}

static void test_texts_are_cut_and_filled(void **state)
{
    (void)state;
    assert_text("abc", 5, true, "abc  ");
    assert_text("abc", 5, false, "abc");
    assert_text("abcdef", 5, true, "abcd…");
    assert_text("größe", 5, true, "größe");
    assert_text("größer", 5, true, "größ…");
    assert_text("abc", 0, true, "");
    assert_text("", 2, true, "  ");
}

static void test_texts_move_no_cursor(void **state)
{
    (void)state;
    assert_text("a\033[2Jb\r\n", 20, false, "a?[2Jb??");
    assert_text("a\xc2\x9b"
                "31m",
                20, false, "a?31m");
    assert_text("a\xe2\x80\xae"
                "b\xe2\x81\xa6",
                20, false, "a?b?");
    assert_text("a\xff", 20, false, "(not UTF-8)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_a_tree_is_read),
        cmocka_unit_test(test_no_tree_is_read),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_texts_are_cut_and_filled),
        cmocka_unit_test(test_texts_move_no_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
