/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/backoff.h"
#include "base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static const struct config_retry steady = {
    .enabled = true,
    .initial_interval_ns = 5 * NS_PER_SEC,
    .randomization_factor = 0,
    .multiplier = 1.5,
    .max_interval_ns = 30 * NS_PER_SEC,
};

static uint64_t pause_after(struct backoff *backoff, uint64_t now_ns, uint64_t server_delay_ns)
{
    uint64_t pause_ns = 0;
    assert_int_equal(backoff_failure(backoff, now_ns, server_delay_ns, &pause_ns), 0);
    return pause_ns;
}

static void test_pauses_grow_to_the_largest(void **state)
{
    static const uint64_t ms[] = {5000, 7500, 11250, 16875, 25312, 30000, 30000};
    struct backoff backoff;
    (void)state;
    backoff_init(&backoff, &steady, 1);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++)
            assert_int_equal(pause_after(&backoff, 1, 0) / NS_PER_MS, ms[i]);
        backoff_success(&backoff); /* begins anew */
    }
}

/* Within its bounds, to both sides of the interval, and not the same for all. */
static void test_jitter(void **state)
{
    struct config_retry config = steady;
    config.randomization_factor = 0.5;
    config.multiplier = 1;
    uint64_t least = UINT64_MAX, most = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct backoff backoff;
        backoff_init(&backoff, &config, seed);
        for (int i = 0; i < 200; i++) {
            uint64_t pause_ns = pause_after(&backoff, 1, 0);
            assert_in_range(pause_ns, 2500 * NS_PER_MS, 7500 * NS_PER_MS);
            least = pause_ns < least ? pause_ns : least;
            most = pause_ns > most ? pause_ns : most;
        }
    }
    assert_true(least < 2600 * NS_PER_MS && most > 7400 * NS_PER_MS);
}

static void test_the_longer_of_own_and_asked(void **state)
{
    struct backoff backoff;
    (void)state;
    backoff_init(&backoff, &steady, 1);
    assert_true(pause_after(&backoff, 1, NS_PER_SEC) == 5 * NS_PER_SEC);
    assert_true(pause_after(&backoff, 1, 60 * NS_PER_SEC) == 60 * NS_PER_SEC);
    assert_int_equal(pause_after(&backoff, 1, 0) / NS_PER_MS, 11250); /* grew all the same */
    /* a backend that asks for a year is asked again after an hour */
    assert_true(pause_after(&backoff, 1, UINT64_C(366) * 86400 * NS_PER_SEC) == 3600 * NS_PER_SEC);
}

static void test_gives_up(void **state)
{
    struct config_retry config = steady;
    struct backoff backoff;
    uint64_t pause_ns;
    (void)state;
    config.max_elapsed_time_ns = 20 * NS_PER_SEC;
    backoff_init(&backoff, &config, 1);
    uint64_t now_ns = 100 * NS_PER_SEC;
    now_ns += pause_after(&backoff, now_ns, 0); /* at 5 s */
    now_ns += pause_after(&backoff, now_ns, 0); /* at 12.5 s: the next would be at 23.75 s */
    assert_int_equal(backoff_failure(&backoff, now_ns, 0, &pause_ns), BACKOFF_GIVE_UP);
    backoff_success(&backoff);
    assert_int_equal(backoff_failure(&backoff, now_ns, 21 * NS_PER_SEC, &pause_ns),
                     BACKOFF_GIVE_UP);
    config.enabled = false;
    backoff_init(&backoff, &config, 1);
    assert_int_equal(backoff_failure(&backoff, now_ns, 0, &pause_ns), BACKOFF_GIVE_UP);
    /* 0: never */
    backoff_init(&backoff, &steady, 1);
    for (int i = 0; i < 1000; i++)
        now_ns += pause_after(&backoff, now_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pauses_grow_to_the_largest),
        cmocka_unit_test(test_jitter),
        cmocka_unit_test(test_the_longer_of_own_and_asked),
        cmocka_unit_test(test_gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
