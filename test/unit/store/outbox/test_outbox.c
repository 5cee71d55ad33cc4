/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stats.h"
#include "test/support/fixtures/outbox_next.h"
#include "test/support/fixtures/outbox_fixture.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

static void put(struct test *test, enum signal signal, uint32_t destinations, const char *body)
{
    fixture_begin(&test->fixture);
    assert_int_equal(
        outbox_put(store_outbox(test->fixture.store), signal, 7, destinations, BYTES_STR(body)), 0);
    fixture_commit(&test->fixture);
}

static void done(struct test *test, size_t destination, int64_t seq)
{
    fixture_begin(&test->fixture);
    assert_int_equal(outbox_done(store_outbox(test->fixture.store), destination, seq), 0);
    fixture_commit(&test->fixture);
}

/* The seq of the next one, which must have this body; NULL: there must be none. */
static int64_t next(struct test *test, const char *destination, int64_t after, const char *body)
{
    struct outbox_item item;
    int error = outbox_next(test->reader, destination, after, &item);
    assert_int_equal(error, body ? 0 : -ENOENT);
    if (error)
        return 0;
    assert_true(bytes_is(buf_bytes(&item.body), body));
    assert_int_equal(item.items, 7);
    assert_true(item.enqueued_unix_ns > UINT64_C(1600000000000000000));
    buf_close(&item.body);
    return item.seq;
}

static int64_t waiting(const char *signal)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "signal=\"%s\"", signal);
    return stats_find("spanprof_outbox_requests", labels);
}

static void test_fifo(void **state)
{
    struct test *test = *state;
    next(test, "first", 0, NULL);
    put(test, SIGNAL_TRACES, 1, "a");
    put(test, SIGNAL_PROFILES, 1, "b");
    put(test, SIGNAL_TRACES, 1, "");
    int64_t seq = next(test, "first", 0, "a");
    seq = next(test, "first", seq, "b");
    seq = next(test, "first", seq, "");
    next(test, "first", seq, NULL);
    next(test, "second", 0, NULL);
    next(test, "unknown", 0, NULL);
    assert_int_equal(waiting("traces"), 2);
    assert_int_equal(waiting("profiles"), 1);
    assert_int_equal(stats_find("spanprof_outbox_size_bytes", "signal=\"profiles\""), 1);
    assert_int_equal(stats_find("spanprof_outbox_items", "signal=\"traces\""), 14);
}

static void test_two_destinations(void **state)
{
    struct test *test = *state;
    put(test, SIGNAL_TRACES, 3, "a");
    put(test, SIGNAL_TRACES, 3, "b");
    int64_t a = next(test, "first", 0, "a"), b = next(test, "first", a, "b");
    done(test, 0, a);
    assert_int_equal(waiting("traces"), 2);
    assert_int_equal(next(test, "first", 0, "b"), b);
    assert_int_equal(next(test, "second", 0, "a"), a);
    done(test, 1, a);
    assert_int_equal(waiting("traces"), 1);
    done(test, 1, a); /* again: no harm */
    done(test, 1, 99);
    done(test, 1, b);
    next(test, "second", 0, NULL);
    fixture_reopen(&test->fixture); /* what is done stays done */
    assert_int_equal(next(test, "first", 0, "b"), b);
    done(test, 0, b);
    assert_int_equal(waiting("traces"), 0);
    next(test, "first", 0, NULL);
}

static void test_signals_apart(void **state)
{
    struct test *test = *state;
    struct outbox_item item;
    put(test, SIGNAL_PROFILES, 1, "p");
    put(test, SIGNAL_TRACES, 1, "t");
    assert_int_equal(outbox_next_signal(test->reader, "first", SIGNAL_TRACES, 0, &item), 0);
    assert_int_equal(item.signal, SIGNAL_TRACES);
    assert_true(bytes_is(buf_bytes(&item.body), "t"));
    buf_close(&item.body);
    assert_int_equal(outbox_next_signal(test->reader, "first", SIGNAL_TRACES, item.seq, &item),
                     -ENOENT);
    assert_int_equal(outbox_next_signal(test->reader, "first", SIGNAL_LOGS, 0, &item), -ENOENT);
}

static void test_unwanted(void **state)
{
    struct test *test = *state;
    int64_t before = stats_find("spanprof_outbox_unwanted_items_total", "signal=\"logs\"");
    put(test, SIGNAL_LOGS, 0, "nobody");
    put(test, SIGNAL_LOGS, 4, "nobody either");
    assert_int_equal(waiting("logs"), 0);
    assert_int_equal(stats_find("spanprof_outbox_unwanted_items_total", "signal=\"logs\"") - before,
                     14);
}

static void reopen_with(struct test *test, const char *const *names, size_t n)
{
    fixture_close(&test->fixture);
    test->fixture.settings.destinations = names;
    test->fixture.settings.n_destinations = n;
    fixture_open(&test->fixture);
}

static void collect(struct test *test, int times)
{
    while (times--) {
        fixture_begin(&test->fixture);
        assert_int_equal(outbox_collect(store_outbox(test->fixture.store), FIXTURE_T0), 0);
        fixture_commit(&test->fixture);
    }
}

/* The order of the exporters changes, one goes, one comes. */
static void test_configuration_changes(void **state)
{
    static const char *const swapped[] = {"second", "first"};
    static const char *const other[] = {"third", "second"};
    struct test *test = *state;
    put(test, SIGNAL_TRACES, 1, "for first");
    put(test, SIGNAL_TRACES, 2, "for second");
    put(test, SIGNAL_TRACES, 3, "for both");
    reopen_with(test, swapped, 2);
    int64_t seq = next(test, "first", 0, "for first");
    done(test, 1, seq); /* "first" is the second now */
    next(test, "first", 0, "for both");
    next(test, "second", 0, "for second");
    reopen_with(test, other, 2);
    collect(test, 3);
    next(test, "first", 0, NULL);
    next(test, "third", 0, NULL);
    assert_int_equal(waiting("traces"), 2);
    seq = next(test, "second", 0, "for second");
    done(test, 1, seq);
    done(test, 1, next(test, "second", seq, "for both"));
    assert_int_equal(waiting("traces"), 0); /* nothing is held for the one that went */
    put(test, SIGNAL_TRACES, 1, "for third");
    next(test, "third", 0, "for third");
}

static int64_t lost(const char *signal, const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "signal=\"%s\",reason=\"%s\"", signal, reason);
    return stats_find("spanprof_outbox_dropped_items_total", labels);
}

/* A backlog for a destination that is gone goes step by step, and is counted, also where another
 * has the request. */
static void test_gone_backlog(void **state)
{
    static const char *const other[] = {"second"};
    struct test *test = *state;
    int64_t before = lost("traces", "no_destination");
    for (int i = 0; i < 250; i++)
        put(test, SIGNAL_TRACES, i % 2 ? 1 : 3, "x");
    reopen_with(test, other, 1);
    collect(test, 1);
    assert_in_range(waiting("traces"), 180, 210);
    collect(test, 3);
    assert_int_equal(waiting("traces"), 125);
    assert_int_equal(lost("traces", "no_destination") - before, 250 * 7);
    /* Many former names do not use up the slots. */
    char name[32];
    const char *names[] = {name, "second"};
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "exporter/%d", i);
        reopen_with(test, names, 2);
        collect(test, 3);
    }
    assert_int_equal(waiting("traces"), 125);
    assert_int_equal(lost("traces", "no_destination") - before, 250 * 7);
}

/* Nothing is given up for a while, nor when the one that stays has it: a destination that comes
 * back finds all. */
static void test_gone_for_a_while(void **state)
{
    static const char *const both[] = {"first", "second"}, *const one[] = {"second"};
    struct test *test = *state;
    int64_t before = lost("logs", "no_destination");
    put(test, SIGNAL_LOGS, 1, "a");
    put(test, SIGNAL_LOGS, 3, "b");
    test->fixture.settings.gone_after_ns = 60 * FIXTURE_SECOND;
    reopen_with(test, one, 1);
    collect(test, 3);
    done(test, 0, next(test, "second", 0, "b"));
    collect(test, 3);
    assert_int_equal(waiting("logs"), 2);
    reopen_with(test, both, 2);
    next(test, "first", next(test, "first", 0, "a"), "b");
    next(test, "second", 0, NULL);
    test->fixture.settings.gone_after_ns = FIXTURE_SECOND / 20;
    reopen_with(test, one, 1);
    collect(test, 1);
    assert_int_equal(waiting("logs"), 2);
    usleep(60000);
    collect(test, 1);
    assert_int_equal(waiting("logs"), 0);
    assert_int_equal(lost("logs", "no_destination") - before, 14);
}

/* It was kept by the other name of the exporter's type. */
static void test_other_name(void **state)
{
    static const char *const old[] = {"otlp/x", "second"}, *const new[] = {"second", "otlp_grpc/x"};
    static const char *const others_of_new[] = {NULL, "otlp/x"};
    static const char *const others_of_old[] = {"otlp_grpc/x", NULL};
    struct test *test = *state;
    reopen_with(test, old, 2);
    put(test, SIGNAL_LOGS, 1, "a");
    put(test, SIGNAL_LOGS, 2, "b");
    test->fixture.settings.other_names = others_of_new;
    reopen_with(test, new, 2);
    collect(test, 3);
    next(test, "otlp_grpc/x", 0, "a");
    next(test, "otlp/x", 0, NULL);
    next(test, "second", 0, "b");
    test->fixture.settings.other_names = others_of_old;
    reopen_with(test, old, 2);
    collect(test, 3);
    done(test, 0, next(test, "otlp/x", 0, "a"));
    assert_int_equal(waiting("logs"), 1);
}

/* Both are configured: each is its own. */
static void test_both_names(void **state)
{
    static const char *const both[] = {"otlp", "otlp_grpc"};
    static const char *const others[] = {"otlp_grpc", "otlp"};
    struct test *test = *state;
    test->fixture.settings.other_names = others;
    reopen_with(test, both, 1);
    put(test, SIGNAL_LOGS, 1, "a");
    reopen_with(test, both, 2);
    put(test, SIGNAL_LOGS, 2, "b");
    next(test, "otlp", 0, "a");
    next(test, "otlp_grpc", 0, "b");
}

static void test_age(void **state)
{
    struct test *test = *state;
    struct outbox_item item;
    put(test, SIGNAL_METRICS, 1, "m");
    assert_int_equal(outbox_next(test->reader, "first", 0, &item), 0);
    buf_close(&item.body);
    fixture_begin(&test->fixture);
    outbox_collect(store_outbox(test->fixture.store), item.enqueued_unix_ns + 90 * FIXTURE_SECOND);
    fixture_commit(&test->fixture);
    assert_int_equal(stats_find("spanprof_outbox_oldest_age_seconds", "signal=\"metrics\""), 90);
    done(test, 0, item.seq);
    collect(test, 1);
    assert_int_equal(stats_find("spanprof_outbox_oldest_age_seconds", "signal=\"metrics\""), 0);
}

static int64_t gauge(const char *name, const char *signal)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "signal=\"%s\"", signal);
    return stats_find(name, labels);
}

/* What is told of the backlog after a restart is what is there, and is not found out by a scan. */
static void test_totals_outlive(void **state)
{
    struct test *test = *state;
    put(test, SIGNAL_TRACES, 1, "four");
    put(test, SIGNAL_TRACES, 3, "seven..");
    put(test, SIGNAL_LOGS, 1, "x");
    done(test, 0, 1);
    fixture_reopen(&test->fixture);
    assert_false(outbox_is_empty(SIGNAL_TRACES));
    assert_false(outbox_is_empty(SIGNAL_LOGS));
    assert_true(outbox_is_empty(SIGNAL_PROFILES));
    assert_int_equal(gauge("spanprof_outbox_size_bytes", "traces"), 7);
    assert_int_equal(gauge("spanprof_outbox_items", "traces"), 7);
    assert_int_equal(gauge("spanprof_outbox_requests", "traces"), 1);
    assert_int_equal(gauge("spanprof_outbox_size_bytes", "logs"), 1);
    assert_int_equal(gauge("spanprof_outbox_requests", "profiles"), 0);
    fixture_begin(&test->fixture);
    assert_int_equal(db_exec(store_db(test->fixture.store), "DELETE FROM outbox WHERE seq > 0"), 0);
    fixture_commit(&test->fixture);
    fixture_reopen(&test->fixture);
    assert_int_equal(gauge("spanprof_outbox_requests", "traces"), 1); /* none was counted */
}

/* Nobody would ever get them, nor be told of them. */
static void test_damaged_rows(void **state)
{
    struct test *test = *state;
    int64_t before = lost("traces", "damaged");
    for (const char *body = "abc"; *body; body++)
        put(test, SIGNAL_TRACES, 1, (char[]){*body, '\0'});
    put(test, SIGNAL_LOGS, 3, "log");
    fixture_begin(&test->fixture);
    assert_int_equal(db_exec(store_db(test->fixture.store),
                             "DELETE FROM outbox_body WHERE id = 1;"
                             "UPDATE outbox SET waiting = 1 << 40 WHERE seq = 2"),
                     0);
    fixture_commit(&test->fixture);
    collect(test, 1);
    assert_int_equal(waiting("traces"), 1);
    assert_int_equal(gauge("spanprof_outbox_items", "traces"), 7);
    assert_int_equal(lost("traces", "damaged") - before, 14);
    done(test, 0, next(test, "first", 0, "c"));
    collect(test, 1);
    assert_int_equal(waiting("traces"), 0);
    assert_int_equal(waiting("logs"), 1);
    assert_int_equal(stats_find("spanprof_outbox_oldest_age_seconds", "signal=\"traces\""), 0);
}

/* What waited is lost with the file, and counted; not what is refused with this transaction. */
static void test_corrupt(void **state)
{
    struct test *test = *state;
    int64_t traces = lost("traces", "corrupt"), logs = lost("logs", "corrupt");
    put(test, SIGNAL_TRACES, 1, "a");
    put(test, SIGNAL_TRACES, 3, "b");
    fixture_begin(&test->fixture);
    assert_int_equal(
        outbox_put(store_outbox(test->fixture.store), SIGNAL_LOGS, 7, 1, BYTES_LIT("c")), 0);
    store_fail(test->fixture.store, -EUCLEAN);
    assert_int_equal(store_end(test->fixture.store), -EUCLEAN);
    assert_int_equal(lost("traces", "corrupt") - traces, 14);
    assert_int_equal(lost("logs", "corrupt") - logs, 0);
    assert_int_equal(waiting("traces"), 0);
}

/* The oldest of a signal, and the next one to send, are found past any number of others. */
static void test_no_scan(void **state)
{
    static const char *const queries[] = {
        "EXPLAIN QUERY PLAN SELECT enqueued_unix_ns, waiting FROM outbox WHERE signal = 1 AND seq "
        "> 0"
        " ORDER BY seq LIMIT 1",
        "EXPLAIN QUERY PLAN SELECT seq FROM outbox WHERE seq > 5 AND waiting & 1 AND signal = 1"
        " ORDER BY seq LIMIT 1",
        "EXPLAIN QUERY PLAN SELECT max(seq) FROM outbox WHERE signal = 1",
        "EXPLAIN QUERY PLAN SELECT waiting FROM outbox WHERE signal IN (0, 1, 2, 3) AND seq = 7",
        "EXPLAIN QUERY PLAN SELECT seq FROM outbox WHERE (signal, seq) > (1, 2) AND seq > 0"
        " ORDER BY signal, seq LIMIT 100",
    };
    struct test *test = *state;
    for (size_t i = 0; i < sizeof(queries) / sizeof(*queries); i++) {
        sqlite3_stmt *statement;
        struct db *db = store_db(test->fixture.store);
        assert_int_equal(db_prepare(db, queries[i], &statement), 0);
        assert_int_equal(db_step(db, statement), 1);
        assert_non_null(strstr((const char *)sqlite3_column_text(statement, 3),
                               "SEARCH outbox USING PRIMARY KEY"));
        db_unprepare(db, &statement);
    }
}

/* Newer ones are taken; what was given up for them is counted, and nothing else is. */
static void test_drops_oldest(void **state)
{
    enum { N = 400, ITEMS = 7 };
    static uint8_t body[32768];
    struct test *test = *state;
    const char *dropped = "spanprof_outbox_dropped_items_total";
    int64_t logs = stats_find(dropped, "signal=\"logs\",reason=\"full\"");
    int64_t traces = stats_find(dropped, "signal=\"traces\",reason=\"full\"");
    fixture_close(&test->fixture);
    fixture_limit(&test->fixture, 8 << 20);
    test->fixture.settings.when_full = OUTBOX_DROPS_OLDEST;
    fixture_open(&test->fixture);
    put(test, SIGNAL_LOGS, 1, "the oldest");
    for (int i = 0; i < N; i++) {
        fixture_begin(&test->fixture);
        assert_int_equal(outbox_put(store_outbox(test->fixture.store), SIGNAL_TRACES, ITEMS, 1,
                                    BYTES(body, sizeof(body))),
                         0);
        fixture_commit(&test->fixture);
        assert_int_equal(store_health(test->fixture.store), 0);
    }
    assert_true(db_size_bytes(store_db(test->fixture.store)) <= 8 << 20);
    assert_int_equal(stats_find(dropped, "signal=\"logs\",reason=\"full\"") - logs, ITEMS);
    traces = stats_find(dropped, "signal=\"traces\",reason=\"full\"") - traces;
    assert_int_equal(traces / ITEMS + waiting("traces"), N);
    assert_in_range(waiting("traces"), 150, 256);
    struct outbox_item item;
    assert_int_equal(outbox_next(test->reader, "first", 0, &item), 0);
    assert_int_equal(item.seq, 2 + traces / ITEMS); /* those that are left are the newest */
    buf_close(&item.body);
}

/* A request that no quota could hold does not empty the queue for nothing more than itself. */
static void test_too_large_for_the_quota(void **state)
{
    static uint8_t body[3 << 20];
    struct test *test = *state;
    fixture_close(&test->fixture);
    fixture_limit(&test->fixture, 2 << 20);
    test->fixture.settings.when_full = OUTBOX_DROPS_OLDEST;
    fixture_open(&test->fixture);
    put(test, SIGNAL_LOGS, 1, "a");
    fixture_begin(&test->fixture);
    assert_int_equal(outbox_put(store_outbox(test->fixture.store), SIGNAL_TRACES, 1, 1,
                                BYTES(body, sizeof(body))),
                     -ENOSPC);
    fixture_commit(&test->fixture);
    assert_int_equal(waiting("logs"), 1);
    assert_int_equal(store_health(test->fixture.store), 0);
}

static void test_health(void **state)
{
    static uint8_t body[900000];
    struct test *test = *state;
    fixture_close(&test->fixture);
    fixture_limit(&test->fixture, 2 << 20);
    fixture_open(&test->fixture);
    fixture_begin(&test->fixture);
    outbox_put(store_outbox(test->fixture.store), SIGNAL_TRACES, 1, 1, BYTES(body, sizeof(body)));
    fixture_commit(&test->fixture);
    fixture_begin(&test->fixture);
    outbox_put(store_outbox(test->fixture.store), SIGNAL_TRACES, 1, 1, BYTES(body, 750000));
    fixture_commit(&test->fixture);
    fixture_begin(&test->fixture);
    fixture_commit(&test->fixture);
    assert_int_equal(store_health(test->fixture.store), -ENOSPC);
    done(test, 0, 1);
    fixture_begin(&test->fixture);
    fixture_commit(&test->fixture);
    assert_int_equal(store_health(test->fixture.store), 0);
}

static void test_rolled_back(void **state)
{
    struct test *test = *state;
    put(test, SIGNAL_TRACES, 1, "a");
    fixture_begin(&test->fixture);
    outbox_put(store_outbox(test->fixture.store), SIGNAL_TRACES, 1, 1, BYTES_LIT("b"));
    outbox_done(store_outbox(test->fixture.store), 0, 1);
    store_fail(test->fixture.store, -EIO);
    assert_int_equal(store_end(test->fixture.store), -EIO);
    assert_int_equal(waiting("traces"), 1);
    next(test, "first", next(test, "first", 0, "a"), NULL);
}

static void test_too_many(void **state)
{
    struct test *test = *state;
    struct outbox *outbox;
    const char *names[OUTBOX_DESTINATIONS_MAX + 1];
    for (size_t i = 0; i <= OUTBOX_DESTINATIONS_MAX; i++)
        names[i] = "same";
    const struct outbox_settings settings = {.names = names, .n = OUTBOX_DESTINATIONS_MAX + 1};
    assert_int_equal(outbox_open(store_db(test->fixture.store), &settings, &outbox), -E2BIG);
}

/* A reader thread goes on while the writer puts, acknowledges and even replaces the file. */
enum { N_PUTS = 400 };

static void *read_on(void *context)
{
    struct test *test = context;
    struct outbox_item item = {0};
    uintptr_t n = 0;
    for (bool last = false; !last;) {
        int error = outbox_next(test->reader, "first", 0, &item);
        if (error == -ENOENT || error == -EBUSY)
            continue;
        if (error)
            return NULL;
        last = bytes_is(buf_bytes(&item.body), "last");
        n++;
        buf_close(&item.body);
    }
    return (void *)n;
}

static void test_concurrent(void **state)
{
    struct test *test = *state;
    pthread_t thread;
    void *n_read;
    assert_int_equal(pthread_create(&thread, NULL, read_on, test), 0);
    for (int i = 1; i <= N_PUTS; i++) {
        fixture_begin(&test->fixture);
        assert_int_equal(
            outbox_put(store_outbox(test->fixture.store), SIGNAL_TRACES, 7, 1, BYTES_LIT("body")),
            0);
        if (i % 100 == 0)
            store_fail(test->fixture.store, -EUCLEAN);
        assert_int_equal(store_end(test->fixture.store), i % 100 ? 0 : -EUCLEAN);
        if (i % 3 == 0)
            done(test, 0, i % 100);
        if (i % 10 == 0)
            store_maintain(test->fixture.store);
    }
    for (int64_t seq = 1; seq < 200; seq++)
        done(test, 0, seq);
    put(test, SIGNAL_TRACES, 1, "last");
    pthread_join(thread, &n_read);
    assert_true((uintptr_t)n_read >= 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_fifo),
        TEST(test_two_destinations),
        TEST(test_signals_apart),
        TEST(test_unwanted),
        TEST(test_configuration_changes),
        TEST(test_gone_backlog),
        TEST(test_gone_for_a_while),
        TEST(test_other_name),
        TEST(test_both_names),
        TEST(test_age),
        TEST(test_rolled_back),
        TEST(test_too_many),
        TEST(test_concurrent),
        TEST(test_totals_outlive),
        TEST(test_damaged_rows),
        TEST(test_corrupt),
        TEST(test_no_scan),
        TEST(test_drops_oldest),
        TEST(test_too_large_for_the_quota),
        TEST(test_health),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
