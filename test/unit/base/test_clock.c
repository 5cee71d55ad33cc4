/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <cmocka.h>

static void test_clocks(void **state)
{
    (void)state;
    uint64_t before = clock_monotonic_ns();
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    uint64_t took = clock_monotonic_ns() - before;
    assert_in_range(took, 20 * NS_PER_MS, 20 * NS_PER_SEC);
    assert_true(clock_unix_ns() / NS_PER_SEC - (uint64_t)time(NULL) <= 1);
}

/* The offset turns one clock into the other, between readings taken before and after. */
static void test_offset(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        int64_t offset = clock_unix_offset_ns();
        uint64_t before = clock_unix_ns();
        uint64_t converted = clock_monotonic_ns() + (uint64_t)offset;
        uint64_t after = clock_unix_ns();
        assert_true(converted + 10 * NS_PER_MS >= before);
        assert_true(converted <= after + 10 * NS_PER_MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clocks),
                                       cmocka_unit_test(test_offset)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
