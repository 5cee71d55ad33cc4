/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/otlp_parts.h"
#include "test_otlp_spans.h"
#include "test/unit/proto/proto_alloc_fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 1000 };

/* ---- what comes of them ---- */

struct outcome {
    unsigned n_parts;
    size_t bytes;     /* of all parts */
    size_t most;      /* of one part */
    struct buf spans; /* raw, of all parts */
    struct buf seen;  /* names with their service */
};

static int see(void *context, const struct otlp_span *span, struct buf *added)
{
    struct buf *seen = context;
    struct bytes service, text = {NULL, 0};
    (void)added;
    if (otlp_resource_attribute(span->resource, "service.name", &service))
        otlp_key_value_string(service, &text);
    return buf_printf(seen, "%.*s %.*s\n", (int)text.len, (const char *)text.data,
                      (int)span->name.len, (const char *)span->name.data);
}

static int emit(void *context, struct bytes body, uint64_t n_spans)
{
    (void)context;
    (void)body;
    (void)n_spans;
    return 0;
}

static void look(struct bytes request, struct buf *seen)
{
    struct otlp_rewrite rewrite = {see, emit, seen, 1 << 30, NULL};
    assert_int_equal(otlp_spans_rewrite(request, &rewrite), OTLP_OK);
}

static void split(struct bytes request, size_t part_bytes, struct outcome *outcome)
{
    _cleanup_buf_ struct buf part = BUF_INIT(0);
    struct otlp_parts parts;
    *outcome = (struct outcome){0};
    assert_int_equal(otlp_parts_open(&parts, request), OTLP_OK);
    while (otlp_parts_left(&parts)) {
        assert_true(outcome->n_parts++ < PARTS_MAX);
        assert_int_equal(otlp_parts_next(&parts, part_bytes, &part), OTLP_OK);
        assert_int_equal(otlp_spans_check(buf_bytes(&part)), OTLP_OK);
        outcome->bytes += part.len;
        outcome->most = part.len > outcome->most ? part.len : outcome->most;
        collect_spans(buf_bytes(&part), span_path, &outcome->spans);
        look(buf_bytes(&part), &outcome->seen);
    }
    otlp_parts_close(&parts);
    otlp_parts_close(&parts);
}

static void outcome_close(struct outcome *outcome)
{
    buf_close(&outcome->spans);
    buf_close(&outcome->seen);
}

/* ---- tests ---- */

static void test_spans_keep_their_order_and_resource(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0), spans = BUF_INIT(0), seen = BUF_INIT(0);
    (void)state;
    make_request(&request, 25);
    collect_spans(buf_bytes(&request), span_path, &spans);
    look(buf_bytes(&request), &seen);
    for (size_t part_bytes = 1; part_bytes < request.len + 200; part_bytes += 97) {
        struct outcome outcome;
        split(buf_bytes(&request), part_bytes, &outcome);
        assert_true(bytes_equal(buf_bytes(&spans), buf_bytes(&outcome.spans)));
        assert_true(bytes_equal(buf_bytes(&seen), buf_bytes(&outcome.seen)));
        assert_true(part_bytes < 1000 || outcome.most < part_bytes + 600);
        assert_true(outcome.n_parts >= request.len / (part_bytes + 1000));
        outcome_close(&outcome);
    }
}

static void test_what_lies_around_is_repeated(void **state)
{
    static const char *const around[] = {"request extra", "scope extra", "a.scope",
                                         "https://scope.schema", "service.name"};
    _cleanup_buf_ struct buf request = BUF_INIT(0), part = BUF_INIT(0);
    struct otlp_parts parts;
    unsigned n = 0;
    (void)state;
    make_request(&request, 25);
    assert_int_equal(otlp_parts_open(&parts, buf_bytes(&request)), OTLP_OK);
    for (; otlp_parts_left(&parts); n++) {
        assert_int_equal(otlp_parts_next(&parts, 1000, &part), OTLP_OK);
        for (size_t i = 0; i < sizeof(around) / sizeof(*around); i++)
            assert_non_null(memmem(part.data, part.len, around[i], strlen(around[i])));
    }
    assert_in_range(n, 10, 40);
    otlp_parts_close(&parts);
}

/* What is repeated never swells a request to more than twice its size. */
static void test_a_large_resource(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0), resource = BUF_INIT(0), spans = BUF_INIT(0);
    static uint8_t filler[40000];
    struct outcome outcome;
    (void)state;
    memset(filler, 'x', sizeof(filler));
    otlp_attribute_string(&resource, 1, "large", BYTES(filler, sizeof(filler)));
    put(&spans, 1, buf_bytes(&resource));
    put_scope(&spans, 0, 2000);
    put(&request, 1, buf_bytes(&spans));
    split(buf_bytes(&request), 1000, &outcome);
    assert_true(outcome.n_parts > 2);
    assert_in_range(outcome.bytes, request.len, 2 * request.len + 1000);
    outcome_close(&outcome);
}

static void test_a_large_span_does_not_grow_the_others(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0), span = BUF_INIT(0), scope = BUF_INIT(0),
                             spans = BUF_INIT(0);
    static uint8_t filler[40000];
    struct outcome outcome;
    (void)state;
    put(&span, UNKNOWN, BYTES(filler, sizeof(filler)));
    for (unsigned i = 0; i < 300; i++)
        put_span(&scope, i);
    put(&scope, 2, buf_bytes(&span));
    for (unsigned i = 0; i < 300; i++)
        put_span(&scope, i);
    put(&spans, 2, buf_bytes(&scope));
    put(&request, 1, buf_bytes(&spans));
    split(buf_bytes(&request), 2000, &outcome);
    assert_true(outcome.n_parts > 20);
    assert_in_range(outcome.most, sizeof(filler), sizeof(filler) + 2500);
    outcome_close(&outcome);
}

static void test_without_spans(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0), bare = BUF_INIT(0), spans = BUF_INIT(0);
    struct outcome outcome;
    (void)state;
    split(buf_bytes(&request), 1000, &outcome);
    assert_int_equal(outcome.n_parts, 0);
    put_service(&bare, "idle");
    put(&request, 1, buf_bytes(&bare));
    put_scope(&spans, 0, 0);
    put_scope(&spans, 0, 1);
    put_scope(&spans, 0, 0);
    put(&request, 1, buf_bytes(&spans));
    put(&request, 1, buf_bytes(&bare));
    split(buf_bytes(&request), 1, &outcome);
    assert_true(bytes_is(buf_bytes(&outcome.seen), " span 0\n"));
    outcome_close(&outcome);
}

static void test_any_cut(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0), part = BUF_INIT(0);
    (void)state;
    make_request(&request, 2);
    for (size_t len = 0; len < request.len; len++) {
        uint8_t *copy = malloc(len + 1); /* its own, so that a read past the end is seen */
        struct otlp_parts parts;
        assert_non_null(copy);
        memcpy(copy, request.data, len);
        int outcome = otlp_parts_open(&parts, BYTES(copy, len));
        for (int i = 0; !outcome && otlp_parts_left(&parts); i++) {
            assert_in_range(i, 0, PARTS_MAX);
            outcome = otlp_parts_next(&parts, 300, &part);
        }
        assert_true(outcome == OTLP_OK || outcome == OTLP_MALFORMED);
        assert_int_equal(outcome, otlp_spans_check(BYTES(copy, len)));
        otlp_parts_close(&parts);
        free(copy);
    }
}

static void test_no_memory(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    bool done = false;
    (void)state;
    make_request(&request, 25);
    for (long n = 0; !done && n < 1000; n++) {
        struct buf part = BUF_INIT(0);
        struct otlp_parts parts;
        allocations_left = n;
        int outcome = otlp_parts_open(&parts, buf_bytes(&request));
        while (!outcome && otlp_parts_left(&parts))
            outcome = otlp_parts_next(&parts, 2000, &part);
        done = allocations_left >= 0;
        allocations_left = -1;
        assert_int_equal(outcome, done ? 0 : -ENOMEM);
        otlp_parts_close(&parts);
        buf_close(&part);
    }
    assert_true(done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans_keep_their_order_and_resource),
        cmocka_unit_test(test_what_lies_around_is_repeated),
        cmocka_unit_test(test_a_large_resource),
        cmocka_unit_test(test_a_large_span_does_not_grow_the_others),
        cmocka_unit_test(test_without_spans),
        cmocka_unit_test(test_any_cut),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
