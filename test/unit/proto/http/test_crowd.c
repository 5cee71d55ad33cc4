/* SPDX-License-Identifier: Apache-2.0 */
/* Which connection gives way to a new one. */
#include "proto/http/crowd.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { MANY = 10, FEW = 3 };

struct fixture {
    struct crowd crowd;
    struct crowd_member many[MANY], few[FEW]; /* of peer 1 and 2 */
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.many = {{0}}};
    crowd_init(&fixture.crowd);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(crowd_add(&fixture.crowd, &fixture.many[i], 1), 0);
    for (int i = 0; i < FEW; i++)
        assert_int_equal(crowd_add(&fixture.crowd, &fixture.few[i], 2), 0);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < MANY; i++)
        crowd_remove(&fixture->many[i]);
    for (int i = 0; i < FEW; i++)
        crowd_remove(&fixture->few[i]);
    crowd_close(&fixture->crowd);
    return 0;
}

/* Also for a new connection of the peer that has most. */
static void test_the_longest_idle_of_most(void **state)
{
    struct fixture *fixture = *state;
    assert_ptr_equal(crowd_choose(&fixture->crowd, 3), &fixture->many[0]);
    crowd_set_idle(&fixture->many[0], false);
    assert_ptr_equal(crowd_choose(&fixture->crowd, 2), &fixture->many[1]);
    crowd_set_idle(&fixture->many[0], true);
    assert_ptr_equal(crowd_choose(&fixture->crowd, 1), &fixture->many[1]);
    crowd_remove(&fixture->many[1]);
    crowd_remove(&fixture->many[1]);
    assert_ptr_equal(crowd_choose(&fixture->crowd, 1), &fixture->many[2]);
}

/* A peer with many busy connections takes none from a smaller one, and loses its oldest. */
static void test_without_idle_ones(void **state)
{
    struct fixture *fixture = *state;
    for (int i = MANY; i > 0; i--)
        crowd_set_idle(&fixture->many[i - 1], false);
    assert_null(crowd_choose(&fixture->crowd, 1));
    assert_ptr_equal(crowd_choose(&fixture->crowd, 2), &fixture->few[0]);
    for (int i = 0; i < FEW; i++)
        crowd_set_idle(&fixture->few[i], false);
    assert_ptr_equal(crowd_choose(&fixture->crowd, 2), &fixture->many[MANY - 1]);
    assert_ptr_equal(crowd_choose(&fixture->crowd, 3), &fixture->many[MANY - 1]);
    assert_null(crowd_choose(&fixture->crowd, 1));
    for (int i = 0; i < 3; i++)
        crowd_remove(&fixture->many[i]);
    assert_null(crowd_choose(&fixture->crowd, 2)); /* 7 against 3 */
}

static void test_nobody(void **state)
{
    struct crowd crowd;
    (void)state;
    crowd_init(&crowd);
    assert_null(crowd_choose(&crowd, 1));
    crowd_close(&crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_longest_idle_of_most, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_idle_ones, set_up, tear_down),
        cmocka_unit_test(test_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
