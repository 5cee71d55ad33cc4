/* SPDX-License-Identifier: Apache-2.0 */
/* Samples from after the end of the span that their context names. */
#include "test/support/fixtures/join_fixture.h"

#define T0     FIXTURE_T0
#define TICK   FIXTURE_TICK
#define SECOND FIXTURE_SECOND

/* A thread that still names its span after the end: the span is what its time says. */
static void test_after_the_end(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t ended = counted("ended");
    fixture_span(&span, 1, 2, 0, 5, 10);
    add(fixture, T0 + 4 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    add(fixture, T0 + 5 * SECOND + SECOND / 100, (struct fixture_ids){1, 2, 0}, 1, process);
    add(fixture, T0 + 6 * SECOND, (struct fixture_ids){1, 2, 0}, 2, process);
    add(fixture, T0 + 6 * SECOND, (struct fixture_ids){0, 2, 0}, 2, process);
    struct join_result result = join(fixture, &span, JOIN_MATCHED);
    assert_int_equal(result.samples, 2); /* the clocks may be 10 ms apart */
    assert_int_equal(result.cpu_ns, 2 * TICK);
    assert_int_equal(result.n_stacks, 1);
    add(fixture, T0 + 7 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    fixture_reopen(fixture);
    add(fixture, T0 + 8 * SECOND, (struct fixture_ids){1, 0, 2}, 1, process);
    assert_int_equal(counted("ended") - ended, 4);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 2);
    assert_int_equal(fixture_leave(fixture, T0 + 9 * SECOND, &left), 6);
    assert_int_equal(fixture_left_joined(&left), 2);
    const uint8_t zero[16] = {0};
    for (unsigned i = 2; i < 6; i++) {
        assert_memory_equal(left.samples[i].sample.span_id, zero, 8);
        assert_memory_equal(left.samples[i].sample.local_root_id, zero, 8);
    }
    assert_memory_not_equal(left.samples[2].sample.trace_id, zero, 16);
    fixture_span_close(&span);
}

/* A long span's clock may lose less than a thousandth; an end that cannot be is none. */
static void test_clock_of_the_end(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span, wrong;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    fixture_span(&span, 1, 2, 0, 1000, 10);
    fixture_span(&wrong, 1, 3, 20, 10, 10);
    add(fixture, T0 + 1001 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    add(fixture, T0 + 1002 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    add(fixture, T0 + 30 * SECOND, (struct fixture_ids){1, 3, 0}, 1, process);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 1);
    assert_int_equal(join(fixture, &wrong, JOIN_MATCHED).samples, 1);
    fixture_span_close(&span);
    fixture_span_close(&wrong);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_after_the_end),
        TEST(test_clock_of_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
