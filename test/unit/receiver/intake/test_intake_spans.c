/* SPDX-License-Identifier: Apache-2.0 */
/* A request on the writer: what becomes of it, and what lies in the outbox afterwards. */
#include "base/stats.h"
#include "proto/codec.h"
#include "proto/otlp/otlp_json.h"
#include "proto/otlp/otlp_schema.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"
#include "receiver/intake/intake_spans.h"
#include "test/support/fixtures/outbox_next.h"
#include "test/support/rigs/request_rig.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>
#include <cmocka.h>

static const struct intake_signal_settings joining = {
    .join = true, .destinations = 1, .max_body_bytes = 1 << 20};

static struct trace_span some_span(unsigned trace, unsigned id)
{
    return (struct trace_span){.trace = trace,
                               .id = id,
                               .start_unix_ns = FIXTURE_T0,
                               .end_unix_ns = FIXTURE_T0 + FIXTURE_SECOND};
}

static int run_spans(struct intake_request *request, struct store *store, const void *settings)
{
    return intake_spans_run(request, store, settings);
}

static int run_request(struct request_rig *test, struct bytes body, struct intake_request *request,
                       const struct intake_signal_settings *settings)
{
    request->signal = SIGNAL_TRACES;
    return request_rig_run(test, request, body, run_spans, settings);
}

static int run(struct request_rig *test, struct bytes body, enum intake_encoding encoding,
               const struct intake_signal_settings *settings)
{
    struct intake_request request = {.encoding = encoding};
    return run_request(test, body, &request, settings);
}

static void assert_out(const struct request_rig *test, size_t i, struct bytes body, uint64_t items)
{
    assert_true(i < test->outgoing.n);
    assert_true(bytes_equal(buf_bytes(&test->outgoing.items[i].body), body));
    assert_int_equal(test->outgoing.items[i].items, items);
}

/* ---- what is accepted ---- */

static void test_as_it_came(void **state)
{
    struct request_rig *test = *state;
    struct trace_span spans[] = {some_span(1, 1), some_span(1, 2)};
    trace_request(&test->body, spans, 2);
    int64_t received = stats_find("spanprof_spans_received_total", "");
    assert_int_equal(run(test, buf_bytes(&test->body), ENCODING_IDENTITY, &joining),
                     INTAKE_ACCEPTED);
    assert_int_equal(test->outgoing.n, 1);
    assert_out(test, 0, buf_bytes(&test->body), 2);
    assert_int_equal(stats_find("spanprof_spans_received_total", "") - received, 2);
}

static void test_compressed(void **state)
{
    struct request_rig *test = *state;
    struct trace_span span = some_span(1, 1);
    struct buf gzip _cleanup_buf_ = BUF_INIT(0);
    uint8_t zstd[1024];
    trace_request(&test->body, &span, 1);
    struct bytes body = buf_bytes(&test->body);
    assert_int_equal(codec_gzip(body, &gzip), 0);
    size_t size = ZSTD_compress(zstd, sizeof(zstd), body.data, body.len, 1);
    assert_false(ZSTD_isError(size));
    assert_int_equal(run(test, buf_bytes(&gzip), ENCODING_GZIP, &joining), INTAKE_ACCEPTED);
    assert_int_equal(run(test, BYTES(zstd, size), ENCODING_ZSTD, &joining), INTAKE_ACCEPTED);
    assert_int_equal(test->outgoing.n, 2);
    assert_out(test, 0, body, 1);
    assert_out(test, 1, body, 1);
}

static void test_empty(void **state)
{
    struct request_rig *test = *state;
    struct buf gzip _cleanup_buf_ = BUF_INIT(0);
    assert_int_equal(run(test, BYTES(NULL, 0), ENCODING_IDENTITY, &joining), INTAKE_ACCEPTED);
    trace_request(&test->body, NULL, 0); /* Resource and scope, but no span */
    assert_int_equal(run(test, buf_bytes(&test->body), ENCODING_IDENTITY, &joining),
                     INTAKE_ACCEPTED);
    assert_int_equal(codec_gzip(BYTES(NULL, 0), &gzip), 0);
    assert_int_equal(run(test, buf_bytes(&gzip), ENCODING_GZIP, &joining), INTAKE_ACCEPTED);
    assert_int_equal(test->outgoing.n, 0);
}

/* ---- annotated ---- */

static void add_samples(struct request_rig *test, unsigned n)
{
    struct fixture *fixture = &test->fixture;
    int64_t process = fixture_process(fixture, 42, BYTES(NULL, 0));
    for (unsigned i = 0; i < n; i++) {
        struct sample sample = fixture_sample(FIXTURE_T0 + (i + 1) * FIXTURE_TICK,
                                              (struct fixture_ids){.trace = 1, .span = 2},
                                              fixture_stack(fixture, i > 1), process);
        fixture_add(fixture, &sample);
    }
}

/* The attributes that a span with three samples of stacks 0, 0 and 1 gets. */
static void put_annotations(struct request_rig *test, struct buf *out)
{
    char hex[2][33];
    struct bytes ids[2];
    for (unsigned i = 0; i < 2; i++) {
        uint8_t id[16];
        int64_t stack = fixture_stack(&test->fixture, i);
        fixture_begin(&test->fixture);
        assert_int_equal(stacks_public_id(store_stacks(test->fixture.store), stack, id), 0);
        fixture_commit(&test->fixture);
        bytes_to_hex(BYTES(id, 16), hex[i]);
        ids[i] = BYTES(hex[i], 32);
    }
    otlp_attribute_int(out, 9, "spanprof.cpu.time_ns", 3 * FIXTURE_TICK);
    otlp_attribute_int(out, 9, "spanprof.samples", 3);
    otlp_attribute_strings(out, 9, "spanprof.stack_ids", ids, 2);
}

static void test_annotated(void **state)
{
    struct request_rig *test = *state;
    struct trace_span spans[] = {some_span(1, 1), some_span(1, 2), some_span(1, 3)};
    struct buf expected _cleanup_buf_ = BUF_INIT(0), added _cleanup_buf_ = BUF_INIT(0);
    int64_t annotated = stats_find("spanprof_spans_annotated_total", "");
    trace_request(&test->body, spans, 3);
    add_samples(test, 3);
    put_annotations(test, &added);
    spans[1].added = buf_bytes(&added);
    trace_request(&expected, spans, 3);
    assert_int_equal(run(test, buf_bytes(&test->body), ENCODING_IDENTITY, &joining),
                     INTAKE_ACCEPTED);
    assert_int_equal(test->outgoing.n, 1);
    assert_out(test, 0, buf_bytes(&expected), 3);
    assert_int_equal(stats_find("spanprof_spans_annotated_total", "") - annotated, 1);

    /* Sent again after a lost answer: the same. */
    assert_int_equal(run(test, buf_bytes(&test->body), ENCODING_IDENTITY, &joining),
                     INTAKE_ACCEPTED);
    assert_out(test, 1, buf_bytes(&expected), 3);
}

/* A part of the Resource that comes last makes it larger than what the store keeps. */
static void put_large_resource(struct request_rig *test, struct buf *request)
{
    static char large[3000];
    _cleanup_buf_ struct buf resource = BUF_INIT(0), spans = BUF_INIT(0);
    struct wire_reader reader = wire_read(buf_bytes(&test->body));
    struct wire_field field;
    memset(large, 'y', sizeof(large));
    for (char key[] = "a"; *key <= 'j'; ++*key)
        otlp_attribute_string(&resource, 1, key, BYTES(large, sizeof(large)));
    otlp_attribute_string(&resource, 1, "service.name", BYTES_LIT("shop"));
    assert_int_equal(wire_next(&reader, &field), WIRE_FIELD);
    assert_int_equal(buf_append_bytes(&spans, field.bytes), 0);
    assert_int_equal(wire_put_bytes(&spans, 1, buf_bytes(&resource)), 0);
    assert_int_equal(wire_put_bytes(request, 1, buf_bytes(&spans)), 0);
}

/* The store keeps what identifies it; what is sent on is as it came. */
static void test_large_resource(void **state)
{
    struct request_rig *test = *state;
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    struct trace_span spans[] = {some_span(1, 2), some_span(1, 3)};
    sqlite3_stmt *row;
    struct bytes key_value, service;
    add_samples(test, 3);
    trace_request(&test->body, spans, 2);
    put_large_resource(test, &request);
    assert_int_equal(run(test, buf_bytes(&request), ENCODING_IDENTITY, &joining), INTAKE_ACCEPTED);
    assert_true(test->outgoing.items[0].body.len > request.len);
    struct db *db = store_db(test->fixture.store);
    assert_int_equal(db_prepare(db, "SELECT body FROM span_resource", &row), 0);
    assert_int_equal(db_step(db, row), 1);
    struct bytes kept = BYTES(sqlite3_column_blob(row, 0), (size_t)sqlite3_column_bytes(row, 0));
    assert_in_range(kept.len, 6000, 8192);
    assert_true(otlp_resource_attribute(kept, "service.name", &key_value));
    assert_true(otlp_key_value_string(key_value, &service) && bytes_is(service, "shop"));
    db_unprepare(db, &row);
}

static void test_not_joined(void **state)
{
    struct request_rig *test = *state;
    struct intake_signal_settings plain = joining;
    struct trace_span span = some_span(1, 2);
    plain.join = false;
    trace_request(&test->body, &span, 1);
    add_samples(test, 1);
    assert_int_equal(run(test, buf_bytes(&test->body), ENCODING_IDENTITY, &plain), INTAKE_ACCEPTED);
    assert_out(test, 0, buf_bytes(&test->body), 1);
}

/* ---- limits ---- */

static void test_split(void **state)
{
    struct request_rig *test = *state;
    struct intake_signal_settings small = joining;
    struct trace_span spans[40];
    uint64_t items = 0;
    small.max_body_bytes = 2000;
    for (unsigned i = 0; i < 40; i++) {
        spans[i] = some_span(1, i + 1);
        spans[i].padding = 300;
    }
    trace_request(&test->body, spans, 40);
    assert_int_equal(run(test, buf_bytes(&test->body), ENCODING_IDENTITY, &small), INTAKE_ACCEPTED);
    assert_in_range(test->outgoing.n, 8, 20);
    for (size_t i = 0; i < test->outgoing.n; i++) {
        const struct outbox_item *item = &test->outgoing.items[i];
        assert_in_range(item->body.len, 1, 2000);
        assert_int_equal(otlp_spans_check(buf_bytes(&item->body)), OTLP_OK);
        assert_int_equal(otlp_spans_count(buf_bytes(&item->body)), item->items);
        items += item->items;
    }
    assert_int_equal(items, 40);
}

static int64_t refused(const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "signal=\"traces\",reason=\"%s\"", reason);
    return stats_find("spanprof_requests_refused_total", labels);
}

static void test_too_big(void **state)
{
    struct request_rig *test = *state;
    struct intake_signal_settings small = joining;
    struct trace_span spans[] = {some_span(1, 1), some_span(1, 2)};
    int64_t before = refused("too_big");
    small.max_body_bytes = 2000;
    spans[1].padding = 3000; /* one span alone is larger than a peer takes */
    trace_request(&test->body, spans, 2);
    assert_int_equal(run(test, buf_bytes(&test->body), ENCODING_IDENTITY, &small), INTAKE_TOO_BIG);

    buf_clear(&test->body);
    spans[1].padding = RIG_INFLATED_MAX;
    trace_request(&test->body, spans, 2);
    assert_int_equal(run(test, buf_bytes(&test->body), ENCODING_IDENTITY, &joining),
                     INTAKE_TOO_BIG);
    assert_int_equal(test->outgoing.n, 0);
    assert_int_equal(refused("too_big") - before, 2);
}

static void test_bomb(void **state)
{
    struct request_rig *test = *state;
    struct buf gzip _cleanup_buf_ = BUF_INIT(0);
    size_t size = 16 * (size_t)RIG_INFLATED_MAX;
    uint8_t *zeros = calloc(1, size), *zstd = malloc(ZSTD_compressBound(size));
    assert_non_null(zeros);
    assert_non_null(zstd);
    assert_int_equal(codec_gzip(BYTES(zeros, size), &gzip), 0);
    assert_true(gzip.len < RIG_INFLATED_MAX / 4);
    size_t n = ZSTD_compress(zstd, ZSTD_compressBound(size), zeros, size, 1);
    assert_int_equal(run(test, buf_bytes(&gzip), ENCODING_GZIP, &joining), INTAKE_TOO_BIG);
    assert_int_equal(run(test, BYTES(zstd, n), ENCODING_ZSTD, &joining), INTAKE_TOO_BIG);
    assert_int_equal(test->outgoing.n, 0);
    free(zeros);
    free(zstd);
}

static void test_malformed(void **state)
{
    struct request_rig *test = *state;
    struct trace_span span = some_span(1, 1);
    struct buf gzip _cleanup_buf_ = BUF_INIT(0);
    int64_t before = refused("malformed");
    trace_request(&test->body, &span, 1);
    struct bytes body = buf_bytes(&test->body);
    assert_int_equal(codec_gzip(body, &gzip), 0);
    const struct {
        struct bytes body;
        enum intake_encoding encoding;
    } cases[] = {
        {BYTES_LIT("\xff"), ENCODING_IDENTITY},
        {BYTES(body.data, body.len - 1), ENCODING_IDENTITY},
        {buf_bytes(&gzip), ENCODING_IDENTITY},
        {body, ENCODING_GZIP},
        {body, ENCODING_ZSTD},
        {BYTES(gzip.data, gzip.len - 1), ENCODING_GZIP},
        {BYTES(NULL, 0), ENCODING_GZIP},
    };
    size_t n = sizeof(cases) / sizeof(cases[0]);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(run(test, cases[i].body, cases[i].encoding, &joining), INTAKE_MALFORMED);
    assert_int_equal(test->outgoing.n, 0);
    assert_int_equal(refused("malformed") - before, n);
}

/* A body that is malformed behind its first span changes nothing. */
static void test_malformed_is_not_joined(void **state)
{
    struct request_rig *test = *state;
    struct trace_span span = some_span(1, 2);
    struct fixture_left left;
    trace_request(&test->body, &span, 1);
    assert_int_equal(buf_append(&test->body, "\x0a\x05", 2), 0);
    add_samples(test, 3);
    assert_int_equal(run(test, buf_bytes(&test->body), ENCODING_IDENTITY, &joining),
                     INTAKE_MALFORMED);
    assert_int_equal(fixture_leave(&test->fixture, FIXTURE_T0 + FIXTURE_SECOND, &left), 0);
    assert_int_equal(join_pending_samples(store_join(test->fixture.store)), 3);
}

static void test_no_room(void **state)
{
    struct request_rig *test = *state;
    struct trace_span span = some_span(1, 2);
    int error = 0;
    span.padding = 100000;
    trace_request(&test->body, &span, 1);
    for (int i = 0; i < 20 && !error; i++) {
        struct intake_request request = {
            .signal = SIGNAL_TRACES, .body = test->body, .max_inflated_bytes = RIG_INFLATED_MAX};
        fixture_begin(&test->fixture);
        error = intake_spans_run(&request, test->fixture.store, &joining);
        fixture_commit(&test->fixture); /* the transaction is whole all the same */
    }
    assert_int_equal(error, -ENOSPC);
    outgoing_read(&test->outgoing, &test->fixture.settings.db, SIGNAL_TRACES);
    assert_in_range(test->outgoing.n, 1, 10);
}

static int run_parts(struct request_rig *test, unsigned trace)
{
    static const struct intake_signal_settings parts = {
        .join = true, .destinations = 1, .max_body_bytes = 70000};
    struct trace_span spans[7];
    for (unsigned i = 0; i < 7; i++) {
        spans[i] = some_span(trace, i + 1);
        spans[i].padding = 60000;
    }
    buf_clear(&test->body);
    trace_request(&test->body, spans, 7);
    struct intake_request request = {
        .signal = SIGNAL_TRACES, .body = test->body, .max_inflated_bytes = RIG_INFLATED_MAX};
    fixture_begin(&test->fixture);
    int error = intake_spans_run(&request, test->fixture.store, &parts);
    fixture_commit(&test->fixture);
    return error;
}

/* Some of its bodies would find room: none is put, and none of its spans takes its samples. */
static void test_no_room_for_all(void **state)
{
    struct request_rig *test = *state;
    assert_int_equal(run_parts(test, 7), 0);
    add_samples(test, 3);
    int64_t pending = stats_find("spanprof_join_pending_samples", "");
    assert_int_equal(run_parts(test, 1), -ENOSPC);
    assert_int_equal(run_parts(test, 1), -ENOSPC);
    assert_true(pending > 0);
    assert_int_equal(stats_find("spanprof_join_pending_samples", ""), pending);
    outgoing_read(&test->outgoing, &test->fixture.settings.db, SIGNAL_TRACES);
    assert_int_equal(test->outgoing.n, 7);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, request_rig_set_up, request_rig_tear_down)

/* ---- JSON ---- */

static void test_json_goes_out_as_protobuf(void **state)
{
    struct request_rig *test = *state;
    struct trace_span spans[] = {some_span(1, 1), some_span(1, 2)};
    struct buf text _cleanup_buf_ = BUF_INIT(RIG_INFLATED_MAX), packed _cleanup_buf_ = BUF_INIT(0);
    struct intake_request plain = {.json = true};
    struct intake_request gzip = {.json = true, .encoding = ENCODING_GZIP};
    struct intake_request empty = {.json = true};
    trace_request(&test->body, spans, 2);
    assert_int_equal(
        otlp_json_write(otlp_schema_request(SIGNAL_TRACES), buf_bytes(&test->body), &text), 0);
    assert_int_equal(codec_gzip(buf_bytes(&text), &packed), 0);
    assert_int_equal(run_request(test, buf_bytes(&text), &plain, &joining), INTAKE_ACCEPTED);
    assert_int_equal(run_request(test, buf_bytes(&packed), &gzip, &joining), INTAKE_ACCEPTED);
    assert_int_equal(run_request(test, BYTES_LIT("{}"), &empty, &joining), INTAKE_ACCEPTED);
    assert_int_equal(test->outgoing.n, 2);
    for (size_t i = 0; i < 2; i++) {
        struct buf again _cleanup_buf_ = BUF_INIT(RIG_INFLATED_MAX);
        struct bytes out = buf_bytes(&test->outgoing.items[i].body);
        assert_int_equal(otlp_json_write(otlp_schema_request(SIGNAL_TRACES), out, &again), 0);
        assert_true(bytes_equal(buf_bytes(&again), buf_bytes(&text)));
        assert_int_equal(test->outgoing.items[i].items, 2);
    }
}

static void test_json_that_is_none_is_told_where(void **state)
{
    struct request_rig *test = *state;
    struct intake_request request = {.json = true};
    struct intake_request empty = {.json = true};
    int64_t before =
        stats_find("spanprof_requests_refused_total", "signal=\"traces\",reason=\"malformed\"");
    assert_int_equal(run_request(test, BYTES_LIT("{\"resourceSpans\":[1]}"), &request, &joining),
                     INTAKE_MALFORMED);
    assert_string_equal(request.message, "not OTLP/JSON: an object is missing at byte 18");
    assert_int_equal(run_request(test, BYTES(NULL, 0), &empty, &joining), INTAKE_MALFORMED);
    assert_int_equal(test->outgoing.n, 0);
    assert_int_equal(
        stats_find("spanprof_requests_refused_total", "signal=\"traces\",reason=\"malformed\""),
        before + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_as_it_came),
        TEST(test_compressed),
        TEST(test_empty),
        TEST(test_annotated),
        TEST(test_large_resource),
        TEST(test_not_joined),
        TEST(test_split),
        TEST(test_too_big),
        TEST(test_bomb),
        TEST(test_malformed),
        TEST(test_malformed_is_not_joined),
        TEST(test_json_goes_out_as_protobuf),
        TEST(test_json_that_is_none_is_told_where),
        cmocka_unit_test_setup_teardown(test_no_room, request_rig_set_up_with_quota,
                                        request_rig_tear_down),
        cmocka_unit_test_setup_teardown(test_no_room_for_all, request_rig_set_up_with_quota,
                                        request_rig_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
