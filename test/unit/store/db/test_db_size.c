/* SPDX-License-Identifier: Apache-2.0 */
/* How large the file is a transaction knows from the commit before it. */
#include "base/stats.h"
#include "test/support/fixtures/store_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void put(struct fixture *fixture, struct bytes body)
{
    assert_int_equal(outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1, body), 0);
}

static void put_alone(struct fixture *fixture, struct bytes body)
{
    fixture_begin(fixture);
    put(fixture, body);
    fixture_commit(fixture);
}

/* As SQLite would say, whatever was before. */
static void check_size(struct fixture *fixture)
{
    fixture_begin(fixture);
    assert_int_equal(stats_find("spanprof_store_size_bytes", ""),
                     db_size_bytes(store_db(fixture->store)));
    fixture_commit(fixture);
}

static void test_size_is_known(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t body[1 << 20];
    struct db *db = store_db(fixture->store);
    for (int round = 0; round < 4; round++) {
        check_size(fixture);
        for (size_t i = 0; i < 8; i++)
            put_alone(fixture, BYTES(body, sizeof(body)));
        check_size(fixture);
        fixture_begin(fixture);
        put(fixture, BYTES(body, sizeof(body)));
        store_fail(fixture->store, round % 2 ? -EUCLEAN : -EIO);
        assert_int_equal(store_end(fixture->store), round % 2 ? -EUCLEAN : -EIO);
        check_size(fixture);
        assert_int_equal(db_exec(db, "INSERT INTO outbox_body(id, body)"
                                     " VALUES (100000, zeroblob(1500000));"
                                     "DELETE FROM outbox_body WHERE id = 100000"),
                         0);
        check_size(fixture);
        fixture_begin(fixture);
        for (int64_t seq = 1; seq <= 32; seq++)
            assert_int_equal(outbox_done(store_outbox(fixture->store), 0, seq), 0);
        fixture_commit(fixture);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(store_maintain(fixture->store), 0);
            check_size(fixture);
        }
    }
}

static void test_vacuum(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t body[1 << 20];
    for (int i = 0; i < 32; i++) {
        fixture_begin(fixture);
        outbox_put(store_outbox(fixture->store), SIGNAL_TRACES, 1, 1, BYTES(body, sizeof(body)));
        fixture_commit(fixture);
    }
    uint64_t full = db_size_bytes(store_db(fixture->store));
    fixture_begin(fixture);
    for (int64_t seq = 1; seq <= 32; seq++)
        outbox_done(store_outbox(fixture->store), 0, seq);
    fixture_commit(fixture);
    for (int i = 0; i < 20; i++)
        assert_int_equal(store_maintain(fixture->store), 0);
    uint64_t left = db_size_bytes(store_db(fixture->store));
    assert_true(full > 32 << 20);
    assert_in_range(left, 1 << 20, 12 << 20); /* a slack is kept for what comes next */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_size_is_known, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(test_vacuum, fixture_set_up, fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
