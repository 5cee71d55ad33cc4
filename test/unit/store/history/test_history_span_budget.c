/* SPDX-License-Identifier: Apache-2.0 */
/* Which spans without samples are kept. */
#include "store/history/history_span_budget.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define MS UINT64_C(1000000)

static uint64_t random_state;

static uint64_t any(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static void trace_id(uint64_t n, uint8_t out[16])
{
    memset(out, 0, 16);
    memcpy(out + 8, &n, sizeof(n));
}

struct kept {
    unsigned of[HISTORY_KEEP_CHOSEN + 1];
};

/* A second of traces with 4 spans each. */
static struct kept run_second(struct history_span_budget *keep, uint64_t first_trace,
                              unsigned n_traces, unsigned *n_whole)
{
    struct kept kept = {{0}};
    uint8_t id[16];
    *n_whole = 0;
    for (unsigned i = 0; i < n_traces; i++) {
        unsigned chosen = 0;
        trace_id(first_trace + i, id);
        for (unsigned k = 0; k < 4; k++) {
            enum history_span_budget_why why = history_span_budget_span(keep, id, MS + any(MS));
            kept.of[why]++;
            chosen += why != HISTORY_KEEP_NOT;
        }
        assert_in_range(chosen, 0, 4);
        *n_whole += chosen == 4;
    }
    history_span_budget_tick(keep);
    return kept;
}

static int set_up(void **state)
{
    random_state = 88172645463325252U;
    return history_span_budget_open(400, (struct history_span_budget **)state);
}

static int tear_down(void **state)
{
    history_span_budget_close(*state);
    return 0;
}

static void test_few_are_all_kept(void **state)
{
    unsigned n_whole;
    for (unsigned second = 0; second < 10; second++) {
        struct kept kept = run_second(*state, second * 1000, 40, &n_whole);
        assert_int_equal(kept.of[HISTORY_KEEP_NOT], 0);
        assert_int_equal(n_whole, 40);
    }
}

/* Of many: within the budget, and whole traces. */
static void test_many(void **state)
{
    unsigned chosen = 0, n_whole = 0, whole;
    struct kept kept;
    for (unsigned second = 0; second < 5; second++)
        run_second(*state, second * 100000, 20000, &whole);
    for (unsigned second = 5; second < 25; second++) {
        kept = run_second(*state, second * 100000, 20000, &whole);
        assert_true(kept.of[HISTORY_KEEP_CHOSEN] <= 200);
        assert_true(kept.of[HISTORY_KEEP_SLOW] <= 100);
        chosen += kept.of[HISTORY_KEEP_CHOSEN];
        n_whole += whole;
    }
    assert_in_range(chosen, 20 * 140, 20 * 200);
    assert_true(n_whole * 4 >= chosen * 8 / 10);
}

/* The first second of a burst is within the budget too. */
static void test_burst(void **state)
{
    unsigned whole;
    run_second(*state, 0, 10, &whole);
    struct kept kept = run_second(*state, 1000, 50000, &whole);
    assert_true(kept.of[HISTORY_KEEP_CHOSEN] <= 200);
    assert_true(kept.of[HISTORY_KEEP_SLOW] <= 100);
}

/* What is far slower than the rest is kept, whichever trace it is of; the rest is not slow. */
static void test_slow(void **state)
{
    struct history_span_budget *keep = *state;
    unsigned whole, n_slow = 0;
    uint8_t id[16];
    for (unsigned second = 0; second < 3; second++)
        run_second(keep, second * 100000, 20000, &whole);
    for (unsigned i = 0; i < 50; i++) {
        trace_id(9000000 + i, id);
        n_slow += history_span_budget_span(keep, id, 500 * MS) != HISTORY_KEEP_NOT;
    }
    assert_int_equal(n_slow, 50);
}

static void test_traces_with_samples(void **state)
{
    struct history_span_budget *keep = *state;
    unsigned whole, n = 0;
    uint8_t id[16];
    for (unsigned second = 0; second < 3; second++)
        run_second(keep, second * 100000, 20000, &whole);
    for (unsigned i = 0; i < 50; i++) {
        trace_id(9000000 + i, id);
        history_span_budget_trace(keep, id);
    }
    for (unsigned i = 0; i < 50; i++) {
        trace_id(9000000 + i, id);
        n += history_span_budget_span(keep, id, 1) == HISTORY_KEEP_TRACE;
    }
    assert_in_range(n, 49, 50);            /* two may share a place */
    for (unsigned i = 0; i < 10000; i++) { /* and one trace does not take all */
        trace_id(9000001, id);
        n += history_span_budget_span(keep, id, 1) == HISTORY_KEEP_TRACE;
    }
    assert_int_equal(n, 100);
}

static void test_nothing_is_kept(void **state)
{
    struct history_span_budget *keep;
    unsigned whole;
    (void)state;
    assert_int_equal(history_span_budget_open(0, &keep), 0);
    for (unsigned second = 0; second < 3; second++) {
        struct kept kept = run_second(keep, second * 1000, 100, &whole);
        assert_int_equal(kept.of[HISTORY_KEEP_NOT], 400);
    }
    history_span_budget_close(keep);
}

/* Any duration has a class. */
static void test_durations(void **state)
{
    uint8_t id[16];
    trace_id(1, id);
    for (unsigned bit = 0; bit < 64; bit++)
        history_span_budget_span(*state, id, UINT64_C(1) << bit);
    history_span_budget_span(*state, id, 0);
    history_span_budget_span(*state, id, UINT64_MAX);
    history_span_budget_tick(*state);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_few_are_all_kept),
        TEST(test_many),
        TEST(test_burst),
        TEST(test_slow),
        TEST(test_traces_with_samples),
        TEST(test_nothing_is_kept),
        TEST(test_durations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
