/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fair_share.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static struct fair_share share;

static int set_up(void **state)
{
    (void)state;
    return fair_share_init(&share, 1000000);
}

/* Until it may have no more. */
static uint64_t take_all(uint64_t tenant, uint64_t size)
{
    uint64_t taken = 0;
    while (fair_share_has_room(&share, tenant, size)) {
        fair_share_take(&share, tenant, size);
        taken += size;
    }
    return taken;
}

static uint64_t other_tenant(uint64_t tenant)
{
    uint64_t other = tenant + 1;
    while (fair_share_index(&share, other) == fair_share_index(&share, tenant))
        other++;
    return other;
}

static void test_one_alone(void **state)
{
    (void)state;
    assert_in_range(take_all(7, 10), 799000, 800000);
    uint64_t other = other_tenant(7);
    assert_in_range(take_all(other, 10), 159000, 160000); /* four fifths of the rest */
    fair_share_give(&share, 7, 500000);
    assert_true(take_all(other, 10) > 300000);
    assert_true(share.used <= share.limit);
}

/* Many that flood leave something to the one that does not. */
static void test_many(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++)
        for (uint64_t tenant = 1; tenant <= 100; tenant++)
            if (fair_share_has_room(&share, tenant, 100))
                fair_share_take(&share, tenant, 100);
    for (uint64_t tenant = 1; tenant <= 100; tenant++)
        take_all(tenant, 100);
    assert_true(share.used < share.limit);
    uint64_t honest = 1000; /* no other has its share */
    for (uint64_t tenant = 1; tenant <= 100; tenant++)
        if (fair_share_index(&share, honest) == fair_share_index(&share, tenant)) {
            honest++;
            tenant = 0;
        }
    assert_true(fair_share_has_room(&share, honest, 1000));
}

static void test_limits(void **state)
{
    (void)state;
    assert_false(fair_share_has_room(&share, 1, 1000001));
    assert_false(fair_share_has_room(&share, 1, UINT64_MAX / 2));
    assert_true(fair_share_has_room(&share, 1, 800000));
    fair_share_take(&share, 1, 2000000); /* taken anyway */
    assert_false(fair_share_has_room(&share, other_tenant(1), 1));
    fair_share_give(&share, 1, 2000000);
    assert_int_equal(share.used, 0);
    fair_share_take(&share, 1, 5);
    fair_share_clear(&share);
    assert_true(fair_share_has_room(&share, 1, 800000));
}

/* Each index is used. */
static void test_indices(void **state)
{
    unsigned seen[FAIR_SHARES] = {0}, n = 0;
    (void)state;
    for (uint64_t tenant = 0; tenant < 20000; tenant++)
        n += !seen[fair_share_index(&share, tenant)]++;
    assert_int_equal(n, FAIR_SHARES);
    for (unsigned i = 0; i < FAIR_SHARES; i++)
        assert_in_range(seen[i], 1, 20000 / FAIR_SHARES * 4);
}

/* Whether one tenant collides with another says nothing about a third: two of five collide with
 * the same tenant only by chance. */
static void test_neighbours(void **state)
{
    unsigned twice = 0;
    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        unsigned n = 0;
        assert_int_equal(fair_share_init(&share, 1000000), 0);
        for (uint64_t tenant = 1; tenant <= 5; tenant++)
            n += fair_share_index(&share, tenant) == fair_share_index(&share, 0);
        twice += n > 1;
    }
    assert_in_range(twice, 0, 25); /* 3 of 20000, if each is independent */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_one_alone, set_up),
        cmocka_unit_test_setup(test_many, set_up),
        cmocka_unit_test_setup(test_limits, set_up),
        cmocka_unit_test_setup(test_indices, set_up),
        cmocka_unit_test_setup(test_neighbours, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
