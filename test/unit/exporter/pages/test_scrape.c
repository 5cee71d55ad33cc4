/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "exporter/pages/pages_route.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static uint64_t delay_of(struct pages_query query)
{
    struct pages_request request = {.query = query};
    const struct pages_route *route = pages_route_find("/debug/pprof/profile");
    return route->delay_ns(&request);
}

/* Before the samples of the last second can be there. */
static void test_few_seconds_to_come(void **state)
{
    (void)state;
    for (uint32_t seconds = 1; seconds < 10; seconds++)
        assert_int_equal(delay_of((struct pages_query){.has_seconds = true, .seconds = seconds}),
                         (seconds + 6) * NS_PER_SEC);
}

/* Parca waits 3 s longer than its interval, Grafana Alloy asks again when it has the answer. */
static void test_scrapers_do_not_wait_longer(void **state)
{
    static const uint32_t each[] = {10, 14, 15, 30, 60, 600};
    (void)state;
    for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
        assert_int_equal(delay_of((struct pages_query){.has_seconds = true, .seconds = each[i]}),
                         each[i] * NS_PER_SEC);
    assert_int_equal(delay_of((struct pages_query){0}), 30 * NS_PER_SEC);
}

static void test_what_is_kept_is_there_at_once(void **state)
{
    (void)state;
    assert_int_equal(delay_of((struct pages_query){.has_seconds = true}), 0);
    assert_int_equal(delay_of((struct pages_query){.has_range = true}), 0);
    assert_int_equal(
        delay_of((struct pages_query){.has_range = true, .has_seconds = true, .seconds = 10}), 0);
    assert_int_equal(delay_of((struct pages_query){.filter = {.by_trace = true}}), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_seconds_to_come),
        cmocka_unit_test(test_scrapers_do_not_wait_longer),
        cmocka_unit_test(test_what_is_kept_is_there_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
