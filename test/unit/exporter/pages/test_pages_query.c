/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_query.h"
#include "base/clock.h"
#include "test/support/faults/fail_alloc.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define NOW     (1795284000 * NS_PER_SEC)
#define MINUTES (60 * NS_PER_SEC)
#define ALL                                                                                        \
    (PAGES_TAKES_BASE | PAGES_TAKES_TRACE_ORDER | PAGES_TAKES_LIMIT | PAGES_TAKES_VIEW |           \
     PAGES_TAKES_BUCKETS | PAGES_TAKES_OF | PAGES_TAKES_SECONDS | PAGES_TAKES_SINCE |              \
     PAGES_TAKES_FRAMES)

static struct arena arena;
static struct pages_query query;
static char problem[256];

/* Name and value alternate; ends with NULL. */
static int read_list(unsigned takes, const char *const *texts)
{
    struct pages_parameter parameters[PAGES_PARAMETERS_MAX + 8];
    size_t n = 0;
    for (; texts[0]; texts += 2)
        parameters[n++] = (struct pages_parameter){BYTES_STR(texts[0]), BYTES_STR(texts[1])};
    arena_close(&arena);
    arena_init(&arena, 1 << 20);
    return pages_query_read(parameters, n, takes, NOW, &arena, &query, problem);
}

#define READ(takes, ...) read_list(takes, (const char *const[]){__VA_ARGS__, NULL})
#define NOTHING          NULL

static void assert_refused(int outcome, const char *sentence)
{
    assert_int_equal(outcome, -EINVAL);
    assert_string_equal(problem, sentence);
}

static void test_defaults(void **state)
{
    (void)state;
    assert_int_equal(READ(ALL & ~PAGES_TAKES_SINCE, NOTHING), 0);
    assert_true(query.filter.to_unix_ns == NOW && query.filter.from_unix_ns == NOW - 15 * MINUTES);
    assert_false(query.has_base || query.has_range || query.filter.by_trace || query.filter.alone);
    assert_int_equal(query.order, HISTORY_SLOWEST);
    assert_int_equal(query.view, FLAME_CALLEES);
    assert_int_equal(query.limit, 0);
    assert_int_equal(READ(ALL, NOTHING), 0); /* since a cursor: all that is kept */
    assert_int_equal(query.filter.from_unix_ns, 0);
}

static void test_times(void **state)
{
    (void)state;
    assert_int_equal(READ(0, "from", "-1h"), 0);
    assert_true(query.filter.from_unix_ns == NOW - 60 * MINUTES && query.has_range);
    assert_int_equal(READ(0, "from", "1795280000000", "to", "-1.5m"), 0);
    assert_true(query.filter.from_unix_ns == 1795280000 * NS_PER_SEC);
    assert_true(query.filter.to_unix_ns == NOW - 90 * NS_PER_SEC);
    assert_int_equal(READ(0, "to", "1795280000000.25"), 0);
    assert_true(query.filter.from_unix_ns == 1795280000 * NS_PER_SEC - 15 * MINUTES);
    assert_refused(READ(0, "from", "-1h", "to", "-2h"), "from is not before to");
    const char *const wrong[] = {"",
                                 "yesterday",
                                 "-1",
                                 "-h",
                                 "1e3",
                                 "-1y",
                                 "--1h",
                                 "-",
                                 "99999999999999999999",
                                 "-99999999999h",
                                 "1.2.3",
                                 "."};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_refused(READ(0, "from", wrong[i]),
                       "from is not a time in Unix milliseconds, or before now, like -1h");
}

static void test_filters(void **state)
{
    (void)state;
    assert_int_equal(READ(0, "service", "shop", "span", "GET /a b", "thread", "t", "container",
                          "c0", "host", "node-7", "pid", "4711", "function", "f", "attribute",
                          "http.route=/buy=1", "attribute", "k=", "min_duration", "250ms",
                          "max_duration", "1.5s"),
                     0);
    const struct history_filter *filter = &query.filter;
    assert_true(bytes_is(filter->service, "shop") && bytes_is(filter->span_name, "GET /a b"));
    assert_true(bytes_is(filter->thread, "t") && bytes_is(filter->container, "c0"));
    assert_true(bytes_is(filter->host, "node-7"));
    assert_true(bytes_is(filter->function, "f") && filter->pid == 4711);
    assert_int_equal(filter->n_attributes, 2);
    assert_true(bytes_is(filter->attributes[0].key, "http.route") &&
                bytes_is(filter->attributes[0].value, "/buy=1") &&
                bytes_is(filter->attributes[1].key, "k") && !filter->attributes[1].value.len);
    assert_true(filter->min_duration_ns == 250 * NS_PER_MS &&
                filter->max_duration_ns == 1500 * NS_PER_MS);
}

static void test_ids(void **state)
{
    (void)state;
    assert_int_equal(READ(PAGES_NEEDS_TRACE, "trace_id", "0123456789abcdef0123456789ABCDEF",
                          "span_id", "0000000000000001", "children", "false"),
                     0);
    assert_true(query.filter.by_trace && query.filter.by_span && query.filter.alone);
    assert_int_equal(query.filter.trace_id[15], 0xef);
    assert_int_equal(query.filter.from_unix_ns, 0); /* all that is kept */
    assert_int_equal(query.filter.to_unix_ns, 0);
    assert_refused(READ(PAGES_NEEDS_TRACE, NOTHING), "trace_id is missing");
    assert_refused(READ(0, "trace_id", "0123"), "trace_id is not 32 hex digits");
    assert_refused(READ(0, "trace_id", "00000000000000000000000000000000"),
                   "trace_id is not 32 hex digits");
    assert_refused(READ(0, "span_id", "0000000000000001"), "span_id is there without trace_id");
    assert_refused(READ(0, "children", "no"), "children is not true or false");
}

static void test_baseline(void **state)
{
    (void)state;
    assert_int_equal(READ(ALL, "service", "shop", "from", "-1h", "base_from", "-2h", "base_to",
                          "-1h", "base_span", "x", "attribute", "a=1", "base_attribute", "b=2"),
                     0);
    assert_true(query.has_base);
    assert_true(bytes_is(query.base.service, "shop") && bytes_is(query.base.span_name, "x"));
    assert_int_equal(query.filter.span_name.len, 0);
    assert_true(query.base.from_unix_ns == NOW - 120 * MINUTES &&
                query.base.to_unix_ns == NOW - 60 * MINUTES);
    assert_int_equal(query.base.n_attributes, 1);
    assert_true(bytes_is(query.base.attributes[0].key, "b"));
    assert_true(bytes_is(query.filter.attributes[0].key, "a"));
    assert_int_equal(READ(ALL, "service", "shop", "base_service", "", "base_host", "x"), 0);
    assert_int_equal(query.base.service.len, 0); /* of any */
    assert_true(bytes_is(query.base.host, "x") && !query.filter.host.len);
    assert_refused(READ(0, "base_from", "-2h"), "base_from is not asked for here: see docs/api.md");
    assert_refused(READ(ALL, "base_limit", "1"),
                   "base_limit is not asked for here: see docs/api.md");
    assert_refused(READ(ALL, "base_from", "x"),
                   "base_from is not a time in Unix milliseconds, or before now, like -1h");
    assert_refused(READ(ALL, "base_span", "x", "base_span", "y"), "base_span is there twice");
}

static void test_others(void **state)
{
    (void)state;
    assert_int_equal(READ(ALL, "order", "cpu", "limit", "7", "view", "callers", "buckets", "10",
                          "by", "container", "of", "span", "seconds", "0", "since", "12"),
                     0);
    assert_int_equal(query.order, HISTORY_MOST_CPU);
    assert_int_equal(query.limit, 7);
    assert_int_equal(query.view, FLAME_CALLERS);
    assert_int_equal(query.n_buckets, 10);
    assert_int_equal(query.by, HISTORY_BY_CONTAINER);
    assert_int_equal(query.of, HISTORY_SPAN_NAMES);
    assert_true(query.has_seconds && query.has_since && query.since == 12);
    assert_false(query.has_frames);
    assert_int_equal(READ(ALL, "frames", "kernel"), 0);
    assert_true(query.has_frames && query.frames == HISTORY_FRAME_KERNEL);
    assert_int_equal(READ(ALL, "frames", "cpython"), 0);
    assert_true(query.has_frames && query.frames == HISTORY_FRAME_CPYTHON);
    assert_refused(READ(ALL, "frames", "truncated"),
                   "frames is not a type of frames: native, kernel, go, cpython, jvm, v8js, ...");
    assert_refused(READ(ALL, "base_frames", "go"),
                   "base_frames is not asked for here: see docs/api.md");
    assert_int_equal(READ(ALL, "by", "host", "of", "host"), 0);
    assert_true(query.by == HISTORY_BY_HOST && query.of == HISTORY_HOSTS);
    assert_refused(READ(ALL, "by", "node"),
                   "by is not service, span, thread, container, host or process");
    assert_refused(READ(ALL, "of", "node"), "of is not service, span, thread, container or host");
    assert_int_equal(READ(PAGES_TAKES_FUNCTION_ORDER, "order", "total"), 0);
    assert_true(query.by_total);
    assert_refused(READ(PAGES_TAKES_FUNCTION_ORDER, "order", "cpu"), "order is not self or total");
    assert_refused(READ(ALL, "limit", "0"), "limit is not a number from 1 to 10000");
    assert_refused(READ(ALL, "buckets", "1001"), "buckets is not a number from 1 to 1000");
    assert_refused(READ(ALL, "seconds", "601"), "seconds is not a number from 0 to 600");
    assert_refused(READ(0, "limit", "1"), "limit is not asked for here: see docs/api.md");
    assert_refused(READ(PAGES_TAKES_NOTHING, "from", "-1h"),
                   "from is not asked for here: see docs/api.md");
    assert_refused(READ(0, "pid", "0"), "pid is not the number of a process");
}

static void test_hostile(void **state)
{
    static char huge[PAGES_VALUE_MAX + 2];
    const char *many[2 * (PAGES_PARAMETERS_MAX + 1) + 1] = {NULL};
    (void)state;
    memset(huge, 'x', sizeof(huge) - 1);
    assert_refused(READ(0, "service", huge), "service is not text in UTF-8, of at most 16 KiB");
    assert_refused(READ(0, "service", "\xff"), "service is not text in UTF-8, of at most 16 KiB");
    assert_refused(READ(0, "service", ""), "service is not more than nothing");
    assert_refused(READ(0, "service", "a", "service", "b"), "service is there twice");
    assert_refused(READ(0, "<script>\n", "x"), "<script>? is not asked for here: see docs/api.md");
    struct pages_parameter nul = {BYTES_LIT("service"), BYTES_LIT("a\0b")};
    assert_int_equal(pages_query_read(&nul, 1, 0, NOW, &arena, &query, problem), -EINVAL);
    for (size_t i = 0; i + 1 < sizeof(many) / sizeof(many[0]); i += 2) {
        many[i] = "attribute";
        many[i + 1] = "a=b";
    }
    assert_refused(read_list(0, many), "more than 64 parameters");
    many[2 * HISTORY_ATTRIBUTES_MAX + 2] = NULL;
    assert_refused(read_list(0, many), "attribute is not of any use more than 8 times");
    fail_alloc_at(1);
    assert_int_equal(READ(0, "service", "x"), -ENOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_times),
        cmocka_unit_test(test_filters),  cmocka_unit_test(test_ids),
        cmocka_unit_test(test_baseline), cmocka_unit_test(test_others),
        cmocka_unit_test(test_hostile),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_close(&arena);
    return failed;
}
