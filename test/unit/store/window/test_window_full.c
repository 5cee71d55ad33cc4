/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that close while the outbox has no room. */
#include "base/stats.h"
#include "store/outbox/outbox.h"
#include "store/outbox/outbox_sums.h"
#include "test/support/fixtures/store_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define T0     FIXTURE_T0
#define SECOND FIXTURE_SECOND

static const struct window_settings settings = {
    .max_request_bytes = 1 << 20, .destinations = 1, .scope_version = "1.2.3"};

static int close_window(struct fixture *fixture, uint64_t now, size_t *n)
{
    fixture_begin(fixture);
    int error = store_window(fixture->store, &settings, now, n);
    fixture_commit(fixture); /* without room it is no failure of the transaction */
    return error;
}

static void add_sample(struct fixture *fixture, uint64_t time)
{
    struct sample sample =
        fixture_sample(time, (struct fixture_ids){0, 0, 0}, fixture_stack(fixture, 1), 0);
    fixture_add(fixture, &sample);
}

static int put(struct fixture *fixture, size_t size)
{
    static uint8_t body[1 << 20];
    fixture_begin(fixture);
    int error = outbox_put(store_outbox(fixture->store), SIGNAL_LOGS, 1, 1, BYTES(body, size));
    fixture_commit(fixture);
    return error;
}

/* The samples wait for room. */
static void test_no_room(void **state)
{
    struct fixture *fixture = *state;
    size_t n;
    fixture_close(fixture);
    fixture_limit(fixture, 2 << 20);
    fixture_open(fixture);
    add_sample(fixture, T0);
    assert_int_equal(put(fixture, 1 << 20), 0);
    put(fixture, 600000);
    assert_int_equal(close_window(fixture, T0 + SECOND, &n), -ENOSPC);
    assert_int_equal(join_pending_samples(store_join(fixture->store)), 1);
    fixture_begin(fixture);
    outbox_done(store_outbox(fixture->store), 0, 1);
    fixture_commit(fixture);
    assert_int_equal(close_window(fixture, T0 + SECOND, &n), 0);
    assert_int_equal(n, 1);
}

static int64_t blocks(struct fixture *fixture)
{
    sqlite3_stmt *row = NULL;
    sqlite3_prepare_v2(db_handle(store_db(fixture->store)), "SELECT count(*) FROM history_block",
                       -1, &row, NULL);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    return n;
}

/* After a minute whoever looks at this node sees them all the same. */
static void test_no_room_for_long(void **state)
{
    struct fixture *fixture = *state;
    size_t n;
    int64_t put_requests = 0, unsent = stats_find("spanprof_window_samples_unsent_total", "");
    fixture_close(fixture);
    fixture->settings.db.max_size_bytes = 8 << 20;
    fixture->settings.history.max_size_bytes = 2 << 20;
    fixture_open(fixture);
    while (!put(fixture, put_requests < 8 ? 500000 : 9000))
        put_requests++;
    for (unsigned second = 0; second < 70; second += 5) {
        add_sample(fixture, T0 + second * SECOND);
        assert_int_equal(close_window(fixture, T0 + second * SECOND, &n),
                         second < 60 ? -ENOSPC : 0);
        assert_int_equal(n, second < 60 ? 0 : second == 60 ? 13 : 1);
    }
    assert_int_equal(blocks(fixture), 2);
    assert_int_equal(stats_find("spanprof_window_samples_unsent_total", "") - unsent, 14);
    add_sample(fixture, T0 + 70 * SECOND);
    fixture_begin(fixture);
    for (int64_t seq = 1; seq <= put_requests; seq++) /* the backend is back */
        outbox_done(store_outbox(fixture->store), 0, seq);
    fixture_commit(fixture);
    assert_int_equal(close_window(fixture, T0 + 70 * SECOND, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(outbox_sums_requests(SIGNAL_PROFILES), 1);
    assert_int_equal(stats_find("spanprof_window_samples_unsent_total", "") - unsent, 14);
    assert_int_equal(blocks(fixture), 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_no_room),
        TEST(test_no_room_for_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
