/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics and logs on the writer: what lies in the outbox afterwards, and what is counted. */
#include "base/stats.h"
#include "proto/codec.h"
#include "proto/otlp/otlp_items.h"
#include "receiver/intake/intake_items.h"
#include "test/support/fixtures/items_request.h"
#include "test/support/rigs/request_rig.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static const struct intake_signal_settings settings = {.destinations = 1,
                                                       .max_body_bytes = 1 << 20};
static const enum signal signals[] = {SIGNAL_METRICS, SIGNAL_LOGS};

static int run_items(struct intake_request *request, struct store *store, const void *with)
{
    return intake_items_run(request, store, with);
}

static int run(struct request_rig *test, enum signal signal, struct bytes body,
               enum intake_encoding encoding, const struct intake_signal_settings *with)
{
    struct intake_request request = {.signal = signal, .encoding = encoding};
    return request_rig_run(test, &request, body, run_items, with);
}

static int64_t received(enum signal signal)
{
    return stats_find(signal == SIGNAL_METRICS ? "spanprof_metric_points_received_total"
                                               : "spanprof_log_records_received_total",
                      "");
}

static int64_t refused(enum signal signal, const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "signal=\"%s\",reason=\"%s\"", signal_names[signal], reason);
    return stats_find("spanprof_requests_refused_total", labels);
}

static void test_as_it_came(void **state)
{
    struct request_rig *test = *state;
    for (size_t s = 0; s < 2; s++) {
        enum signal signal = signals[s];
        uint64_t items = items_expected(signal, 7);
        int64_t before = received(signal);
        struct buf gzip _cleanup_buf_ = BUF_INIT(0);
        buf_clear(&test->body);
        items_request(&test->body, signal, 7, 100);
        struct bytes body = buf_bytes(&test->body);
        assert_int_equal(codec_gzip(body, &gzip), 0);
        assert_int_equal(run(test, signal, body, ENCODING_IDENTITY, &settings), INTAKE_ACCEPTED);
        assert_int_equal(run(test, signal, buf_bytes(&gzip), ENCODING_GZIP, &settings),
                         INTAKE_ACCEPTED);
        assert_int_equal(test->outgoing.n, 2);
        for (size_t i = 0; i < 2; i++) {
            assert_true(bytes_equal(buf_bytes(&test->outgoing.items[i].body), body));
            assert_int_equal(test->outgoing.items[i].items, items);
        }
        assert_int_equal(received(signal) - before, 2 * items);
    }
}

static void test_empty(void **state)
{
    struct request_rig *test = *state;
    for (size_t s = 0; s < 2; s++) {
        buf_clear(&test->body);
        items_request(&test->body, signals[s], 0, 0);
        assert_int_equal(
            run(test, signals[s], buf_bytes(&test->body), ENCODING_IDENTITY, &settings),
            INTAKE_ACCEPTED);
        assert_int_equal(run(test, signals[s], BYTES(NULL, 0), ENCODING_IDENTITY, &settings),
                         INTAKE_ACCEPTED);
        assert_int_equal(test->outgoing.n, 0);
    }
}

static void test_malformed(void **state)
{
    struct request_rig *test = *state;
    for (size_t s = 0; s < 2; s++) {
        enum signal signal = signals[s];
        int64_t before = refused(signal, "malformed");
        buf_clear(&test->body);
        items_request(&test->body, signal, 3, 10);
        struct bytes body = buf_bytes(&test->body), cut = BYTES(body.data, body.len - 1);
        assert_int_equal(run(test, signal, cut, ENCODING_IDENTITY, &settings), INTAKE_MALFORMED);
        assert_int_equal(run(test, signal, body, ENCODING_ZSTD, &settings), INTAKE_MALFORMED);
        assert_int_equal(test->outgoing.n, 0);
        assert_int_equal(refused(signal, "malformed") - before, 2);
    }
}

static void test_limits(void **state)
{
    struct request_rig *test = *state;
    for (size_t s = 0; s < 2; s++) {
        enum signal signal = signals[s];
        int64_t before = refused(signal, "too_big");
        uint64_t items = 0;
        struct intake_signal_settings small = settings;
        struct bytes body;
        small.max_body_bytes = 2500;
        buf_clear(&test->body);
        items_request(&test->body, signal, 20, 500);
        body = buf_bytes(&test->body);
        assert_int_equal(run(test, signal, body, ENCODING_IDENTITY, &small), INTAKE_ACCEPTED);
        assert_in_range(test->outgoing.n, 5, 10);
        for (size_t i = 0; i < test->outgoing.n; i++)
            items += test->outgoing.items[i].items;
        assert_int_equal(items, items_expected(signal, 20));

        size_t n_before = test->outgoing.n;
        small.max_body_bytes = 500; /* one alone is larger than a peer takes */
        assert_int_equal(run(test, signal, body, ENCODING_IDENTITY, &small), INTAKE_TOO_BIG);
        buf_clear(&test->body);
        items_request(&test->body, signal, 1, RIG_INFLATED_MAX);
        body = buf_bytes(&test->body);
        assert_int_equal(run(test, signal, body, ENCODING_IDENTITY, &settings), INTAKE_TOO_BIG);
        assert_int_equal(test->outgoing.n, n_before);
        assert_int_equal(refused(signal, "too_big") - before, 2);
    }
}

static void test_no_room(void **state)
{
    struct request_rig *test = *state;
    int error = 0;
    items_request(&test->body, SIGNAL_LOGS, 1, 100000);
    for (int i = 0; i < 20 && !error; i++) {
        struct intake_request request = {
            .signal = SIGNAL_LOGS, .body = test->body, .max_inflated_bytes = RIG_INFLATED_MAX};
        fixture_begin(&test->fixture);
        error = intake_items_run(&request, test->fixture.store, &settings);
        fixture_commit(&test->fixture);
    }
    assert_int_equal(error, -ENOSPC);
    outgoing_read(&test->outgoing, &test->fixture.settings.db, SIGNAL_LOGS);
    assert_in_range(test->outgoing.n, 1, 10);
}

/* Two of its bodies would find room; none is put, so that what comes again is not there twice. */
static void test_no_room_for_all(void **state)
{
    static const int outcomes[] = {0, -ENOSPC, -ENOSPC};
    struct intake_signal_settings parts = settings;
    struct request_rig *test = *state;
    int64_t before = stats_find("spanprof_outbox_refused_total", "signal=\"logs\"");
    parts.max_body_bytes = 70000;
    items_request(&test->body, SIGNAL_LOGS, 7, 60000);
    for (int i = 0; i < 3; i++) {
        struct intake_request request = {
            .signal = SIGNAL_LOGS, .body = test->body, .max_inflated_bytes = RIG_INFLATED_MAX};
        fixture_begin(&test->fixture);
        assert_int_equal(intake_items_run(&request, test->fixture.store, &parts), outcomes[i]);
        assert_true(i == 0 || db_room_bytes(store_db(test->fixture.store)) > 2 * 60000);
        fixture_commit(&test->fixture);
    }
    outgoing_read(&test->outgoing, &test->fixture.settings.db, SIGNAL_LOGS);
    assert_int_equal(test->outgoing.n, 7);
    assert_int_equal(stats_find("spanprof_outbox_refused_total", "signal=\"logs\"") - before, 2);
}

/* No quota of this size could hold it: the answer is final. */
static void test_never_any_room(void **state)
{
    struct request_rig *test = *state;
    int64_t before = refused(SIGNAL_LOGS, "too_big");
    items_request(&test->body, SIGNAL_LOGS, 9, 80000);
    assert_int_equal(run(test, SIGNAL_LOGS, buf_bytes(&test->body), ENCODING_IDENTITY, &settings),
                     INTAKE_TOO_BIG);
    assert_int_equal(test->outgoing.n, 0);
    assert_int_equal(refused(SIGNAL_LOGS, "too_big") - before, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, request_rig_set_up, request_rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_as_it_came),
        TEST(test_empty),
        TEST(test_malformed),
        TEST(test_limits),
        cmocka_unit_test_setup_teardown(test_no_room, request_rig_set_up_with_quota,
                                        request_rig_tear_down),
        cmocka_unit_test_setup_teardown(test_never_any_room, request_rig_set_up_with_quota,
                                        request_rig_tear_down),
        cmocka_unit_test_setup_teardown(test_no_room_for_all, request_rig_set_up_with_quota,
                                        request_rig_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
