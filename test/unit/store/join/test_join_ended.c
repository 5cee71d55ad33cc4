/* SPDX-License-Identifier: Apache-2.0 */
/* Samples from after the end of the span that their context names. */
#include "base/cgroup.h"
#include "store/join/ended_spans.h"
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

static bool left_with_link(struct fixture *fixture)
{
    struct fixture_left left;
    const uint8_t zero[8] = {0};
    assert_int_equal(fixture_leave(fixture, T0 + 1000 * SECOND, &left), 1);
    assert_int_equal(fixture_left_joined(&left), 0);
    assert_memory_not_equal(left.samples[0].sample.trace_id, zero, 8);
    bool span = memcmp(left.samples[0].sample.span_id, zero, 8) != 0;
    bool root = memcmp(left.samples[0].sample.local_root_id, zero, 8) != 0;
    return span || root;
}

/* A goroutine begins to work when its span, which never burned, has ended and come. */
static void test_no_samples(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t ended = counted("ended");
    fixture_span(&span, 1, 2, 0, 5, 10);
    span.sender = (struct peer){.cgroup_id = FIXTURE_CGROUP};
    join(fixture, &span, JOIN_NO_SAMPLES);
    add(fixture, T0 + 6 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    assert_false(left_with_link(fixture));
    add(fixture, T0 + 6 * SECOND, (struct fixture_ids){1, 0, 2}, 1, process);
    fixture_reopen(fixture); /* the sample itself says it */
    assert_false(left_with_link(fixture));
    assert_int_equal(counted("ended") - ended, 2);
    join(fixture, &span, JOIN_NO_SAMPLES); /* sent again: nothing has counted */
    add(fixture, T0 + 5 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 1);
    fixture_span_close(&span);
}

/* Others cannot say that the process's spans have ended. */
static void test_ended_for_others(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t at_top = fixture_process_of(fixture, 11, BYTES(NULL, 0), CGROUP_TOP_ID);
    const struct peer others[] = {{.cgroup_id = FIXTURE_CGROUP + 1},
                                  {.cgroup_id = FIXTURE_CGROUP, .is_forwarder = true},
                                  {.cgroup_id = CGROUP_TOP_ID, .uid = 1},
                                  {.uid = PEER_UID_UNKNOWN}};
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        fixture_span(&span, 1, 2 + i, 0, 5, 0);
        span.sender = others[i];
        join(fixture, &span, JOIN_NO_SAMPLES);
        add(fixture, T0 + 6 * SECOND, (struct fixture_ids){1, 2 + i, 0}, 1, process);
        assert_true(left_with_link(fixture));
        add(fixture, T0 + 6 * SECOND, (struct fixture_ids){1, 2 + i, 0}, 1, at_top);
        assert_true(left_with_link(fixture));
        fixture_span_close(&span);
    }
}

/* A forwarder's Resource tells whose the span was, if the process alone can say the same. */
static void test_ended_by_claim(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct buf resource _cleanup_buf_ = {0}, other _cleanup_buf_ = {0};
    otlp_attribute_string(&resource, 1, "service.instance.id", BYTES_LIT("one"));
    otlp_attribute_string(&other, 1, "service.instance.id", BYTES_LIT("two"));
    int64_t process = fixture_process(fixture, 10, buf_bytes(&resource));
    int64_t stranger = fixture_process(fixture, 11, buf_bytes(&other));
    fixture_span(&span, 1, 2, 0, 5, 0);
    otlp_attribute_string(&span.resource, 1, "service.instance.id", BYTES_LIT("one"));
    join(fixture, &span, JOIN_NO_SAMPLES);
    add(fixture, T0 + 6 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    assert_false(left_with_link(fixture));
    add(fixture, T0 + 6 * SECOND, (struct fixture_ids){1, 2, 0}, 1, stranger);
    assert_true(left_with_link(fixture));
    fixture_span_close(&span);
}

static void flood(struct fixture *fixture, const struct peer *sender)
{
    struct fixture_span span;
    struct join_result result;
    fixture_span(&span, 9, 1, 0, 5, 0);
    otlp_attribute_string(&span.resource, 1, "service.instance.id", BYTES_LIT("flood"));
    span.span.resource = buf_bytes(&span.resource);
    fixture_begin(fixture);
    for (unsigned n = 1; n < 32 * ENDED_SPANS_SETS; n++) {
        fixture_span_id(n, span.span_id);
        join_span(store_join(fixture->store), &span.span, sender, &result);
    }
    fixture_commit(fixture);
    fixture_span_close(&span);
}

/* A flood of spans takes the room of its own cgroup. */
static void test_ended_flood(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    struct peer own = {.cgroup_id = FIXTURE_CGROUP};
    fixture_span(&span, 1, 2, 0, 5, 0);
    span.sender = own;
    join(fixture, &span, JOIN_NO_SAMPLES);
    flood(fixture, &(struct peer){.uid = PEER_UID_UNKNOWN, .is_forwarder = true});
    add(fixture, T0 + 6 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    assert_false(left_with_link(fixture));
    flood(fixture, &own);
    add(fixture, T0 + 6 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    assert_true(left_with_link(fixture));
    fixture_span_close(&span);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_after_the_end),    TEST(test_clock_of_the_end), TEST(test_no_samples),
        TEST(test_ended_for_others), TEST(test_ended_by_claim),   TEST(test_ended_flood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
