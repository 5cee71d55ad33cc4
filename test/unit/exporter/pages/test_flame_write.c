/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/flame_write.h"
#include "proto/json.h"
#include "test/support/faults/fail_alloc.h"
#include "test/support/fixtures/flame_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define MEMORY  ((size_t)16 << 20)
#define HOSTILE "</title><script>alert(1)</script>\"'&\x01\xff\xe2\x80\xae\xd7\xa9"

static void open_shop(struct flame *flame)
{
    assert_int_equal(flame_open(flame, FLAME_CALLEES, MEMORY), 0);
    assert_int_equal(flame_fixture_add(flame, "main;tax", 3, false), 0);
    assert_int_equal(flame_fixture_add(flame, "main;[k]read", 2, false), 0);
    assert_int_equal(flame_fixture_add(flame, "main", 1, true), 0);
    assert_int_equal(flame_finish(flame, 100), 0);
}

static void assert_is(const struct buf *out, const char *expected)
{
    if (!bytes_is(buf_bytes(out), expected))
        fail_msg("%.*s\nis not\n%s", (int)out->len, (const char *)out->data, expected);
}

static void test_json(void **state)
{
    struct flame flame;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct json_writer json = {.out = &out};
    (void)state;
    open_shop(&flame);
    json_begin_object(&json, NULL);
    assert_int_equal(flame_write_json(&flame, true, &json), 0);
    json_end_object(&json);
    assert_is(&out, "{\"strings\":[\"\",\"main\",\"shop.c\",\"/usr/bin/shop\",\"tax\",\"[k]read\"],"
                    "\"frames\":["
                    "{\"function\":1,\"file\":2,\"line\":4,\"module\":3,\"type\":\"native\","
                    "\"inlined\":false,\"unnamed\":false},"
                    "{\"function\":4,\"file\":2,\"line\":3,\"module\":3,\"type\":\"native\","
                    "\"inlined\":false,\"unnamed\":false},"
                    "{\"function\":5,\"file\":2,\"line\":7,\"module\":3,\"type\":\"kernel\","
                    "\"inlined\":false,\"unnamed\":false}],"
                    "\"nodes\":{\"parent\":[-1,0,0],\"frame\":[0,1,2],\"self_ns\":[0,30,20],"
                    "\"total_ns\":[50,30,20],\"samples\":[5,3,2],\"base_self_ns\":[10,0,0],"
                    "\"base_total_ns\":[10,0,0]}}");
    flame_close(&flame);
}

static void test_folded(void **state)
{
    struct flame flame;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct history_frame odd = flame_fixture_frame("a;b\nc 1", 7);
    const struct history_frame *stack = &odd;
    (void)state;
    assert_int_equal(flame_open(&flame, FLAME_CALLEES, MEMORY), 0);
    assert_int_equal(flame_fixture_add(&flame, "main;tax", 3, false), 0);
    assert_int_equal(flame_fixture_add(&flame, "main", 2, false), 0);
    assert_int_equal(flame_add(&flame, &stack, 1, (struct flame_weight){10, 1}, false), 0);
    assert_int_equal(flame_finish(&flame, 100), 0);
    assert_int_equal(flame_write_folded(&flame, false, &out), 0);
    assert_is(&out, "main 2\nmain;tax 3\na:b c 1 1\n");
    flame_close(&flame);
}

static void test_speedscope(void **state)
{
    struct flame flame;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    (void)state;
    open_shop(&flame);
    assert_int_equal(flame_write_speedscope(&flame, "shop", &out), 0);
    assert_is(&out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
                    "\"exporter\":\"spanprof\",\"name\":\"shop\",\"shared\":{\"frames\":["
                    "{\"name\":\"main\",\"file\":\"shop.c\",\"line\":4},"
                    "{\"name\":\"tax\",\"file\":\"shop.c\",\"line\":3},"
                    "{\"name\":\"[k]read\",\"file\":\"shop.c\",\"line\":7}]},"
                    "\"profiles\":[{\"type\":\"sampled\",\"name\":\"CPU time\",\"unit\":"
                    "\"nanoseconds\",\"startValue\":0,\"endValue\":50,\"samples\":[[0,1],[0,2]],"
                    "\"weights\":[30,20]}],\"activeProfileIndex\":0}");
    flame_close(&flame);
}

static bool holds(const struct buf *out, const char *text)
{
    return memmem(out->data, out->len, text, strlen(text)) != NULL;
}

static void test_svg(void **state)
{
    struct flame flame;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    (void)state;
    open_shop(&flame);
    assert_int_equal(
        flame_write_svg(&flame, &(struct flame_picture){"CPU time", "service=<shop>"}, &out), 0);
    assert_true(holds(&out, "<title>tax, shop.c:3, /usr/bin/shop: 0.0 \xc2\xb5s (60.00 %)"));
    assert_true(holds(&out, "service=&lt;shop&gt;"));
    assert_true(holds(&out, "<rect x=\"10.0\" y=\"56\" width=\"1179.5\""));
    assert_true(holds(&out, "<rect x=\"718.0\" y=\"74\" width=\"471.5\""));
    assert_true(holds(&out, "role=\"img\""));
    assert_false(holds(&out, "<script") || holds(&out, "style=") || holds(&out, "href"));
    flame_close(&flame);
}

/* main;tax 30 to 60, main;read 20 to 0, and the baseline took twice as long. */
static void open_difference(struct flame *flame)
{
    assert_int_equal(flame_open(flame, FLAME_CALLEES, MEMORY), 0);
    assert_int_equal(flame_fixture_add(flame, "main;tax", 6, false), 0);
    assert_int_equal(flame_fixture_add(flame, "main;same", 1, false), 0);
    assert_int_equal(flame_fixture_add(flame, "main;tax", 4, true), 0);
    assert_int_equal(flame_fixture_add(flame, "main;read", 2, true), 0);
    assert_int_equal(flame_fixture_add(flame, "main;same", 2, true), 0);
    assert_int_equal(flame_finish(flame, 100), 0);
}

static void test_folded_difference(void **state)
{
    struct flame flame;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    (void)state;
    open_difference(&flame);
    assert_int_equal(flame_write_folded(&flame, true, &out), 0);
    assert_is(&out, "main;tax 4 6\nmain;read 2 0\nmain;same 2 1\n");
    flame_close(&flame);
}

static void test_svg_difference(void **state)
{
    struct flame flame;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    (void)state;
    open_difference(&flame);
    assert_int_equal(flame_write_svg_difference(&flame, &(struct flame_picture){"t", "a"},
                                                &(struct flame_ranges){1000, 2000}, &out),
                     0);
    assert_true(holds(&out, "6 samples; before 0.0 \xc2\xb5s, change +40.00 mcores</title>"));
    assert_true(holds(&out, "fill=\"#e57761\"/>")); /* tax: the most that changed, to more */
    assert_true(holds(&out, "1 samples; before 0.0 \xc2\xb5s, change +0.00 mcores</title>"));
    assert_true(holds(&out, "fill=\"#e6e6e6\"/>"));
    assert_false(holds(&out, ">read"));
    out.len = 0;
    assert_int_equal(flame_write_svg_difference(&flame, &(struct flame_picture){"t", "a"},
                                                &(struct flame_ranges){4000, 500}, &out),
                     0);
    assert_true(holds(&out, "change -65.00 mcores</title>"));
    assert_true(holds(&out, "fill=\"#619fe5\"/>")); /* main: the most that changed, to less */
    flame_close(&flame);
}

static void test_hostile_names(void **state)
{
    struct flame flame;
    _cleanup_buf_ struct buf svg = BUF_INIT(0), scope = BUF_INIT(0), data = BUF_INIT(0);
    struct json_writer json = {.out = &data};
    char *long_name = malloc(10000);
    (void)state;
    memset(long_name, '<', 10000);
    struct history_frame frames[] = {flame_fixture_frame(HOSTILE, sizeof(HOSTILE) - 1),
                                     flame_fixture_frame(long_name, 10000)};
    const struct history_frame *stack[] = {&frames[0], &frames[1]};
    frames[0].file = frames[0].module = frames[0].function;
    assert_int_equal(flame_open(&flame, FLAME_CALLEES, MEMORY), 0);
    assert_int_equal(flame_add(&flame, stack, 2, (struct flame_weight){10, 1}, false), 0);
    assert_int_equal(flame_finish(&flame, 100), 0);
    assert_int_equal(flame_write_svg(&flame, &(struct flame_picture){"t", HOSTILE}, &svg), 0);
    assert_true(bytes_utf8_valid(buf_bytes(&svg)));
    assert_false(holds(&svg, "<script") || holds(&svg, "\xe2\x80\xae") || holds(&svg, "\x01"));
    assert_true(holds(&svg, "&lt;script&gt;") && svg.len < 40000);
    assert_int_equal(flame_write_speedscope(&flame, "x", &scope), 0);
    assert_false(holds(&scope, "<"));
    json_begin_object(&json, NULL);
    assert_int_equal(flame_write_json(&flame, false, &json), 0);
    json_end_object(&json);
    struct json reader = json_open(buf_bytes(&data));
    assert_int_equal(json_skip(&reader), JSON_OK);
    assert_int_equal(json_finish(&reader), JSON_OK);
    assert_false(holds(&data, "<"));
    flame_close(&flame);
    free(long_name);
}

static void test_nothing(void **state)
{
    struct flame flame;
    _cleanup_buf_ struct buf svg = BUF_INIT(0), folded = BUF_INIT(0), scope = BUF_INIT(0);
    (void)state;
    assert_int_equal(flame_open(&flame, FLAME_CALLEES, MEMORY), 0);
    assert_int_equal(flame_finish(&flame, 100), 0);
    assert_int_equal(flame_write_svg(&flame, &(struct flame_picture){"t", ""}, &svg), 0);
    assert_true(holds(&svg, "No samples."));
    assert_int_equal(flame_write_folded(&flame, false, &folded), 0);
    assert_int_equal(folded.len, 0);
    assert_int_equal(flame_write_speedscope(&flame, "x", &scope), 0);
    flame_close(&flame);
}

static int write_all(const struct flame *flame, size_t limit)
{
    _cleanup_buf_ struct buf out = BUF_INIT(limit);
    struct json_writer json = {.out = &out};
    json_begin_object(&json, NULL);
    int error = flame_write_json(flame, true, &json);
    buf_clear(&out);
    error = error ? error : flame_write_folded(flame, true, &out);
    buf_clear(&out);
    error = error ? error : flame_write_speedscope(flame, "x", &out);
    buf_clear(&out);
    error = error ? error : flame_write_svg(flame, &(struct flame_picture){"t", ""}, &out);
    buf_clear(&out);
    return error ? error
                 : flame_write_svg_difference(flame, &(struct flame_picture){"t", ""},
                                              &(struct flame_ranges){10, 10}, &out);
}

static void test_limits(void **state)
{
    struct flame flame;
    (void)state;
    open_shop(&flame);
    size_t limit = 1;
    int error;
    while ((error = write_all(&flame, limit)) == BUF_FULL)
        limit += 7;
    assert_int_equal(error, 0);
    assert_true(limit > 1000);
    for (unsigned n = 1;; n++) {
        fail_alloc_at(n);
        error = write_all(&flame, 0);
        if (!fail_alloc_hit())
            break;
        assert_int_equal(error, -ENOMEM);
    }
    flame_close(&flame);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_folded),
        cmocka_unit_test(test_speedscope),
        cmocka_unit_test(test_svg),
        cmocka_unit_test(test_folded_difference),
        cmocka_unit_test(test_svg_difference),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
