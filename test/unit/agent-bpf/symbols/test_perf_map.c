/* SPDX-License-Identifier: Apache-2.0 */
/* Lines as JIT compilers write them, and lines as they do not; against a model that keeps all. */
#include "agent-bpf/function_name.h"
#include "agent-bpf/symbols/perf_map.h"
#include "base/stats.h"
#include "test/support/faults/fail_alloc.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define BYTES_MAX ((size_t)1 << 20)

static int64_t left_out(const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "reason=\"%s\"", reason);
    return stats_find("spanprof_perf_map_lines_left_out_total", labels);
}

static struct perf_map map_of(const char *text)
{
    struct perf_map map;
    perf_map_init(&map, BYTES_MAX);
    assert_int_equal(perf_map_add(&map, BYTES_STR(text)), strlen(text));
    return map;
}

static void assert_name(const struct perf_map *map, uint64_t address, const char *name)
{
    struct perf_map_range range = perf_map_find(map, address);
    assert_true(address >= range.start && address <= range.last);
    if (name)
        assert_non_null(range.name);
    else
        assert_null(range.name);
    if (name)
        assert_string_equal(range.name, name);
}

static void test_forms(void **state)
{
    (void)state;
    int64_t malformed = left_out("malformed");
    struct perf_map map =
        map_of("7f2800006200 310 JS:*hot /srv/app.js:1:13\n"                 /* V8 */
               "0x00007fc068ec7640 0x00000000000000f8 double Hot.hot(int)\n" /* HotSpot */
               "7ff43cc967c7 b py::hot:/srv/app.py\n"                        /* CPython */
               "00007F8A2C3D1000 1A4 int32 [App] App.Main::Run(int32)\n"     /* .NET */
               "0X10 0X1 x\n"
               "\t20  1 \t blanks  between \r\n"
               "ffffffffffffffff 1 the last\n"
               "0 1 the first\n");
    assert_int_equal(map.n, 8);
    assert_int_equal(left_out("malformed"), malformed);
    assert_name(&map, 0x7f2800006200, "JS:*hot /srv/app.js:1:13");
    assert_name(&map, 0x7f280000650f, "JS:*hot /srv/app.js:1:13");
    assert_name(&map, 0x7f28000061ff, NULL);
    assert_name(&map, 0x7f2800006510, NULL);
    assert_name(&map, 0x7fc068ec7640 + 0xf7, "double Hot.hot(int)");
    assert_name(&map, 0x7ff43cc967d1, "py::hot:/srv/app.py");
    assert_name(&map, 0x7f8a2c3d1000, "int32 [App] App.Main::Run(int32)");
    assert_name(&map, 0x10, "x");
    assert_name(&map, 0x20, "blanks  between");
    assert_name(&map, UINT64_MAX, "the last");
    assert_name(&map, 0, "the first");
    perf_map_close(&map);
    assert_name(&map, 0, NULL);
    perf_map_close(&map);
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        " ",
        "1",
        "1 1",
        "1 1 ",
        "1 1\tx",
        "1  x",
        "x 1 name",
        "1 x name",
        "-1 1 name",
        "1 -1 name",
        "1,1 name",
        "0x 1 name",
        "1 0x name",
        "11112222333344445 1 name",
        "1 11112222333344445 name",
        "1 0 name",
        "ffffffffffffffff 2 name",
        "1g 1 name",
        "0x0x1 1 name",
        "\x01 1 name",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        char text[64];
        int64_t malformed = left_out("malformed");
        bool good = i == 5; /* a tab is a blank */
        snprintf(text, sizeof(text), "%s\n", lines[i]);
        struct perf_map map = map_of(text);
        assert_int_equal(map.n, good);
        assert_int_equal(left_out("malformed") - malformed, !good);
        perf_map_close(&map);
    }
}

static void test_foreign_names(void **state)
{
    (void)state;
    char text[2000] = "30 1 ";
    memset(text + 5, 'n', 1000);
    memcpy(text + 1005, "\n10 1 a\x1b[31m\xff\xc3\xa9\n", 17);
    struct perf_map map = map_of(text);
    assert_name(&map, 0x10, "a?[31m?\xc3\xa9");
    assert_int_equal(strlen(perf_map_find(&map, 0x30).name), FUNCTION_NAME_MAX - 1);
    perf_map_close(&map);
}

static void test_lines_in_pieces(void **state)
{
    (void)state;
    struct perf_map map;
    perf_map_init(&map, BYTES_MAX);
    assert_int_equal(perf_map_add(&map, BYTES_LIT("")), 0);
    assert_int_equal(perf_map_add(&map, BYTES_LIT("10 1 half")), 0);
    assert_int_equal(map.n, 0);
    assert_int_equal(perf_map_add(&map, BYTES_LIT("10 1 whole\n20 1 half")), 11);
    assert_name(&map, 0x10, "whole");
    assert_name(&map, 0x20, NULL);
    perf_map_close(&map);
}

static void assert_extent(const struct perf_map *map, uint64_t address, uint64_t start,
                          uint64_t last)
{
    struct perf_map_range range = perf_map_find(map, address);
    assert_true(range.start == start && range.last == last);
}

/* Of code, and of what lies between. */
static void test_extents(void **state)
{
    (void)state;
    struct perf_map map = map_of("");
    assert_extent(&map, 5, 0, UINT64_MAX);
    perf_map_add(&map, BYTES_LIT("100 10 a\n110 10 b\n200 1 c\n"));
    assert_extent(&map, 0xff, 0, 0xff);
    assert_extent(&map, 0x100, 0x100, 0x10f);
    assert_extent(&map, 0x110, 0x110, 0x11f);
    assert_extent(&map, 0x120, 0x120, 0x1ff);
    assert_extent(&map, 0x200, 0x200, 0x200);
    assert_extent(&map, 0x201, 0x201, UINT64_MAX);
    perf_map_add(&map, BYTES_LIT("0 1 first\nffffffffffffffff 1 last\n"));
    assert_extent(&map, 1, 1, 0xff);
    assert_extent(&map, UINT64_MAX, UINT64_MAX, UINT64_MAX);
    assert_extent(&map, UINT64_MAX - 1, 0x201, UINT64_MAX - 1);
    perf_map_close(&map);
    perf_map_init(&map, BYTES_MAX);
    for (unsigned i = 1; i <= 1000; i++) { /* also at the ends of blocks */
        char line[32];
        snprintf(line, sizeof(line), "%x 1 n\n", 2 * i);
        perf_map_add(&map, BYTES_STR(line));
    }
    for (unsigned i = 1; i < 1000; i++)
        assert_extent(&map, 2 * i + 1, 2 * i + 1, 2 * i + 1);
    perf_map_close(&map);
}

/* What is overwritten a little is there no more. */
static void test_moved_code(void **state)
{
    (void)state;
    struct perf_map map = map_of("100 100 old\n"
                                 "200 100 next\n"
                                 "1ff 1 new\n");
    assert_name(&map, 0x1ff, "new");
    assert_name(&map, 0x100, NULL);
    assert_name(&map, 0x200, "next");
    perf_map_add(&map, BYTES_LIT("0 1000 all\n"));
    assert_int_equal(map.n, 1);
    assert_name(&map, 0x200, "all");
    perf_map_add(&map, BYTES_LIT("0 1000 all again\n"));
    assert_name(&map, 0xfff, "all again");
    perf_map_close(&map);
}

static void add(struct perf_map *map, unsigned start, unsigned size, unsigned name)
{
    char line[64];
    snprintf(line, sizeof(line), "%x %x %u\n", start, size, name);
    assert_int_equal(perf_map_add(map, BYTES_STR(line)), strlen(line));
}

static unsigned number_at(const struct perf_map *map, uint64_t address)
{
    const char *name = perf_map_find(map, address).name;
    return name ? (unsigned)strtoul(name, NULL, 10) : 0;
}

/* One more at each place among enough for several blocks; and one over each two neighbours. */
static void test_every_place(void **state)
{
    (void)state;
    enum { N = 320, STEP = 4, NEW = 1000 }; /* the last block is full */
    for (unsigned place = 0; place <= N; place++) {
        struct perf_map map;
        perf_map_init(&map, BYTES_MAX);
        for (unsigned i = 1; i <= N; i++)
            add(&map, i * STEP, 2, i);
        add(&map, place * STEP + 2, 1, NEW);
        for (unsigned i = 1; i <= N; i++)
            assert_int_equal(number_at(&map, i * STEP + 1), i);
        assert_int_equal(number_at(&map, place * STEP + 2), NEW);
        assert_int_equal(number_at(&map, place * STEP + 3), 0);
        add(&map, place * STEP + 1, STEP, NEW + 1);
        for (unsigned i = 1; i <= N; i++) {
            unsigned left = i == place || i == place + 1 ? NEW + 1 : i;
            assert_int_equal(number_at(&map, i * STEP + (i == place)), left);
        }
        perf_map_close(&map);
    }
}

enum { SPACE = 20000, STEPS = 20000 };

struct model { /* by address: the step that wrote the range there, and where that ends */
    unsigned step[SPACE];
};

static void model_remove(struct model *model, unsigned at)
{
    unsigned old = model->step[at];
    while (at && model->step[at - 1] == old)
        at--;
    for (; old && at < SPACE && model->step[at] == old; at++)
        model->step[at] = 0;
}

static void model_add(struct model *model, unsigned start, unsigned size, unsigned step)
{
    for (unsigned at = start; at < start + size; at++)
        model_remove(model, at);
    for (unsigned at = start; at < start + size; at++)
        model->step[at] = step;
}

static void test_against_model(void **state)
{
    (void)state;
    static struct model model;
    struct perf_map map;
    uint64_t random = 1;
    perf_map_init(&map, BYTES_MAX);
    for (unsigned step = 1; step <= STEPS; step++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        unsigned size = 1 + (unsigned)(random >> 33) % (step % 1000 ? 20 : SPACE / 2);
        unsigned start = (unsigned)(random >> 40) % (SPACE - size);
        model_add(&model, start, size, step);
        add(&map, start, size, step);
        for (unsigned at = 0; at < SPACE && step % 500 == 499; at++)
            assert_int_equal(number_at(&map, at), model.step[at]);
    }
    perf_map_close(&map);
}

static void test_memory_limit(void **state)
{
    (void)state;
    int64_t no_memory = left_out("memory");
    struct perf_map map;
    perf_map_init(&map, 10000);
    for (unsigned i = 0; i < 1000; i++) {
        char line[64];
        snprintf(line, sizeof(line), "%x 1 name\n", i);
        perf_map_add(&map, BYTES_STR(line));
        assert_true(map.bytes <= 10000);
    }
    assert_true(map.n > 50 && map.n < 1000);
    assert_int_equal(left_out("memory") - no_memory, 1000 - (int64_t)map.n);
    assert_name(&map, 999, NULL);
    /* What does not fit still ends what it overwrites. */
    perf_map_add(&map, BYTES_LIT("0 1 a name that is longer than the first one, by more than is "
                                 "left below the limit of this map, which was chosen so; it is "
                                 "known no more what lies there\n"));
    assert_name(&map, 0, NULL);
    assert_name(&map, 1, "name");
    perf_map_add(&map, BYTES_LIT("0 1000 one\n"));
    assert_int_equal(map.n, 1);
    size_t one = map.bytes;
    perf_map_close(&map);
    assert_int_equal(map.bytes, 0);
    perf_map_add(&map, BYTES_LIT("0 1000 one\n"));
    assert_int_equal(map.bytes, one);
    perf_map_close(&map);
}

static void test_no_memory(void **state)
{
    (void)state;
    int64_t no_memory = left_out("memory");
    struct perf_map map = map_of("10 1 old\n");
    fail_alloc_at(1);
    perf_map_add(&map, BYTES_LIT("10 1 new\n20 1 next\n"));
    assert_true(fail_alloc_hit());
    assert_int_equal(left_out("memory") - no_memory, 1);
    assert_name(&map, 0x10, NULL);
    assert_name(&map, 0x20, "next");
    perf_map_close(&map);
    for (unsigned n = 1; n <= 4; n++) { /* the first of all: its table, its block, its name */
        perf_map_init(&map, BYTES_MAX);
        fail_alloc_at(n);
        perf_map_add(&map, BYTES_LIT("10 1 lost\n"));
        assert_int_equal(fail_alloc_hit(), n < 4);
        assert_name(&map, 0x10, n < 4 ? NULL : "lost");
        perf_map_add(&map, BYTES_LIT("10 1 there\n"));
        assert_name(&map, 0x10, "there");
        perf_map_close(&map);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),         cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_foreign_names), cmocka_unit_test(test_lines_in_pieces),
        cmocka_unit_test(test_extents),       cmocka_unit_test(test_moved_code),
        cmocka_unit_test(test_every_place),   cmocka_unit_test(test_against_model),
        cmocka_unit_test(test_memory_limit),  cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
