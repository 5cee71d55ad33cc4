/* SPDX-License-Identifier: Apache-2.0 */
/* What is put comes into the open handoffs with its commit, and nothing between is missed.
 */
#include "store/outbox/outbox_handoff.h"
#include "test/support/fixtures/store_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { BOTH = 3, LIMIT = 1000 };

static struct outbox *outbox_of(struct fixture *fixture)
{
    return store_outbox(fixture->store);
}

static struct outbox_handoff *handoff_of(struct fixture *fixture, size_t destination)
{
    return outbox_handoff(outbox_of(fixture), destination, SIGNAL_TRACES);
}

static void put(struct fixture *fixture, enum signal signal, const char *body)
{
    assert_int_equal(outbox_put(outbox_of(fixture), signal, 7, BOTH, BYTES_STR(body)), 0);
}

static void put_alone(struct fixture *fixture, enum signal signal, const char *body)
{
    fixture_begin(fixture);
    put(fixture, signal, body);
    fixture_commit(fixture);
}

/* Opened, and read to the end. */
static struct outbox_handoff *open_handoff(struct fixture *fixture, size_t destination)
{
    struct outbox_handoff *handoff = handoff_of(fixture, destination);
    struct outbox_handoff_read read;
    outbox_handoff_limit(handoff, LIMIT);
    outbox_handoff_open(handoff, &read);
    outbox_handoff_has(handoff, &read, read.end_seq);
    return handoff;
}

static void assert_gap(struct outbox_handoff *handoff)
{
    const struct outbox_handoff_want want = {10, LIMIT};
    struct list taken = LIST_INIT(taken);
    bool more;
    assert_int_equal(outbox_handoff_take(handoff, &want, &taken, &more), OUTBOX_HANDOFF_GAP);
    assert_true(list_empty(&taken));
}

/* The bodies one behind the other. */
static bool take_some(struct outbox_handoff *handoff, size_t n, const char *bodies)
{
    const struct outbox_handoff_want want = {n, LIMIT};
    struct list taken = LIST_INIT(taken), *link, *next;
    _cleanup_buf_ struct buf all = BUF_INIT(0);
    bool more = false;
    assert_int_equal(outbox_handoff_take(handoff, &want, &taken, &more), 0);
    int64_t seq = 0;
    list_each(link, next, &taken)
    {
        struct outbox_handoff_request *handed =
            container_of(link, struct outbox_handoff_request, link);
        assert_true(handed->seq > seq);
        assert_int_equal(handed->items, 7);
        seq = handed->seq;
        assert_int_equal(buf_append(&all, handed->body, handed->len), 0);
    }
    outbox_handoff_free(&taken);
    assert_true(bytes_is(buf_bytes(&all), bodies));
    return more;
}

static void take_all(struct outbox_handoff *handoff, const char *bodies)
{
    assert_false(take_some(handoff, 10, bodies));
}

static void test_closed_at_first(void **state)
{
    struct fixture *fixture = *state;
    assert_gap(handoff_of(fixture, 0));
    put_alone(fixture, SIGNAL_TRACES, "a");
    assert_gap(handoff_of(fixture, 0));
}

static void test_with_the_commit(void **state)
{
    struct fixture *fixture = *state;
    struct outbox_handoff *handoff = open_handoff(fixture, 0);
    fixture_begin(fixture);
    put(fixture, SIGNAL_TRACES, "a");
    put(fixture, SIGNAL_LOGS, "another signal");
    put(fixture, SIGNAL_TRACES, "b");
    take_all(handoff, "");
    fixture_commit(fixture);
    take_all(handoff, "ab");
    put_alone(fixture, SIGNAL_TRACES, "c");
    take_all(handoff, "c");
    take_all(handoff, "");
}

static void test_not_after_a_rollback(void **state)
{
    struct fixture *fixture = *state;
    struct outbox_handoff *handoff = open_handoff(fixture, 0);
    put_alone(fixture, SIGNAL_TRACES, "a");
    fixture_begin(fixture);
    put(fixture, SIGNAL_TRACES, "b");
    store_fail(fixture->store, -EIO);
    assert_int_equal(store_end(fixture->store), -EIO);
    assert_gap(handoff); /* "a" is in the store */
    open_handoff(fixture, 0);
    put_alone(fixture, SIGNAL_TRACES, "c");
    take_all(handoff, "c");
}

/* What was begun before the rollback says nothing about what is there now. */
static void test_a_read_across_a_rollback(void **state)
{
    struct fixture *fixture = *state;
    struct outbox_handoff *handoff = handoff_of(fixture, 0);
    struct outbox_handoff_read read, next;
    outbox_handoff_limit(handoff, LIMIT);
    outbox_handoff_open(handoff, &read);
    fixture_begin(fixture);
    store_fail(fixture->store, -EUCLEAN); /* put aside: an empty file goes on */
    assert_int_equal(store_end(fixture->store), -EUCLEAN);
    outbox_handoff_has(handoff, &read, read.end_seq);
    assert_gap(handoff);
    outbox_handoff_open(handoff, &next);
    assert_true(next.file != read.file);
    put_alone(fixture, SIGNAL_TRACES, "first of the new one");
    outbox_handoff_has(handoff, &read, 1000);
    assert_gap(handoff);
    outbox_handoff_has(handoff, &next, next.end_seq);
    take_all(handoff, "first of the new one");
}

/* Opened within a transaction: its first request is neither in the handoff nor in the read. */
static void test_nothing_is_left_out(void **state)
{
    struct fixture *fixture = *state;
    struct outbox_handoff *handoff = handoff_of(fixture, 0);
    struct outbox_handoff_read read;
    fixture_begin(fixture);
    put(fixture, SIGNAL_TRACES, "before");
    open_handoff(fixture, 0);
    put(fixture, SIGNAL_TRACES, "behind");
    assert_gap(handoff);
    fixture_commit(fixture);
    assert_gap(handoff);
    outbox_handoff_open(handoff, &read); /* stays as it is */
    outbox_handoff_has(handoff, &read, 1);
    take_all(handoff, "behind");
}

static void test_nothing_twice(void **state)
{
    struct fixture *fixture = *state;
    struct outbox_handoff *handoff = handoff_of(fixture, 0);
    struct outbox_handoff_read read;
    outbox_handoff_limit(handoff, LIMIT);
    outbox_handoff_open(handoff, &read);
    put_alone(fixture, SIGNAL_TRACES, "found");
    put_alone(fixture, SIGNAL_TRACES, "not found");
    outbox_handoff_has(handoff, &read, 1);
    take_all(handoff, "not found");
}

static void test_what_does_not_fit(void **state)
{
    struct fixture *fixture = *state;
    struct outbox_handoff *handoff = open_handoff(fixture, 0);
    static char large[LIMIT + 1];
    memset(large, 'x', LIMIT);
    put_alone(fixture, SIGNAL_TRACES, "a");
    put_alone(fixture, SIGNAL_TRACES, "b");
    put_alone(fixture, SIGNAL_TRACES, large);
    put_alone(fixture, SIGNAL_TRACES, "small again");
    assert_true(take_some(handoff, 1, "a"));
    assert_true(take_some(handoff, 10, "b"));
    assert_gap(handoff);
    open_handoff(fixture, 0);
    take_all(handoff, "");
    outbox_handoff_limit(handoff, 0);
    put_alone(fixture, SIGNAL_TRACES, "");
    assert_gap(handoff);
}

/* Who takes nothing holds no more than its limit, and holds up nobody. */
static void test_one_of_two_is_slow(void **state)
{
    struct fixture *fixture = *state;
    struct outbox_handoff *first = open_handoff(fixture, 0), *second = open_handoff(fixture, 1);
    char body[101] = {0};
    memset(body, 'x', 100);
    for (int i = 0; i < 100; i++) {
        put_alone(fixture, SIGNAL_TRACES, body);
        take_all(first, body);
        assert_in_range(second->bytes, 1, LIMIT);
    }
    outbox_handoff_close(second);
    assert_int_equal(second->bytes, 0);
    assert_gap(second);
    put_alone(fixture, SIGNAL_TRACES, "last");
    take_all(first, "last");
    assert_gap(second);
}

static void test_closed_before_the_commit(void **state)
{
    struct fixture *fixture = *state;
    struct outbox_handoff *handoff = open_handoff(fixture, 0);
    fixture_begin(fixture);
    put(fixture, SIGNAL_TRACES, "a");
    outbox_handoff_close(handoff);
    open_handoff(fixture, 0);
    fixture_commit(fixture);
    assert_gap(handoff); /* "a" is for the reader */
    open_handoff(fixture, 0);
    take_all(handoff, "");
}

/* What made room for newer ones is counted as lost, and not sent after that. */
static void test_given_up(void **state)
{
    static uint8_t body[900000];
    struct fixture *fixture = *state;
    fixture_close(fixture);
    fixture_limit(fixture, 2 << 20);
    fixture->settings.when_full = OUTBOX_DROPS_OLDEST;
    fixture_open(fixture);
    struct outbox_handoff *handoff = open_handoff(fixture, 0);
    put_alone(fixture, SIGNAL_TRACES, "the oldest");
    for (int i = 0; i < 4; i++) {
        fixture_begin(fixture);
        assert_int_equal(
            outbox_put(outbox_of(fixture), SIGNAL_LOGS, 1, BOTH, BYTES(body, sizeof(body))), 0);
        fixture_commit(fixture);
    }
    assert_gap(handoff);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_closed_at_first),          TEST(test_with_the_commit),
        TEST(test_not_after_a_rollback),     TEST(test_a_read_across_a_rollback),
        TEST(test_nothing_is_left_out),      TEST(test_nothing_twice),
        TEST(test_what_does_not_fit),        TEST(test_one_of_two_is_slow),
        TEST(test_closed_before_the_commit), TEST(test_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
