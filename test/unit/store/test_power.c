/* SPDX-License-Identifier: Apache-2.0 */
/* What is left of the store when the power goes, with either setting of fsync. */
#include "base/stats.h"
#include "test/support/faults/power_vfs.h"
#include "test/support/fixtures/store_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

enum { ROUNDS = 60, PUTS_MAX = 40, BODY_MAX = 12000 };

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture_make(&fixture);
    fixture.settings.db.vfs = POWER_VFS_NAME;
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    fixture_remove(*state);
    return 0;
}

static int64_t number(struct fixture *fixture, const char *sql)
{
    sqlite3_stmt *statement;
    assert_int_equal(db_prepare(store_db(fixture->store), sql, &statement), 0);
    assert_int_equal(db_step(store_db(fixture->store), statement), 1);
    int64_t n = sqlite3_column_int64(statement, 0);
    db_unprepare(store_db(fixture->store), &statement);
    return n;
}

/* Puts some, takes some away, tidies up now and then. Returns the last seq that was put. */
static int64_t work(struct fixture *fixture, unsigned *seed)
{
    static uint8_t body[BODY_MAX];
    struct outbox *outbox = store_outbox(fixture->store);
    int64_t last = 0;
    for (int n = 1 + rand_r(seed) % PUTS_MAX; n > 0; n--) {
        fixture_begin(fixture);
        assert_int_equal(
            outbox_put(outbox, SIGNAL_TRACES, 1, 1, BYTES(body, (size_t)rand_r(seed) % BODY_MAX)),
            0);
        last = number(fixture, "SELECT max(seq) FROM outbox");
        if (rand_r(seed) % 3 == 0 && last > 1)
            assert_int_equal(outbox_done(outbox, 0, last - 1), 0);
        fixture_commit(fixture);
        if (rand_r(seed) % 8 == 0)
            store_maintain(fixture->store);
    }
    return last;
}

static void expect_whole(struct fixture *fixture)
{
    sqlite3_stmt *statement;
    assert_int_equal(db_prepare(store_db(fixture->store), "PRAGMA integrity_check", &statement), 0);
    assert_int_equal(db_step(store_db(fixture->store), statement), 1);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
    db_unprepare(store_db(fixture->store), &statement);
    assert_int_equal(number(fixture, "SELECT count(*) FROM outbox WHERE seq <> 0"),
                     number(fixture, "SELECT count(*) FROM outbox_body"));
    assert_int_equal(number(fixture, "SELECT count(*) FROM outbox WHERE seq > 0"),
                     number(fixture, "SELECT waiting FROM outbox WHERE signal = 0 AND seq = 0"));
}

/* The number of rounds in which something that had been committed was gone. */
static int cut_again_and_again(struct fixture *fixture, enum db_sync sync, size_t *n_undone)
{
    int64_t corrupt = stats_find("spanprof_store_corrupt_total", "");
    int n_lost = 0;
    *n_undone = 0;
    fixture->settings.db.sync = sync;
    for (unsigned round = 1; round <= ROUNDS; round++) {
        unsigned seed = round;
        fixture_open(fixture);
        int64_t last = work(fixture, &seed);
        power_vfs_cut();
        fixture_close(fixture);
        *n_undone += power_vfs_back(&seed, round % 2);
        unlink(fixture_path(fixture, "spanprof.db-shm"));
        fixture_open(fixture);
        expect_whole(fixture);
        n_lost += number(fixture, "SELECT ifnull(max(seq), 0) FROM outbox") < last;
        fixture_close(fixture);
    }
    assert_int_equal(stats_find("spanprof_store_corrupt_total", ""), corrupt);
    return n_lost;
}

static void test_full(void **state)
{
    size_t n_undone;
    assert_int_equal(cut_again_and_again(*state, DB_SYNC_FULL, &n_undone), 0);
}

/* Whole it stays; that the last commits do go shows that power is lost here indeed. */
static void test_normal(void **state)
{
    size_t n_undone;
    assert_in_range(cut_again_and_again(*state, DB_SYNC_NORMAL, &n_undone), ROUNDS / 2, ROUNDS);
    assert_true(n_undone > ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_full, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_normal, set_up, tear_down),
    };
    power_vfs_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
