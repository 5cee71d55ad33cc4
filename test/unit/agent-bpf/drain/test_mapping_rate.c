/* SPDX-License-Identifier: Apache-2.0 */
/* A process that maps without pause is held to its share; others are not touched. */
#include "agent-bpf/drain/mapping_rate.h"
#include "base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct mapping_rate rate;

static unsigned take(uint32_t pid, unsigned n, uint64_t time_ns)
{
    unsigned taken = 0;
    for (unsigned i = 0; i < n; i++)
        taken += mapping_rate_take(&rate, pid, time_ns);
    return taken;
}

static void burst_then_rate(void **state)
{
    (void)state;
    rate = (struct mapping_rate){0};
    assert_int_equal(take(7, MAPPING_BURST + 1000, NS_PER_SEC), MAPPING_BURST);
    assert_int_equal(take(8, 100, NS_PER_SEC), 100);
    assert_int_equal(take(7, 100000, 2 * NS_PER_SEC), MAPPING_RATE);
    unsigned taken = 0;
    for (uint64_t time_ns = 2 * NS_PER_SEC; time_ns < 12 * NS_PER_SEC; time_ns += NS_PER_MS)
        taken += take(7, 4, time_ns);
    assert_in_range(taken, 10 * MAPPING_RATE - 2, 10 * MAPPING_RATE);
    assert_int_equal(take(7, 100000, 60 * NS_PER_SEC), MAPPING_BURST); /* it has paused */
}

static void times_of_other_cpus(void **state)
{
    (void)state;
    rate = (struct mapping_rate){0};
    assert_int_equal(take(7, MAPPING_BURST, 5 * NS_PER_SEC), MAPPING_BURST);
    assert_int_equal(take(7, 10, 4 * NS_PER_SEC), 0); /* an older event gives nothing back */
    assert_int_equal(take(7, 100000, 6 * NS_PER_SEC), MAPPING_RATE);
}

static void reused_number(void **state)
{
    (void)state;
    rate = (struct mapping_rate){0};
    assert_int_equal(take(7, 100000, NS_PER_SEC), MAPPING_BURST);
    mapping_rate_forget(&rate, 8);
    assert_int_equal(take(7, 1, NS_PER_SEC), 0);
    mapping_rate_forget(&rate, 7);
    assert_int_equal(take(7, 100000, NS_PER_SEC), MAPPING_BURST);
    assert_int_equal(take(7 + MAPPING_RATE_PROCESSES, 1, NS_PER_SEC), 1); /* displaces it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(burst_then_rate),
                                       cmocka_unit_test(times_of_other_cpus),
                                       cmocka_unit_test(reused_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
