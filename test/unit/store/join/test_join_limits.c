/* SPDX-License-Identifier: Apache-2.0 */
/* The join at its limits, after failures, and on damaged rows. */
#include "store/join/span_totals.h"
#include "test/support/fixtures/join_fixture.h"
#include <errno.h>
#include <stdlib.h>

#define T0     FIXTURE_T0
#define TICK   FIXTURE_TICK
#define SECOND FIXTURE_SECOND

static int set_up_small(void **state)
{
    static struct fixture fixture;
    fixture_make(&fixture);
    fixture.settings.join.max_pending_bytes = 4000;
    fixture.settings.join.max_span_totals_bytes = 8000;
    fixture.settings.join.max_recent_spans = 3;
    fixture_open(&fixture);
    *state = &fixture;
    return 0;
}

static void test_pending_limit(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t evicted = counted("evicted"), dropped = counted("dropped");
    for (unsigned i = 0; i < 22; i++)
        add(fixture, T0 + i, (struct fixture_ids){1, 2, 0}, 1, process);
    assert_int_equal(counted("dropped"), dropped);
    fixture_leave(fixture, T0 + 20, &left);
    assert_int_equal(stats_find("spanprof_join_pending_bytes", "") <= 4000, 1);
    assert_in_range(left.n, 1, 10); /* the oldest, early */
    assert_int_equal(left.samples[0].sample.time_unix_ns, T0);
    assert_false(left.samples[0].matched);
    assert_int_equal(counted("evicted") - evicted, left.n);
    for (unsigned i = 0; i < 40; i++) /* and none leaves */
        add(fixture, T0 + i, (struct fixture_ids){1, 2, 0}, 1, process);
    assert_in_range(counted("dropped") - dropped, 10, 40);
    fixture_reopen(fixture);
    assert_in_range(join_pending_samples(store_join(fixture->store)), 5, 30);
}

static void test_tally_limit(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    for (unsigned i = 1; i <= 100; i++) {
        add(fixture, T0 + i, (struct fixture_ids){1, i, 0}, 1, process);
        fixture_leave(fixture, T0 + i + FIXTURE_WAIT, &left);
    }
    assert_in_range(stats_find("spanprof_join_span_totals", ""), 10, 60);
    fixture_span(&span, 1, 1, 0, 5, 10);
    join(fixture, &span, JOIN_NO_SAMPLES); /* forgotten */
    fixture_span_close(&span);
    fixture_span(&span, 1, 100, 0, 5, 10);
    join(fixture, &span, JOIN_MATCHED);
    fixture_span_close(&span);
    fixture_reopen(fixture);
    assert_in_range(stats_find("spanprof_join_span_totals", ""), 10, 60);
}

static void test_tally_ttl(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    add(fixture, T0, (struct fixture_ids){1, 2, 0}, 1, process);
    fixture_leave(fixture, T0 + 3600 * SECOND, &left);
    fixture_span(&span, 1, 2, 0, 5, 10);
    join(fixture, &span, JOIN_MATCHED);
    fixture_leave(fixture, T0 + 3601 * SECOND, &left);
    join(fixture, &span, JOIN_NO_SAMPLES);
    assert_int_equal(stats_find("spanprof_join_span_totals", ""), 0);
    fixture_span_close(&span);
}

static void test_recent_limit(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    for (unsigned i = 1; i <= 10; i++) {
        add(fixture, T0 + i, (struct fixture_ids){1, i, 0}, 1, process);
        fixture_span(&span, 1, i, 0, 5, 10);
        join(fixture, &span, JOIN_MATCHED);
        fixture_span_close(&span);
    }
    /* Those whose samples have not left stay beyond the limit. */
    assert_int_equal(stats_find("spanprof_join_recent_spans", ""), 10);
    assert_int_equal(fixture_leave(fixture, T0 + SECOND, &left), 10);
    assert_int_equal(fixture_left_joined(&left), 10);
    assert_int_equal(stats_find("spanprof_join_recent_spans", ""), 3);
    add(fixture, T0 + 20, (struct fixture_ids){1, 1, 0}, 1, process);  /* its span is forgotten */
    add(fixture, T0 + 20, (struct fixture_ids){1, 10, 0}, 1, process); /* this one is not */
    fixture_leave(fixture, T0 + SECOND, &left);
    assert_int_equal(left.n, 1);
    fixture_reopen(fixture);
    assert_int_equal(stats_find("spanprof_join_recent_spans", ""), 3);
}

/* A cgroup whose spans are many and large loses its own, and no others. */
static void join_large(struct fixture *fixture, unsigned n, int64_t process, int64_t pid)
{
    static char name[1000];
    struct fixture_span span;
    struct fixture_left left;
    memset(name, 'x', sizeof(name));
    add(fixture, T0 + n, (struct fixture_ids){2, n, 0}, 1, process);
    fixture_span(&span, 2, n, 0, 5, pid);
    span.span.name = BYTES(name, sizeof(name));
    join(fixture, &span, JOIN_MATCHED);
    fixture_span_close(&span);
    fixture_leave(fixture, T0 + SECOND, &left);
}

#define HONEST 5

static void test_recent_shares(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    int64_t honest[HONEST];
    int64_t flood = fixture_process_of(fixture, 11, BYTES(NULL, 0), 78);
    int64_t before = stats_find("spanprof_join_recent_spans_evicted_total", "");
    for (unsigned i = 0; i < HONEST; i++) {
        honest[i] = fixture_process_of(fixture, 20 + i, BYTES(NULL, 0), 80 + i);
        add(fixture, T0, (struct fixture_ids){1, 1 + i, 0}, 1, honest[i]);
        fixture_span(&span, 1, 1 + i, 0, 5, 20 + i);
        join(fixture, &span, JOIN_MATCHED);
        fixture_span_close(&span);
    }
    for (unsigned i = 1; i <= 200; i++) {
        join_large(fixture, i, flood, 11);
        assert_in_range(stats_find("spanprof_join_recent_spans_bytes", ""), 1, 60000);
    }
    assert_true(stats_find("spanprof_join_recent_spans_evicted_total", "") > before + 100);
    fixture_reopen(fixture);
    for (unsigned i = 201; i <= 300; i++)
        join_large(fixture, i, flood, 11);
    for (unsigned i = 0; i < HONEST; i++)
        add(fixture, T0 + 20, (struct fixture_ids){1, 1 + i, 0}, 1, honest[i]);
    assert_int_equal(fixture_leave(fixture, T0 + SECOND, &left), HONEST);
    assert_int_equal(fixture_left_joined(&left), HONEST); /* their spans are still there */
}

/* While samples hold all its spans, a new one is kept without its texts. */
static void test_recent_held(void **state)
{
    struct fixture *fixture = *state;
    static char name[1000];
    struct fixture_left left;
    int64_t process = fixture_process_of(fixture, 11, BYTES(NULL, 0), 78);
    memset(name, 'x', sizeof(name));
    for (unsigned i = 1; i <= 60; i++) {
        struct fixture_span span;
        add(fixture, T0 + i, (struct fixture_ids){2, i, 0}, 1, process);
        fixture_span(&span, 2, i, 0, 5, 11);
        span.span.name = BYTES(name, sizeof(name));
        join(fixture, &span, JOIN_MATCHED);
        fixture_span_close(&span);
    }
    assert_int_equal(stats_find("spanprof_join_recent_spans", ""), 60);
    assert_in_range(stats_find("spanprof_join_recent_spans_bytes", ""), 40000, 75000);
    assert_int_equal(fixture_leave(fixture, T0 + SECOND, &left), 60);
    assert_int_equal(fixture_left_joined(&left), 60);
    assert_string_equal(left.samples[59].name, "");
    assert_in_range(stats_find("spanprof_join_recent_spans_bytes", ""), 1, 60000);
}

static int set_up_shares(void **state)
{
    static struct fixture fixture;
    fixture_make(&fixture);
    fixture.settings.join.max_span_totals_bytes = 20000;
    fixture.settings.join.max_recent_bytes = 60000;
    fixture_open(&fixture);
    *state = &fixture;
    return 0;
}

static void test_total_shares(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    int64_t honest = fixture_process_of(fixture, 10, BYTES(NULL, 0), 77);
    int64_t flood = fixture_process_of(fixture, 11, BYTES(NULL, 0), 78);
    add(fixture, T0, (struct fixture_ids){1, 1, 0}, 1, honest);
    for (unsigned i = 1; i <= 300; i++) {
        add(fixture, T0 + i, (struct fixture_ids){2, i, 0}, 1, flood);
        fixture_leave(fixture, T0 + i + FIXTURE_WAIT, &left);
        assert_in_range(stats_find("spanprof_join_span_totals_bytes", ""), 1, 20000);
        if (i == 150)
            fixture_reopen(fixture);
    }
    fixture_span(&span, 1, 1, 0, 5, 10);
    join(fixture, &span, JOIN_MATCHED); /* its total is still there */
    fixture_span_close(&span);
    fixture_span(&span, 2, 1, 0, 5, 11);
    join(fixture, &span, JOIN_NO_SAMPLES);
    fixture_span_close(&span);
}

/* 32 stacks are kept; the frequent one is among them. */
static void test_top_stacks(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    uint8_t id[16];
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    for (unsigned i = 0; i < 300; i++) {
        add(fixture, T0 + i, (struct fixture_ids){1, 2, 0}, i % 3 ? 1000 : i, process);
        fixture_leave(fixture, T0 + i + FIXTURE_WAIT, &left);
    }
    fixture_span(&span, 1, 2, 0, 5, 10);
    struct join_result result = join(fixture, &span, JOIN_MATCHED);
    assert_int_equal(result.samples, 300);
    assert_int_equal(result.n_stacks, 4);
    fixture_begin(fixture);
    stacks_public_id(store_stacks(fixture->store), fixture_stack(fixture, 1000), id);
    fixture_commit(fixture);
    assert_memory_equal(result.stack_ids[0], id, 16);
    fixture_span_close(&span);
}

/* Memory is what the database says. */
static void test_rollback(void **state)
{
    struct fixture *fixture = *state;
    struct join *store = store_join(fixture->store);
    struct fixture_span span;
    struct fixture_left left;
    struct join_result result;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    uint64_t generation = store_generation(fixture->store);
    add(fixture, T0, (struct fixture_ids){1, 2, 0}, 1, process);
    fixture_span(&span, 1, 2, 0, 5, 10);
    fixture_begin(fixture);
    struct sample sample = fixture_sample(T0, (struct fixture_ids){1, 2, 0}, 1, process);
    join_batch_begin(store);
    join_add_sample(store, &sample);
    assert_int_equal(join_batch_commit(store), 0);
    assert_int_equal(join_span(store, &span.span, &fixture_forwarder, &result), JOIN_MATCHED);
    assert_int_equal(result.samples, 2);
    store_fail(fixture->store, -EIO);
    assert_int_equal(store_end(fixture->store), -EIO);
    assert_true(store_generation(fixture->store) > generation);
    assert_int_equal(join_pending_samples(store), 1);
    assert_int_equal(fixture_leave(fixture, T0 + SECOND, &left), 0); /* waits again */
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 1);
    fixture_span_close(&span);
}

static void mutate(struct db *db, const char *read, const char *write)
{
    sqlite3_stmt *rows = NULL, *put = NULL;
    uint8_t body[4096];
    assert_int_equal(db_prepare(db, read, &rows), 0);
    assert_int_equal(db_prepare(db, write, &put), 0);
    while (db_step(db, rows) == 1) {
        int len = sqlite3_column_bytes(rows, 1);
        if (!len || len > (int)sizeof(body))
            continue;
        memcpy(body, sqlite3_column_blob(rows, 1), (size_t)len);
        for (long n = random() % 4; n; n--)
            body[random() % len] = (uint8_t)random();
        if (random() % 4 == 0)
            len = (int)(random() % (len + 1));
        sqlite3_bind_int64(put, 1, sqlite3_column_int64(rows, 0));
        sqlite3_bind_blob(put, 2, body, len, SQLITE_STATIC);
        assert_int_equal(db_run(db, put), 0);
    }
    db_unprepare(db, &rows);
    db_unprepare(db, &put);
}

/* Rows that say something else than what was written: nothing crashes, and all samples leave. */
static void test_damaged_rows(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_left left;
    struct fixture_span span;
    struct join_result result;
    srandom(7);
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    for (unsigned round = 0; round < 100; round++) {
        for (unsigned i = 0; i < 8; i++)
            add(fixture, T0 + i, (struct fixture_ids){i % 4, 1 + i % 2, i % 3}, i, process);
        fixture_span(&span, 1, 2, 0, 5, 10);
        fixture_join(fixture, &span, &result);
        struct db *db = store_db(fixture->store);
        mutate(db, "SELECT seq, body FROM pending", "UPDATE pending SET body = ?2 WHERE seq = ?1");
        mutate(db, "SELECT id, body FROM tally", "UPDATE tally SET body = ?2 WHERE id = ?1");
        mutate(db, "SELECT id, body FROM joined_span",
               "UPDATE joined_span SET body = ?2 WHERE id = ?1");
        mutate(db, "SELECT id, body FROM span_resource",
               "UPDATE span_resource SET body = ?2 WHERE id = ?1");
        fixture_reopen(fixture);
        fixture_join(fixture, &span, &result);
        fixture_span_close(&span);
        fixture_leave(fixture, T0 + 2 * FIXTURE_WAIT, &left);
        fixture_leave(fixture, T0 + 5 * FIXTURE_WAIT, &left); /* no time is near to both */
        assert_int_equal(join_pending_samples(store_join(fixture->store)), 0);
    }
    assert_true(stats_find("spanprof_store_damaged_rows_total", "table=\"pending\"") > 10);
    assert_true(stats_find("spanprof_store_damaged_rows_total", "table=\"span_total\"") > 10);
    assert_true(stats_find("spanprof_store_damaged_rows_total", "table=\"matched_span\"") > 10);
}

/* A span has at most so many processes; those of one tenant do not keep out another's. */
static void test_processes_of_a_span(void **state)
{
    enum { FLOOD = 2 * SPAN_TOTAL_PROCESSES_MAX };
    struct fixture *fixture = *state;
    struct fixture_span span;
    int64_t crowded = counted("too_many_processes");
    for (uint32_t i = 0; i < FLOOD; i++)
        add(fixture, T0 + i, (struct fixture_ids){1, 2, 0}, 1,
            fixture_process_of(fixture, 100 + i, BYTES(NULL, 0), 7));
    assert_int_equal(counted("too_many_processes") - crowded, FLOOD - SPAN_TOTAL_PROCESSES_MAX);
    add(fixture, T0 + TICK, (struct fixture_ids){1, 2, 0}, 1,
        fixture_process_of(fixture, 10, BYTES(NULL, 0), 8));
    assert_int_equal(counted("too_many_processes") - crowded, FLOOD - SPAN_TOTAL_PROCESSES_MAX);
    fixture_span(&span, 1, 2, 0, 5, 10);
    join(fixture, &span, JOIN_MATCHED);
    fixture_span_close(&span);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pending_limit, set_up_small, fixture_tear_down),
        cmocka_unit_test_setup_teardown(test_tally_limit, set_up_small, fixture_tear_down),
        cmocka_unit_test_setup_teardown(test_tally_ttl, set_up_small, fixture_tear_down),
        cmocka_unit_test_setup_teardown(test_recent_limit, set_up_small, fixture_tear_down),
        cmocka_unit_test_setup_teardown(test_top_stacks, set_up_small, fixture_tear_down),
        cmocka_unit_test_setup_teardown(test_recent_shares, set_up_shares, fixture_tear_down),
        cmocka_unit_test_setup_teardown(test_recent_held, set_up_shares, fixture_tear_down),
        cmocka_unit_test_setup_teardown(test_total_shares, set_up_shares, fixture_tear_down),
        TEST(test_processes_of_a_span),
        TEST(test_rollback),
        TEST(test_damaged_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
