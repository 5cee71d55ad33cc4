/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that pass through: what is well-formed, how many items it has, how it is split. */
#include "proto/otlp/otlp_items.h"
#include "logs_service.pb-c.h"
#include "metrics_service.pb-c.h"
#include "proto/wire.h"
#include "test/support/fixtures/items_request.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static const enum signal signals[] = {SIGNAL_METRICS, SIGNAL_LOGS};

static void test_counts(void **state)
{
    (void)state;
    for (size_t s = 0; s < 2; s++)
        for (unsigned n = 0; n < 20; n++) {
            struct buf body _cleanup_buf_ = BUF_INIT(0);
            items_request(&body, signals[s], n, 10);
            assert_int_equal(otlp_items_check(signals[s], buf_bytes(&body)), OTLP_OK);
            assert_int_equal(otlp_items_count(signals[s], buf_bytes(&body)),
                             items_expected(signals[s], n));
        }
}

/* An independent decoder sees what the walk counts. */
static void test_counts_as_decoded(void **state)
{
    (void)state;
    struct buf body _cleanup_buf_ = BUF_INIT(0);
    items_request(&body, SIGNAL_METRICS, 10, 0);
    Opentelemetry__Proto__Collector__Metrics__V1__ExportMetricsServiceRequest *request =
        opentelemetry__proto__collector__metrics__v1__export_metrics_service_request__unpack(
            NULL, body.len, body.data);
    assert_non_null(request);
    Opentelemetry__Proto__Metrics__V1__ScopeMetrics *scope =
        request->resource_metrics[0]->scope_metrics[0];
    assert_int_equal(scope->n_metrics, 10);
    assert_int_equal(scope->metrics[0]->gauge->n_data_points, 1);
    assert_int_equal(scope->metrics[1]->sum->n_data_points, 2);
    assert_int_equal(scope->metrics[2]->histogram->n_data_points, 3);
    assert_int_equal(scope->metrics[3]->exponential_histogram->n_data_points, 1);
    assert_int_equal(scope->metrics[4]->summary->n_data_points, 2);
    opentelemetry__proto__collector__metrics__v1__export_metrics_service_request__free_unpacked(
        request, NULL);
}

static void test_malformed(void **state)
{
    static const uint8_t wrong_type_of_metrics[] = {0x0a, 0x04, 0x12, 0x02, 0x10, 0x05};
    static const uint8_t name_is_no_text[] = {0x0a, 0x07, 0x12, 0x05, 0x12, 0x03, 0x0a, 0x01, 0xff};
    (void)state;
    for (size_t s = 0; s < 2; s++) {
        struct buf body _cleanup_buf_ = BUF_INIT(0);
        items_request(&body, signals[s], 3, 10);
        assert_int_equal(otlp_items_check(signals[s], BYTES(body.data, body.len - 1)),
                         OTLP_MALFORMED);
        assert_int_equal(otlp_items_check(signals[s], BYTES_LIT("\xff")), OTLP_MALFORMED);
        assert_int_equal(otlp_items_check(signals[s], BYTES(wrong_type_of_metrics, 6)),
                         OTLP_MALFORMED);
        assert_int_equal(otlp_items_check(signals[s], BYTES(NULL, 0)), OTLP_OK);
    }
    assert_int_equal(otlp_items_check(SIGNAL_METRICS, BYTES(name_is_no_text, 9)), OTLP_MALFORMED);
}

/* Empty data points would take 40 times their size and more in a decoder's memory. */
static void test_bomb(void **state)
{
    (void)state;
    struct buf body _cleanup_buf_ = BUF_INIT(0);
    struct wire_nest resource, scope, metric, gauge;
    wire_begin(&body, 1, 4 << 20, &resource);
    wire_begin(&body, 2, 4 << 20, &scope);
    wire_begin(&body, 2, 4 << 20, &metric);
    wire_begin(&body, 5, 4 << 20, &gauge);
    for (unsigned i = 0; i < 500000; i++)
        wire_put_bytes(&body, 1, BYTES(NULL, 0));
    wire_end(&body, &gauge);
    wire_end(&body, &metric);
    wire_end(&body, &scope);
    wire_end(&body, &resource);
    assert_int_equal(otlp_items_check(SIGNAL_METRICS, buf_bytes(&body)), OTLP_TOO_BIG);
}

struct bodies {
    enum signal signal;
    size_t max_bytes;
    unsigned n;
    uint64_t items;
    struct buf entries;
    struct buf whole; /* of the last one */
};

static int emit(void *context, struct bytes body, uint64_t n_items)
{
    struct bodies *bodies = context;
    assert_in_range(body.len, 1, bodies->max_bytes);
    assert_int_equal(otlp_items_check(bodies->signal, body), OTLP_OK);
    assert_int_equal(otlp_items_count(bodies->signal, body), n_items);
    bodies->n++;
    bodies->items += n_items;
    buf_clear(&bodies->whole);
    buf_append_bytes(&bodies->whole, body);
    items_entries(body, &bodies->entries);
    return 0;
}

static int split(struct bodies *bodies, enum signal signal, struct bytes request, size_t max_bytes)
{
    *bodies = (struct bodies){.signal = signal, .max_bytes = max_bytes};
    return otlp_items_split(signal, request, &(struct otlp_split){emit, bodies, max_bytes, NULL});
}

static void bodies_close(struct bodies *bodies)
{
    buf_close(&bodies->entries);
    buf_close(&bodies->whole);
}

static void test_whole(void **state)
{
    (void)state;
    for (size_t s = 0; s < 2; s++) {
        struct bodies bodies;
        struct buf body _cleanup_buf_ = BUF_INIT(0);
        items_request(&body, signals[s], 7, 100);
        assert_int_equal(split(&bodies, signals[s], buf_bytes(&body), body.len), OTLP_OK);
        assert_int_equal(bodies.n, 1);
        assert_int_equal(bodies.items, items_expected(signals[s], 7));
        assert_true(bytes_equal(buf_bytes(&bodies.whole), buf_bytes(&body)));
        bodies_close(&bodies);
    }
}

/* Every metric and log record is in one body, as it was and in its order. */
static void test_split(void **state)
{
    (void)state;
    for (size_t s = 0; s < 2; s++) {
        struct bodies bodies;
        struct buf body _cleanup_buf_ = BUF_INIT(0), entries _cleanup_buf_ = BUF_INIT(0);
        items_request(&body, signals[s], 50, 300);
        items_entries(buf_bytes(&body), &entries);
        assert_int_equal(split(&bodies, signals[s], buf_bytes(&body), 2500), OTLP_OK);
        assert_in_range(bodies.n, 7, 25);
        assert_int_equal(bodies.items, items_expected(signals[s], 50));
        assert_true(bytes_equal(buf_bytes(&bodies.entries), buf_bytes(&entries)));
        bodies_close(&bodies);
    }
}

static void test_too_big_alone(void **state)
{
    (void)state;
    for (size_t s = 0; s < 2; s++) {
        struct bodies bodies;
        struct buf body _cleanup_buf_ = BUF_INIT(0);
        items_request(&body, signals[s], 3, 3000);
        assert_int_equal(split(&bodies, signals[s], buf_bytes(&body), 2500), OTLP_TOO_BIG);
        assert_int_equal(bodies.n, 0); /* nothing was emitted */
        bodies_close(&bodies);
    }
}

/* Slices of any size together are all entries, each once, as they were and in their order. */
static void test_slices(void **state)
{
    enum { N = 10 };
    (void)state;
    for (size_t s = 0; s < 2; s++)
        for (uint64_t size = 1; size <= N + 1; size++) {
            struct buf body _cleanup_buf_ = BUF_INIT(0), entries _cleanup_buf_ = BUF_INIT(0);
            struct buf all _cleanup_buf_ = BUF_INIT(0);
            uint64_t items = 0, total = 0;
            items_request(&body, signals[s], N / 2, 100);
            items_request(&body, signals[s], N / 2, 3); /* another Resource */
            for (uint64_t at = 0; at < N; at += size) {
                struct buf part _cleanup_buf_ = BUF_INIT(0);
                const struct otlp_slice slice = {at, size};
                assert_int_equal(otlp_items_slice(buf_bytes(&body), &slice, &part, &total),
                                 OTLP_OK);
                assert_int_equal(total, N);
                assert_int_equal(otlp_items_check(signals[s], buf_bytes(&part)), OTLP_OK);
                assert_true(size >= N ? bytes_equal(buf_bytes(&part), buf_bytes(&body))
                                      : part.len < body.len);
                items += otlp_items_count(signals[s], buf_bytes(&part));
                items_entries(buf_bytes(&part), &entries);
            }
            items_entries(buf_bytes(&body), &all);
            assert_true(bytes_equal(buf_bytes(&entries), buf_bytes(&all)));
            assert_int_equal(items, 2 * items_expected(signals[s], N / 2));
        }
}

/* One of two halves has only the Resource that it is of; what lies around all is in both. */
static void test_slice_levels(void **state)
{
    static const struct otlp_slice second = {1, 1}, beyond = {2, UINT64_MAX}, all = {0, UINT64_MAX};
    static const uint8_t request[] = {
        0x0a, 6, 0x12, 4, 0x12, 2, 0x08, 1, /* Resource, scope, entry */
        0x0a, 0,                            /* an empty one */
        0x0a, 6, 0x12, 4, 0x12, 2, 0x08, 2, /* and another */
        0x12, 1, 'd',                       /* a dictionary */
    };
    struct buf part _cleanup_buf_ = BUF_INIT(0);
    uint64_t total;
    (void)state;
    assert_int_equal(otlp_items_slice(BYTES(request, sizeof(request)), &second, &part, &total), 0);
    assert_true(bytes_equal(buf_bytes(&part), BYTES(request + 10, 11)));
    buf_clear(&part);
    assert_int_equal(otlp_items_slice(BYTES(request, sizeof(request)), &beyond, &part, &total), 0);
    assert_true(bytes_equal(buf_bytes(&part), BYTES(request + 18, 3)));
    assert_int_equal(total, 2);
    assert_int_equal(otlp_items_slice(BYTES_LIT("\x0a\x05spa"), &all, &part, &total),
                     OTLP_MALFORMED);
    assert_int_equal(part.len, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),        cmocka_unit_test(test_counts_as_decoded),
        cmocka_unit_test(test_malformed),     cmocka_unit_test(test_bomb),
        cmocka_unit_test(test_whole),         cmocka_unit_test(test_split),
        cmocka_unit_test(test_too_big_alone), cmocka_unit_test(test_slices),
        cmocka_unit_test(test_slice_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
