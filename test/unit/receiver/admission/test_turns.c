/* SPDX-License-Identifier: Apache-2.0 */
/* Which complete request goes to the writer next. */
#include "receiver/admission/turns.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define MS UINT64_C(1000000)

struct fixture {
    struct senders senders;
    struct turns turns;
    struct sender *heavy, *light;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    senders_init(&fixture.senders);
    turns_init(&fixture.turns);
    fixture.heavy = sender_open(&fixture.senders, 1);
    fixture.light = sender_open(&fixture.senders, 2);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    sender_release(fixture->heavy);
    sender_release(fixture->light);
    senders_close(&fixture->senders);
    return 0;
}

static void finish_all(struct fixture *fixture)
{
    struct turn *turn;
    while ((turn = turns_next(&fixture->turns, true)))
        turns_done(&fixture->turns, turn, 0);
}

/* Requests that cost much: one at a time, and the other peer's go first. */
static void test_by_what_they_took(void **state)
{
    struct fixture *fixture = *state;
    struct turns *turns = &fixture->turns;
    struct turn heavy[4] = {0}, light[4] = {0};
    assert_true(turns_add(turns, &heavy[0], fixture->heavy, 100, false));
    assert_ptr_equal(turns_next(turns, false), &heavy[0]);
    turns_done(turns, &heavy[0], 100 * MS);
    for (int i = 0; i < 4; i++)
        assert_true(turns_add(turns, &heavy[i], fixture->heavy, 100, false));
    for (int i = 0; i < 4; i++)
        assert_true(turns_add(turns, &light[i], fixture->light, 100, false));
    for (int i = 0; i < 4; i++) /* those of the light one, though they came later */
        assert_ptr_equal(turns_next(turns, false), &light[i]);
    assert_null(turns_next(turns, false)); /* 100 ms are too much beside them */
    for (int i = 0; i < 4; i++)
        turns_done(turns, &light[i], MS / 10);
    assert_ptr_equal(turns_next(turns, false), &heavy[0]);
    assert_null(turns_next(turns, false)); /* one at a time */
    turns_done(turns, &heavy[0], 100 * MS);
    assert_ptr_equal(turns_next(turns, false), &heavy[1]);
    turns_done(turns, &heavy[1], 100 * MS);
    finish_all(fixture);
}

/* A compressed body may be large: only few of a peer go at a time. */
static void test_compressed(void **state)
{
    enum { N = 200, SIZE = 16000 };
    struct fixture *fixture = *state;
    struct turn turn[N] = {0};
    int n_plain = 0, n_compressed = 0;
    for (int i = 0; i < N; i++)
        assert_true(turns_add(&fixture->turns, &turn[i], fixture->heavy, SIZE, false));
    while (turns_next(&fixture->turns, false))
        n_plain++;
    assert_in_range(n_plain, N / 2, N);
    finish_all(fixture);
    for (int i = 0; i < n_plain; i++)
        turns_done(&fixture->turns, &turn[i], 0);
    for (int i = 0; i < N; i++)
        assert_true(turns_add(&fixture->turns, &turn[i], fixture->light, SIZE, true));
    while (turns_next(&fixture->turns, false))
        n_compressed++;
    assert_in_range(n_compressed, 1, TURNS_PEER_NS / TURNS_READ_NS);
    for (int i = 0; i < n_compressed; i++)
        turns_done(&fixture->turns, &turn[i], 0);
    finish_all(fixture);
}

/* The writer has left one: others go though it took long, one more of its peer does not. */
static void test_left(void **state)
{
    struct fixture *fixture = *state;
    struct turns *turns = &fixture->turns;
    struct turn heavy[5] = {0}, light = {0};
    for (int i = 0; i < 5; i++)
        assert_true(turns_add(turns, &heavy[i], fixture->heavy, 1 << 20, true));
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(turns_next(turns, false), &heavy[i]);
        turns_leave(turns, &heavy[i], 2 * MS);
    }
    assert_null(turns_next(turns, false));
    assert_true(turns_add(turns, &light, fixture->light, 100, false));
    assert_ptr_equal(turns_next(turns, false), &light);
    turns_done(turns, &light, MS);
    turns_done(turns, &heavy[0], 100 * MS);
    assert_ptr_equal(turns_next(turns, false), &heavy[4]);
    for (int i = 1; i < 5; i++)
        turns_done(turns, &heavy[i], 100 * MS);
}

/* Idle time is no credit: both get the same from now on. */
static void test_idle_is_no_credit(void **state)
{
    struct fixture *fixture = *state;
    struct turns *turns = &fixture->turns;
    struct turn turn = {0}, heavy[10] = {0}, light[10] = {0};
    for (int i = 0; i < 1000; i++) {
        assert_true(turns_add(turns, &turn, fixture->heavy, 100, false));
        assert_ptr_equal(turns_next(turns, false), &turn);
        turns_done(turns, &turn, 15 * MS);
    }
    for (int i = 0; i < 10; i++) {
        assert_true(turns_add(turns, &heavy[i], fixture->heavy, 100, false));
        assert_true(turns_add(turns, &light[i], fixture->light, 100, false));
    }
    int n_light = 0;
    for (int i = 0; i < 10; i++) {
        struct turn *next = turns_next(turns, false);
        n_light += next->sender == fixture->light;
        turns_done(turns, next, 15 * MS);
    }
    assert_in_range(n_light, 4, 6);
    finish_all(fixture);
}

static void test_limits(void **state)
{
    struct fixture *fixture = *state;
    struct turn *turns = calloc(TURNS_PEER_MAX + 1, sizeof(*turns)), other = {0};
    for (int i = 0; i < TURNS_PEER_MAX; i++)
        assert_true(turns_add(&fixture->turns, &turns[i], fixture->heavy, 1, false));
    assert_false(turns_add(&fixture->turns, &turns[TURNS_PEER_MAX], fixture->heavy, 1, false));
    assert_true(turns_add(&fixture->turns, &other, fixture->light, 1, false));
    finish_all(fixture);
    free(turns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_by_what_they_took, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_compressed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_idle_is_no_credit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
