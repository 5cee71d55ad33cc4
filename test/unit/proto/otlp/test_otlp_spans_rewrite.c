/* SPDX-License-Identifier: Apache-2.0 */
#include "test_otlp_spans.h"
#include "proto/pb.h"
#include "trace_service.pb-c.h"
#include "test/unit/proto/proto_alloc_fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceRequest Request;
typedef Opentelemetry__Proto__Trace__V1__ResourceSpans ResourceSpans;
typedef Opentelemetry__Proto__Trace__V1__ScopeSpans ScopeSpans;

enum { MAX_BODIES = 400 };

/* ---- what comes of them ---- */

struct outcome {
    unsigned visited;
    unsigned every; /* that span gets attributes; 0: none */
    int visit_result;
    unsigned visit_fails_at;
    int emit_result;
    int room_result;
    uint64_t room_bytes; /* asked for, once, before the first body */
    uint64_t n_bytes;    /* of the bodies */
    size_t max_body_bytes;
    unsigned n_bodies;
    uint64_t n_spans;
    bool untouched; /* the body is the request itself */
    const uint8_t *request;
    struct buf bodies[MAX_BODIES];
    struct buf seen; /* names and services, as visited */
};

static void put_added(struct buf *out, unsigned number)
{
    otlp_attribute_int(out, 9, "cpu.ns", number);
    otlp_attribute_string(out, 9, "note", BYTES_LIT("x"));
}

static int visit(void *context, const struct otlp_span *span, struct buf *added)
{
    struct outcome *outcome = context;
    unsigned number = outcome->visited++;
    struct bytes service, name = {NULL, 0};
    if (outcome->visit_result && number == outcome->visit_fails_at)
        return outcome->visit_result;
    if (otlp_resource_attribute(span->resource, "service.name", &service))
        assert_true(otlp_key_value_string(service, &name));
    buf_printf(&outcome->seen, "%.*s@%.*s ", (int)span->name.len, (const char *)span->name.data,
               (int)name.len, name.len ? (const char *)name.data : "");
    if (outcome->every && number % outcome->every == 0)
        put_added(added, number);
    return 0;
}

static int emit(void *context, struct bytes body, uint64_t n_spans)
{
    struct outcome *outcome = context;
    assert_true(outcome->n_bodies < MAX_BODIES);
    assert_true(body.len <= outcome->max_body_bytes);
    outcome->untouched = body.data == outcome->request;
    outcome->n_spans += n_spans;
    outcome->n_bytes += body.len;
    assert_true(outcome->n_bytes <= outcome->room_bytes);
    assert_int_equal(otlp_spans_count(body), n_spans);
    assert_int_equal(buf_append_bytes(&outcome->bodies[outcome->n_bodies++], body), 0);
    return outcome->emit_result;
}

static int room(void *context, uint64_t bytes)
{
    struct outcome *outcome = context;
    assert_true(!outcome->room_bytes && !outcome->n_bodies);
    outcome->room_bytes = bytes;
    return outcome->room_result;
}

static int rewrite(struct bytes request, struct outcome *outcome)
{
    struct otlp_rewrite settings = {visit, emit, outcome, outcome->max_body_bytes, room};
    outcome->request = request.data;
    return otlp_spans_rewrite(request, &settings);
}

static void outcome_close(struct outcome *outcome)
{
    for (unsigned i = 0; i < outcome->n_bodies; i++)
        buf_close(&outcome->bodies[i]);
    buf_close(&outcome->seen);
}

static const Request *decode(struct bytes body, struct arena *arena)
{
    ProtobufCMessage *message;
    assert_int_equal(
        pb_unpack(
            &opentelemetry__proto__collector__trace__v1__export_trace_service_request__descriptor,
            body, arena, &message),
        PB_OK);
    return (const Request *)(const void *)message;
}

/* ---- rewriting ---- */

static void test_a_request_with_nothing_added_is_the_same(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    (void)state;
    make_request(&request, 3);
    struct outcome outcome = {.max_body_bytes = request.len};
    assert_int_equal(otlp_spans_check(buf_bytes(&request)), OTLP_OK);
    assert_int_equal(rewrite(buf_bytes(&request), &outcome), OTLP_OK);
    assert_int_equal(outcome.visited, 12);
    assert_int_equal(outcome.n_bodies, 1);
    assert_int_equal(outcome.n_spans, 12);
    assert_true(outcome.untouched);
    outcome_close(&outcome);
}

static void test_an_empty_request_is_emitted(void **state)
{
    struct outcome outcome = {.max_body_bytes = 100};
    (void)state;
    assert_int_equal(otlp_spans_check(BYTES(NULL, 0)), OTLP_OK);
    assert_int_equal(rewrite(BYTES(NULL, 0), &outcome), OTLP_OK);
    assert_int_equal(outcome.n_bodies, 1);
    assert_int_equal(outcome.n_spans, 0);
    outcome_close(&outcome);
}

static void test_visitors_see_spans_under_their_resource(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    (void)state;
    make_request(&request, 1);
    struct outcome outcome = {.max_body_bytes = request.len};
    assert_int_equal(rewrite(buf_bytes(&request), &outcome), OTLP_OK);
    assert_true(
        bytes_is(buf_bytes(&outcome.seen), "span 0@shop span 1@shop span 2@stock span 3@stock "));
    outcome_close(&outcome);
}

static void test_a_resource_in_parts_is_one(void **state)
{
    _cleanup_buf_ struct buf spans = BUF_INIT(0), extra = BUF_INIT(0), request = BUF_INIT(0);
    (void)state;
    otlp_attribute_int(&extra, 1, "process.pid", 7);
    put(&spans, 1, buf_bytes(&extra));
    put_scope(&spans, 0, 1);
    put_service(&spans, "late");
    put(&spans, 1, BYTES(NULL, 0));
    put(&request, 1, buf_bytes(&spans));
    struct outcome outcome = {.max_body_bytes = request.len};
    assert_int_equal(rewrite(buf_bytes(&request), &outcome), OTLP_OK);
    assert_true(bytes_is(buf_bytes(&outcome.seen), "span 0@late "));
    outcome_close(&outcome);
}

/* The one body that must come of a span with attributes added, byte for byte. */
static void test_additions_leave_the_rest_byte_for_byte(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0), wanted = BUF_INIT(0), spans = BUF_INIT(0),
                             scope = BUF_INIT(0), span = BUF_INIT(0), two = BUF_INIT(0);
    struct wire_field field;
    (void)state;
    put_span(&two, 0);
    put_span(&two, 1);
    put_text(&scope, 3, "https://scope.schema");
    buf_append_bytes(&scope, buf_bytes(&two));
    put_service(&spans, "shop");
    put(&spans, 2, buf_bytes(&scope));
    put(&request, 1, buf_bytes(&spans));

    struct wire_reader reader = wire_read(buf_bytes(&two));
    buf_clear(&scope);
    put_text(&scope, 3, "https://scope.schema");
    for (unsigned i = 0; wire_next(&reader, &field) == WIRE_FIELD; i++) {
        buf_clear(&span);
        buf_append_bytes(&span, field.bytes);
        put_added(&span, i);
        put(&scope, 2, buf_bytes(&span));
    }
    buf_clear(&spans);
    put_service(&spans, "shop");
    put(&spans, 2, buf_bytes(&scope));
    put(&wanted, 1, buf_bytes(&spans));

    struct outcome outcome = {.max_body_bytes = 1 << 20, .every = 1};
    assert_int_equal(rewrite(buf_bytes(&request), &outcome), OTLP_OK);
    assert_int_equal(outcome.n_bodies, 1);
    assert_true(bytes_equal(buf_bytes(&outcome.bodies[0]), buf_bytes(&wanted)));
    outcome_close(&outcome);
}

static void assert_envelopes(struct bytes body)
{
    struct arena arena;
    arena_init(&arena, 64 << 20);
    const Request *request = decode(body, &arena);
    assert_int_equal(request->base.n_unknown_fields, 1);
    for (size_t i = 0; i < request->n_resource_spans; i++) {
        const ResourceSpans *resource = request->resource_spans[i];
        bool first = *resource->schema_url;
        assert_int_equal(resource->resource->n_attributes, 1);
        assert_string_equal(resource->resource->attributes[0]->value->string_value,
                            first ? "shop" : "stock");
        assert_int_equal(resource->base.n_unknown_fields, first ? 0 : 1);
        assert_true(resource->n_scope_spans > 0);
        for (size_t j = 0; j < resource->n_scope_spans; j++) {
            const ScopeSpans *scope = resource->scope_spans[j];
            assert_string_equal(scope->scope->name, "a.scope");
            assert_string_equal(scope->schema_url, "https://scope.schema");
            assert_int_equal(scope->base.n_unknown_fields, 1);
            assert_true(scope->n_spans > 0);
        }
    }
    arena_close(&arena);
}

static void test_large_requests_are_split(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0), before = BUF_INIT(0);
    (void)state;
    make_request(&request, 25);
    collect_spans(buf_bytes(&request), span_path, &before);
    for (size_t limit = 600; limit < request.len + 200; limit += 97) {
        _cleanup_buf_ struct buf after = BUF_INIT(0);
        struct outcome outcome = {.max_body_bytes = limit};
        assert_int_equal(rewrite(buf_bytes(&request), &outcome), OTLP_OK);
        assert_int_equal(outcome.n_spans, 100);
        assert_true(outcome.n_bodies >= request.len / limit);
        for (unsigned i = 0; i < outcome.n_bodies; i++) {
            assert_int_equal(otlp_spans_check(buf_bytes(&outcome.bodies[i])), OTLP_OK);
            assert_envelopes(buf_bytes(&outcome.bodies[i]));
            collect_spans(buf_bytes(&outcome.bodies[i]), span_path, &after);
        }
        assert_true(bytes_equal(buf_bytes(&before), buf_bytes(&after)));
        outcome_close(&outcome);
    }
}

static void test_without_room_none_is_emitted(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    (void)state;
    make_request(&request, 25);
    for (unsigned every = 0; every < 2; every++) {
        struct outcome whole = {.max_body_bytes = 1 << 20, .every = every, .room_result = -ENOSPC};
        struct outcome parts = {.max_body_bytes = 2000, .every = every, .room_result = -ENOSPC};
        assert_int_equal(rewrite(buf_bytes(&request), &whole), -ENOSPC);
        assert_int_equal(rewrite(buf_bytes(&request), &parts), -ENOSPC);
        assert_int_equal(whole.n_bodies + parts.n_bodies, 0);
        assert_true(whole.room_bytes >= request.len && parts.room_bytes >= whole.room_bytes);
        outcome_close(&whole);
        outcome_close(&parts);
    }
}

static void test_splitting_keeps_additions_with_their_spans(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0), before = BUF_INIT(0), after = BUF_INIT(0);
    struct wire_field old, new;
    (void)state;
    make_request(&request, 25);
    collect_spans(buf_bytes(&request), span_path, &before);
    struct outcome outcome = {.max_body_bytes = 2000, .every = 3};
    assert_int_equal(rewrite(buf_bytes(&request), &outcome), OTLP_OK);
    assert_true(outcome.n_bodies > 5);
    for (unsigned i = 0; i < outcome.n_bodies; i++)
        collect_spans(buf_bytes(&outcome.bodies[i]), span_path, &after);
    struct wire_reader olds = wire_read(buf_bytes(&before)), news = wire_read(buf_bytes(&after));
    for (unsigned i = 0; i < 100; i++) {
        _cleanup_buf_ struct buf wanted = BUF_INIT(0);
        assert_int_equal(wire_next(&olds, &old), WIRE_FIELD);
        assert_int_equal(wire_next(&news, &new), WIRE_FIELD);
        buf_append_bytes(&wanted, old.bytes);
        if (i % 3 == 0)
            put_added(&wanted, i);
        assert_true(bytes_equal(buf_bytes(&wanted), new.bytes));
    }
    assert_int_equal(wire_next(&news, &new), WIRE_END);
    outcome_close(&outcome);
}

static void test_envelopes_without_spans_are_kept(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0), spans = BUF_INIT(0), bare = BUF_INIT(0);
    struct arena arena;
    (void)state;
    put_scope(&spans, 0, 0);
    put_scope(&spans, 0, 1);
    put_scope(&spans, 0, 0);
    put(&request, 1, buf_bytes(&spans));
    put_service(&bare, "idle");
    put(&request, 1, buf_bytes(&bare));
    struct outcome outcome = {.max_body_bytes = 1 << 20, .every = 1};
    assert_int_equal(rewrite(buf_bytes(&request), &outcome), OTLP_OK);
    assert_int_equal(outcome.n_bodies, 1);
    arena_init(&arena, 1 << 20);
    const Request *decoded = decode(buf_bytes(&outcome.bodies[0]), &arena);
    assert_int_equal(decoded->n_resource_spans, 2);
    assert_int_equal(decoded->resource_spans[0]->n_scope_spans, 3);
    assert_int_equal(decoded->resource_spans[0]->scope_spans[1]->n_spans, 1);
    assert_int_equal(decoded->resource_spans[0]->scope_spans[1]->spans[0]->n_attributes, 4);
    assert_non_null(decoded->resource_spans[1]->resource);
    arena_close(&arena);
    outcome_close(&outcome);
}

static void test_what_fits_no_body_is_too_big(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0), spans = BUF_INIT(0), scope = BUF_INIT(0),
                             span = BUF_INIT(0);
    static uint8_t filler[3000];
    (void)state;
    put_span(&scope, 0);
    put(&span, UNKNOWN, BYTES(filler, sizeof(filler)));
    put(&scope, 2, buf_bytes(&span)); /* the second, so that one would fit before it */
    put(&spans, 2, buf_bytes(&scope));
    put(&request, 1, buf_bytes(&spans));
    struct outcome outcome = {.max_body_bytes = 3000};
    assert_int_equal(rewrite(buf_bytes(&request), &outcome), OTLP_TOO_BIG);
    assert_int_equal(outcome.n_bodies, 0);
    outcome_close(&outcome);
    struct outcome roomier = {.max_body_bytes = 3100};
    assert_int_equal(rewrite(buf_bytes(&request), &roomier), OTLP_OK);
    assert_int_equal(roomier.n_bodies, 2);
    outcome_close(&roomier);
}

/* Else 30,000 small spans under a Resource of 4 MiB would become 120 GB. */
static void test_large_envelopes_are_not_repeated(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0), spans = BUF_INIT(0);
    static uint8_t filler[1200];
    (void)state;
    put(&spans, UNKNOWN, BYTES(filler, sizeof(filler)));
    put_scope(&spans, 0, 10);
    put(&request, 1, buf_bytes(&spans));
    struct outcome outcome = {.max_body_bytes = 2000};
    assert_int_equal(rewrite(buf_bytes(&request), &outcome), OTLP_TOO_BIG);
    assert_int_equal(outcome.n_bodies, 0);
    outcome_close(&outcome);
    struct outcome whole = {.max_body_bytes = 6000, .every = 1};
    assert_int_equal(rewrite(buf_bytes(&request), &whole), OTLP_OK);
    assert_int_equal(whole.n_bodies, 1);
    outcome_close(&whole);
}

static void test_results_of_callbacks_pass(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    (void)state;
    make_request(&request, 5);
    struct outcome visited = {
        .max_body_bytes = 1 << 20, .every = 1, .visit_result = -EIO, .visit_fails_at = 7};
    assert_int_equal(rewrite(buf_bytes(&request), &visited), -EIO);
    assert_int_equal(visited.visited, 8);
    assert_int_equal(visited.n_bodies, 0);
    outcome_close(&visited);
    struct outcome emitted = {.max_body_bytes = 1000, .emit_result = -ENOSPC};
    assert_int_equal(rewrite(buf_bytes(&request), &emitted), -ENOSPC);
    assert_int_equal(emitted.n_bodies, 1);
    outcome_close(&emitted);
    struct outcome untouched = {.max_body_bytes = 1 << 20, .emit_result = 77};
    assert_int_equal(rewrite(buf_bytes(&request), &untouched), 77);
    outcome_close(&untouched);
}

static void test_any_cut_is_malformed_or_a_request(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    unsigned malformed = 0;
    (void)state;
    make_request(&request, 2);
    for (size_t len = 0; len < request.len; len++) {
        uint8_t *copy = malloc(len + 1); /* its own, so that a read past the end is seen */
        assert_non_null(copy);
        memcpy(copy, request.data, len);
        struct outcome outcome = {.max_body_bytes = 1 << 20, .every = 1};
        int checked = otlp_spans_check(BYTES(copy, len));
        int rewritten = rewrite(BYTES(copy, len), &outcome);
        assert_int_equal(rewritten, checked);
        malformed += checked == OTLP_MALFORMED;
        outcome_close(&outcome);
        free(copy);
    }
    assert_int_equal(malformed, request.len - 3); /* whole: "", the first field, the first two */
}

static void test_no_memory_is_an_outcome(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0), extra = BUF_INIT(0), spans = BUF_INIT(0);
    bool done = false;
    (void)state;
    make_request(&request, 5);
    otlp_attribute_int(&extra, 1, "process.pid", 7);
    put(&spans, 1, buf_bytes(&extra));
    put(&spans, 1, buf_bytes(&extra));
    put_scope(&spans, 0, 1);
    put(&request, 1, buf_bytes(&spans));
    for (long n = 0; !done && n < 1000; n++) {
        struct outcome outcome = {.max_body_bytes = 1500, .every = 1};
        struct otlp_rewrite settings = {visit, emit, &outcome, 1500, room};
        assert_int_equal(buf_reserve(&outcome.seen, 4096), 0); /* the callbacks' own, in advance */
        for (unsigned i = 0; i < 20; i++)
            assert_int_equal(buf_reserve(&outcome.bodies[i], 1500), 0);
        allocations_left = n;
        int result = otlp_spans_rewrite(buf_bytes(&request), &settings);
        done = allocations_left >= 0;
        allocations_left = -1;
        assert_true(result == 0 || result == -ENOMEM);
        assert_true(!done || result == 0);
        outcome.n_bodies = MAX_BODIES;
        outcome_close(&outcome);
    }
    assert_true(done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_with_nothing_added_is_the_same),
        cmocka_unit_test(test_an_empty_request_is_emitted),
        cmocka_unit_test(test_visitors_see_spans_under_their_resource),
        cmocka_unit_test(test_a_resource_in_parts_is_one),
        cmocka_unit_test(test_additions_leave_the_rest_byte_for_byte),
        cmocka_unit_test(test_large_requests_are_split),
        cmocka_unit_test(test_without_room_none_is_emitted),
        cmocka_unit_test(test_splitting_keeps_additions_with_their_spans),
        cmocka_unit_test(test_envelopes_without_spans_are_kept),
        cmocka_unit_test(test_what_fits_no_body_is_too_big),
        cmocka_unit_test(test_large_envelopes_are_not_repeated),
        cmocka_unit_test(test_results_of_callbacks_pass),
        cmocka_unit_test(test_any_cut_is_malformed_or_a_request),
        cmocka_unit_test(test_no_memory_is_an_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
