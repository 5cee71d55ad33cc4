/* SPDX-License-Identifier: Apache-2.0 */
/* Names and Resources of the history: their bound, and whose rows make room. */
#include "base/stats.h"
#include "proto/otlp/otlp_items.h"
#include "proto/otlp/otlp_spans.h"
#include "store/history/history_names.h"
#include "test/support/fixtures/history_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define MAX_BYTES (UINT64_C(1) << 20)
#define HONEST    77
#define FLOOD     78

struct test {
    struct fixture fixture;
    struct history_names names;
};

static void open_names(struct test *test, uint64_t max_bytes)
{
    assert_int_equal(
        history_names_open(&test->names, store_db(test->fixture.store),
                           &(struct history_names_settings){3600 * FIXTURE_SECOND, max_bytes}),
        0);
    fixture_begin(&test->fixture);
}

static void close_names(struct test *test)
{
    fixture_commit(&test->fixture);
    history_names_close(&test->names);
}

static int set_up(void **state)
{
    static struct test test;
    fixture_make(&test.fixture);
    fixture_open(&test.fixture);
    open_names(&test, MAX_BYTES);
    *state = &test;
    return 0;
}

static int tear_down(void **state)
{
    struct test *test = *state;
    close_names(test);
    fixture_remove(&test->fixture);
    return 0;
}

static int64_t put(struct test *test, uint64_t tenant, const char *text)
{
    int64_t id;
    assert_int_equal(history_names_text(&test->names, tenant, BYTES_STR(text), &id), 0);
    return id;
}

static void flood(struct test *test, uint64_t tenant, unsigned n, size_t size)
{
    char text[1025];
    for (unsigned i = 0; i < n; i++) {
        memset(text, 'x', size);
        text[size] = 0;
        snprintf(text, 30, "made up %llu %u ", (unsigned long long)tenant, i);
        text[strlen(text)] = 'x';
        assert_true(put(test, tenant, text) > 0);
        assert_true(test->names.bytes <= MAX_BYTES);
    }
}

static int64_t evicted(void)
{
    return stats_find("spanprof_history_names_evicted_total", "");
}

/* Who makes up names loses those, and none of its neighbour's. */
static void test_own_rows_go(void **state)
{
    struct test *test = *state;
    int64_t before = evicted(), known[20];
    char text[16];
    for (unsigned i = 0; i < 20; i++) {
        snprintf(text, sizeof(text), "GET /%u", i);
        known[i] = put(test, HONEST, text);
    }
    flood(test, FLOOD, 5000, 1000);
    assert_true(evicted() - before > 4000);
    for (unsigned i = 0; i < 20; i++) {
        snprintf(text, sizeof(text), "GET /%u", i);
        assert_int_equal(put(test, HONEST, text), known[i]);
    }
}

/* However short they are, there are not more than HISTORY_NAMES_MAX. */
static void test_short_names(void **state)
{
    struct test *test = *state;
    close_names(test);
    open_names(test, UINT64_C(1) << 40);
    test->names.share.limit = UINT64_C(200) * HISTORY_NAMES_MAX; /* 200 bytes each */
    for (unsigned i = 0; i < HISTORY_NAMES_MAX; i++) {
        char text[16];
        snprintf(text, sizeof(text), "%u", i);
        assert_true(put(test, 1 + i % 3, text) > 0);
    }
    assert_true(test->names.texts.by_id.count < HISTORY_NAMES_MAX);
    assert_true(test->names.texts.by_id.count > HISTORY_NAMES_MAX / 2);
}

/* Used again, it is the last to go. */
static void test_least_recently_used(void **state)
{
    struct test *test = *state;
    int64_t used = put(test, FLOOD, "used");
    int64_t unused = put(test, FLOOD, "unused");
    for (int i = 0; i < 20; i++) {
        flood(test, FLOOD, 100, 1000 - (size_t)i);
        assert_int_equal(put(test, FLOOD, "used"), used);
    }
    assert_int_not_equal(put(test, FLOOD, "unused"), unused);
}

/* After a restart nobody's rows are anybody's, until they are used; a smaller limit holds soon. */
static void test_restart(void **state)
{
    struct test *test = *state;
    int64_t known = put(test, HONEST, "known");
    flood(test, FLOOD, 1000, 1000);
    uint64_t bytes = test->names.bytes;
    close_names(test);
    open_names(test, MAX_BYTES);
    assert_int_equal(test->names.bytes, bytes);
    assert_int_equal(put(test, HONEST, "known"), known);
    flood(test, FLOOD, 3000, 900);
    assert_int_equal(put(test, HONEST, "known"), known);
    close_names(test);
    open_names(test, MAX_BYTES / 4);
    assert_true(test->names.bytes > MAX_BYTES / 2);
    assert_int_equal(put(test, HONEST, "known"), known); /* the oldest go, this one was used */
    for (int i = 0; i < 20; i++)
        assert_int_equal(history_names_collect(&test->names, FIXTURE_T0), 0);
    assert_in_range(test->names.bytes, 1, MAX_BYTES / 4);
    assert_int_equal(put(test, HONEST, "known"), known);
}

/* A large Resource keeps what identifies it. */
static void test_large_resource(void **state)
{
    struct test *test = *state;
    _cleanup_buf_ struct buf resource = BUF_INIT(0);
    static char large[3000];
    int64_t id;
    memset(large, 'y', sizeof(large));
    for (char key[] = "a"; *key <= 'z'; ++*key)
        assert_int_equal(otlp_attribute_string(&resource, 1, key, BYTES(large, sizeof(large))), 0);
    otlp_attribute_string(&resource, 1, "service.name", BYTES_LIT("shop"));
    assert_int_equal(history_names_resource(&test->names, HONEST, buf_bytes(&resource), &id), 0);
    assert_true(id > 0);
    assert_in_range(test->names.bytes, 3000, 4096 + 200);
    sqlite3_stmt *row;
    struct db *db = store_db(test->fixture.store);
    assert_int_equal(db_prepare(db, "SELECT body FROM history_text WHERE id = ?1", &row), 0);
    sqlite3_bind_int64(row, 1, id);
    assert_int_equal(db_step(db, row), 1);
    struct bytes kept = BYTES(sqlite3_column_blob(row, 0), (size_t)sqlite3_column_bytes(row, 0));
    struct bytes key_value, service;
    assert_in_range(kept.len, 3000, HISTORY_RESOURCE_MAX);
    assert_true(otlp_resource_attribute(kept, "service.name", &key_value));
    assert_true(otlp_key_value_string(key_value, &service) && bytes_is(service, "shop"));
    db_unprepare(db, &row);
}

/* No room in the store: "" instead, counted. */
static void test_no_room(void **state)
{
    struct test *test = *state;
    static uint8_t body[60000];
    close_names(test);
    fixture_close(&test->fixture);
    fixture_limit(&test->fixture, 2 << 20);
    fixture_open(&test->fixture);
    int error = 0;
    while (!error) {
        fixture_begin(&test->fixture);
        error = outbox_put(store_outbox(test->fixture.store), SIGNAL_LOGS, 1, 1,
                           BYTES(body, sizeof(body)));
        fixture_commit(&test->fixture);
    }
    open_names(test, MAX_BYTES);
    int64_t before = stats_find("spanprof_history_texts_left_out_total", ""), n = 0;
    for (char text[] = "a"; *text <= 'z'; ++*text)
        n += put(test, HONEST, text) == 0;
    if (db_has_room(store_db(test->fixture.store)))
        for (unsigned i = 0; i < 2000; i++) {
            char text[1000];
            memset(text, 'x', sizeof(text));
            snprintf(text, sizeof(text), "%u %900u", i, i);
            n += put(test, HONEST, text) == 0;
        }
    assert_true(n > 0);
    assert_int_equal(stats_find("spanprof_history_texts_left_out_total", "") - before, n);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_own_rows_go), TEST(test_short_names),    TEST(test_least_recently_used),
        TEST(test_restart),     TEST(test_large_resource), TEST(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
