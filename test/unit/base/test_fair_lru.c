/* SPDX-License-Identifier: Apache-2.0 */
/* Who floods what is kept loses his own; who is gone keeps nothing for long. */
#include "base/fair_share.h"
#include "base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { LIMIT = 1000, HONEST = 7, FLOODER = 8, N = 4 * LIMIT };

static struct fair_lru lru;
static struct fair_entry flood[N], honest[10];
static uint64_t now_ns;

uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void)
{
    return now_ns;
}

static int set_up(void **state)
{
    (void)state;
    now_ns = 1000 * NS_PER_SEC;
    for (size_t i = 0; i < N; i++)
        flood[i] = (struct fair_entry){.size = 0};
    for (size_t i = 0; i < 10; i++)
        honest[i] = (struct fair_entry){.size = 0};
    return fair_lru_init(&lru, LIMIT);
}

static bool is_kept(const struct fair_entry *entry)
{
    return list_linked(&entry->age);
}

static void put(struct fair_entry *entry, uint64_t tenant, uint32_t size)
{
    struct fair_entry *excess;
    fair_lru_add(&lru, entry, tenant, size);
    while ((excess = fair_lru_excess(&lru, entry)))
        fair_lru_remove(&lru, excess);
}

static void put_flood(uint64_t tenant)
{
    for (size_t i = 0; i < N; i++)
        put(&flood[i], tenant, 1);
}

static void a_flood_evicts_its_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < 10; i++)
        put(&honest[i], HONEST, 1);
    put_flood(FLOODER);
    for (size_t i = 0; i < 10; i++)
        assert_true(is_kept(&honest[i]));
    assert_true(is_kept(&flood[N - 1]));
    assert_true(is_kept(&flood[N - LIMIT / 2]));
    assert_false(is_kept(&flood[0]));
    assert_true(lru.share.used < LIMIT);
}

/* Whoever brought it, and whoever used it last. */
static void what_both_use(void **state)
{
    (void)state;
    put(&honest[0], FLOODER, 1);
    put(&honest[1], FLOODER, 1);
    fair_lru_use(&lru, &honest[0], HONEST);
    fair_lru_use(&lru, &honest[0], FLOODER);
    put_flood(FLOODER);
    assert_true(is_kept(&honest[0]));
    assert_false(is_kept(&honest[1]));
}

/* A thousand tenants that are gone leave all of it to one that is not, once they are idle. */
static void those_who_are_gone(void **state)
{
    (void)state;
    for (size_t i = 0; i < N; i++)
        put(&flood[i], 1000 + i, 1);
    now_ns += (FAIR_IDLE_S - 1) * NS_PER_SEC;
    for (size_t i = 0; i < 10; i++)
        put(&honest[i], HONEST, 10);
    assert_false(is_kept(&honest[0]));
    now_ns += NS_PER_SEC;
    for (size_t i = 0; i < 10; i++) {
        fair_lru_remove(&lru, &honest[i]);
        put(&honest[i], HONEST, 10);
    }
    for (size_t i = 0; i < 10; i++)
        assert_true(is_kept(&honest[i]));
}

/* One that is used stays, however old. */
static void what_is_used(void **state)
{
    (void)state;
    put(&honest[0], HONEST, 1);
    for (size_t i = 0; i < N; i++) {
        now_ns += NS_PER_SEC;
        fair_lru_use(&lru, &honest[0], HONEST);
        put(&flood[i], FLOODER, 1);
        assert_true(is_kept(&honest[0]));
    }
}

static void what_is_large(void **state)
{
    (void)state;
    put(&honest[0], HONEST, LIMIT - 1); /* more than a share, but nobody has the rest */
    assert_true(is_kept(&honest[0]));
    put(&flood[0], FLOODER, 10);
    assert_false(is_kept(&honest[0]));
    put(&honest[1], HONEST, LIMIT); /* the one in use makes room for itself */
    assert_true(is_kept(&honest[1]));
    assert_false(is_kept(&flood[0]));
    put(&honest[2], HONEST, 1);
    assert_false(is_kept(&honest[1]));
}

/* What grows counts with what it has become, for the same tenant. */
static void what_grows(void **state)
{
    (void)state;
    put(&honest[0], HONEST, 1);
    put(&flood[0], FLOODER, 1);
    put(&flood[1], FLOODER, 1);
    fair_lru_resize(&lru, &flood[1], LIMIT - 50);
    assert_ptr_equal(fair_lru_excess(&lru, NULL), &flood[0]);
    fair_lru_remove(&lru, &flood[0]);
    assert_null(fair_lru_excess(&lru, &flood[1]));
    assert_ptr_equal(fair_lru_excess(&lru, NULL), &flood[1]);
    fair_lru_remove(&lru, &flood[1]);
    fair_lru_remove(&lru, &flood[1]);
    assert_int_equal(lru.share.used, 1);
    assert_ptr_equal(fair_lru_any(&lru), &honest[0]);
    fair_lru_remove(&lru, &honest[0]);
    assert_null(fair_lru_any(&lru));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_flood_evicts_its_own, set_up),
        cmocka_unit_test_setup(what_both_use, set_up),
        cmocka_unit_test_setup(those_who_are_gone, set_up),
        cmocka_unit_test_setup(what_is_used, set_up),
        cmocka_unit_test_setup(what_is_large, set_up),
        cmocka_unit_test_setup(what_grows, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
