/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are read beside the writer, and spans that come to it in parts. */
#include "base/stats.h"
#include "proto/codec.h"
#include "proto/otlp/otlp_items.h"
#include "test/support/fixtures/items_request.h"
#include "test/support/rigs/intake_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MANY 3000 /* spans of 500 bytes: three parts */

struct test {
    struct intake_rig rig;
    struct buf body; /* of one small span */
    struct buf many; /* of MANY spans */
    struct outgoing outgoing;
};

/* One span of so many bytes. */
static struct buf padded_request(size_t padding)
{
    struct buf body = BUF_INIT(0);
    trace_request(&body, &(struct trace_span){.trace = 1, .id = 3, .padding = padding}, 1);
    return body;
}

static void open_with(struct test *test, struct intake_rig_options options)
{
    static struct trace_span spans[MANY];
    *test = (struct test){.body = padded_request(10), .many = BUF_INIT(0)};
    options.max_queued_bytes = 16 << 20;
    intake_rig_open(&test->rig, &options);
    test->rig.max_inflated_bytes = 16 << 20;
    for (unsigned i = 0; i < MANY; i++)
        spans[i] = (struct trace_span){.trace = 2, .id = i + 1, .padding = 450};
    trace_request(&test->many, spans, MANY);
}

static int set_up(void **state)
{
    static struct test test;
    open_with(&test, (struct intake_rig_options){0});
    *state = &test;
    return 0;
}

static int set_up_quota(void **state)
{
    static struct test test;
    open_with(&test, (struct intake_rig_options){.max_store_bytes = 1 << 20});
    *state = &test;
    return 0;
}

static int tear_down(void **state)
{
    struct test *test = *state;
    outgoing_close(&test->outgoing);
    intake_rig_close(&test->rig);
    buf_close(&test->body);
    buf_close(&test->many);
    return 0;
}

static size_t n_outgoing(struct test *test)
{
    outgoing_close(&test->outgoing);
    outgoing_read(&test->outgoing, &test->rig.fixture.settings.db, test->rig.signal);
    return test->outgoing.n;
}

static uint64_t n_items(struct test *test)
{
    uint64_t n = 0;
    for (size_t i = 0, bodies = n_outgoing(test); i < bodies; i++)
        n += otlp_items_count(test->rig.signal, buf_bytes(&test->outgoing.items[i].body));
    return n;
}

static int64_t queued_bytes(void)
{
    return stats_find("spanprof_intake_queued_bytes", "");
}

/* ---- large ---- */

static int64_t n_large(void)
{
    return stats_find("spanprof_intake_large_requests_total", "");
}

/* Read beside the writer, as it is and inflated; what is small is not. */
static void test_large(void **state)
{
    struct test *test = *state;
    struct buf large _cleanup_buf_ = padded_request(600000), small _cleanup_buf_ = BUF_INIT(0);
    int64_t before = n_large();
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&large)), INTAKE_ACCEPTED);
    assert_int_equal(n_large() - before, 1);
    assert_int_equal(codec_gzip(buf_bytes(&large), &small), 0);
    test->rig.encoding = ENCODING_GZIP;
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&small)), INTAKE_ACCEPTED);
    assert_int_equal(n_large() - before, 2);
    buf_clear(&small);
    assert_int_equal(codec_gzip(buf_bytes(&test->body), &small), 0);
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&small)), INTAKE_ACCEPTED);
    assert_int_equal(n_large() - before, 2);
    assert_int_equal(n_outgoing(test), 3);
    assert_true(bytes_equal(buf_bytes(&test->outgoing.items[0].body),
                            buf_bytes(&test->outgoing.items[1].body)));
    assert_int_equal(queued_bytes(), 0);
}

/* They are refused as small ones are, and harm none that is read after them. */
static void test_large_refused(void **state)
{
    struct test *test = *state;
    struct buf large _cleanup_buf_ = padded_request(600000), bomb _cleanup_buf_ = BUF_INIT(0);
    struct buf zeros _cleanup_buf_ = BUF_INIT(0);
    large.data[large.len - 700] = 0xff; /* in a text */
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&large)), INTAKE_MALFORMED);
    assert_int_equal(buf_reserve(&zeros, 3 << 20), 0);
    memset(zeros.data, 0, 3 << 20);
    assert_int_equal(codec_gzip(BYTES(zeros.data, 3 << 20), &bomb), 0);
    test->rig.max_inflated_bytes = 1 << 20;
    test->rig.encoding = ENCODING_GZIP;
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&bomb)), INTAKE_TOO_BIG);
    test->rig.encoding = ENCODING_IDENTITY;
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&test->body)), INTAKE_ACCEPTED);
    assert_int_equal(queued_bytes(), 0);
}

/* All is closed while they wait for each other: each gets its one answer. */
static void test_large_closed(void **state)
{
    static struct intake_rig rig;
    static struct rig_request requests[6];
    struct buf large _cleanup_buf_ = padded_request(600000);
    (void)state;
    intake_rig_open(&rig, &(struct intake_rig_options){.max_queued_bytes = 8 << 20});
    int64_t before = n_large();
    for (int i = 0; i < 6; i++)
        rig_request_submit(&rig, &requests[i], buf_bytes(&large));
    while (n_large() == before)
        intake_rig_turn(&rig, 1);
    intake_rig_close(&rig);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(requests[i].n_done, 1);
        assert_true(requests[i].request.outcome == INTAKE_ACCEPTED ||
                    requests[i].request.outcome == INTAKE_BUSY);
    }
    assert_int_equal(requests[0].request.outcome, INTAKE_ACCEPTED);
}

/* ---- in parts ---- */

static void test_parts(void **state)
{
    struct test *test = *state;
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&test->many)), INTAKE_ACCEPTED);
    assert_int_equal(n_items(test), MANY);
    assert_in_range(test->outgoing.n, 3, 4);
    assert_int_equal(test->rig.n_committed, test->outgoing.n);
    for (size_t i = 0; i < test->outgoing.n; i++)
        assert_in_range(test->outgoing.items[i].body.len, 1000, (512 << 10) + 1000);
    assert_int_equal(queued_bytes(), 0);
}

static void test_parts_of_other_signals(void **state)
{
    static const enum signal signals[] = {SIGNAL_METRICS, SIGNAL_LOGS};
    struct test *test = *state;
    for (size_t i = 0; i < 2; i++) {
        struct buf body _cleanup_buf_ = BUF_INIT(0);
        items_request(&body, signals[i], MANY, 450);
        test->rig.signal = signals[i];
        assert_int_equal(rig_request_run(&test->rig, buf_bytes(&body)), INTAKE_ACCEPTED);
        assert_int_equal(n_items(test), otlp_items_count(signals[i], buf_bytes(&body)));
        assert_in_range(test->outgoing.n, 3, 5);
    }
}

/* Who comes meanwhile waits for one part. */
static void test_another_between(void **state)
{
    struct test *test = *state;
    static struct rig_request large, small;
    int64_t before = n_large();
    large = small = (struct rig_request){0};
    rig_request_submit(&test->rig, &large, buf_bytes(&test->many));
    while (n_large() == before)
        intake_rig_turn(&test->rig, 1);
    intake_rig_hold(&test->rig); /* the writer has the first part, or will have it */
    rig_request_submit(&test->rig, &small, buf_bytes(&test->body));
    intake_rig_release(&test->rig);
    intake_rig_until(&test->rig, &small.done);
    assert_int_equal(small.request.outcome, INTAKE_ACCEPTED);
    assert_false(large.done);
    intake_rig_until(&test->rig, &large.done);
    assert_int_equal(large.request.outcome, INTAKE_ACCEPTED);
    assert_int_equal(n_items(test), MANY + 1);
}

/* If there is no room for all parts, none is put. */
static void test_no_room_for_all(void **state)
{
    struct test *test = *state;
    assert_int_not_equal(rig_request_run(&test->rig, buf_bytes(&test->many)), INTAKE_ACCEPTED);
    assert_int_equal(n_outgoing(test), 0);
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&test->body)), INTAKE_ACCEPTED);
}

/* A span that could leave in no body is found before the first part is put. */
static void test_a_span_too_large(void **state)
{
    struct test *test = *state;
    struct buf large _cleanup_buf_ = padded_request(2 << 20);
    assert_int_equal(buf_append_bytes(&test->many, buf_bytes(&large)), 0); /* requests merge */
    assert_int_equal(rig_request_run(&test->rig, buf_bytes(&test->many)), INTAKE_TOO_BIG);
    assert_int_equal(n_outgoing(test), 0);
}

/* Closed in the midst of one: it gets its answer, and is sent again. */
static void test_parts_closed(void **state)
{
    static struct intake_rig rig;
    static struct rig_request requests[3];
    struct test *test = *state;
    memset(requests, 0, sizeof(requests));
    intake_rig_open(&rig, &(struct intake_rig_options){.max_queued_bytes = 16 << 20});
    rig.max_inflated_bytes = 16 << 20;
    int64_t before = n_large();
    for (int i = 0; i < 3; i++)
        rig_request_submit(&rig, &requests[i], buf_bytes(&test->many));
    while (n_large() == before)
        intake_rig_turn(&rig, 1);
    intake_rig_close(&rig);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(requests[i].n_done, 1);
        assert_true(requests[i].request.outcome == INTAKE_ACCEPTED ||
                    requests[i].request.outcome == INTAKE_BUSY);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_large),
        TEST(test_large_refused),
        TEST(test_large_closed),
        TEST(test_parts),
        TEST(test_parts_of_other_signals),
        TEST(test_another_between),
        cmocka_unit_test_setup_teardown(test_no_room_for_all, set_up_quota, tear_down),
        TEST(test_a_span_too_large),
        TEST(test_parts_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
