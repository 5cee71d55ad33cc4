/* SPDX-License-Identifier: Apache-2.0 */
/* Spans that samples of others name, and what is written on these samples. */
#include "proto/otlp/otlp_profiles_links.h"
#include "profiles_service.pb-c.h"
#include "proto/otlp/otlp_items.h"
#include "test/support/fixtures/otlp_profiles_check.h"
#include "proto/wire.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest
    Request;
typedef Opentelemetry__Proto__Profiles__V1development__Sample Sample;
typedef Opentelemetry__Proto__Profiles__V1development__KeyValueAndUnit Attribute;

enum { NESTED_MAX = 1 << 20 };
enum { THREAD = 1, TRACE_TEXT, SPAN_TEXT, ROUTE, JOINED }; /* attributes of the requests here */

#define TRACE_HEX "0a000000000000000000000000000001"
#define SPAN_HEX  "0b00000000000002"

struct plan {
    unsigned link; /* 1 and 2: spans; 0: none */
    unsigned attributes[3];
};

static void put_ids(struct buf *out, unsigned span)
{
    struct wire_nest nest;
    uint8_t trace_id[16] = {10, [15] = 1}, span_id[8] = {11, [7] = (uint8_t)span};
    wire_begin(out, 4, NESTED_MAX, &nest);
    wire_put_bytes(out, 1, BYTES(trace_id, 16));
    wire_put_bytes(out, 2, BYTES(span_id, 8));
    wire_end(out, &nest);
}

static void put_attribute(struct buf *out, unsigned key, const char *text)
{
    struct wire_nest nest, value;
    wire_begin(out, 6, NESTED_MAX, &nest);
    wire_put_varint(out, 1, key);
    wire_begin(out, 2, NESTED_MAX, &value);
    wire_put_bytes(out, 1, BYTES_STR(text));
    wire_end(out, &value);
    wire_end(out, &nest);
}

static void put_dictionary(struct buf *out, size_t n_strings)
{
    static const char *const strings[] = {
        "",        "samples",    "count",     "thread.name",  "trace_id",
        "span_id", "http.route", "span.name", "service.name", "shop"};
    struct wire_nest nest;
    wire_begin(out, 2, NESTED_MAX, &nest);
    for (uint32_t table = 1; table <= 7; table++)
        if (table != 5)
            wire_put_bytes(out, table, BYTES(NULL, 0));
    for (size_t i = 0; i < n_strings; i++)
        wire_put_bytes(out, 5, BYTES_STR(strings[i]));
    put_ids(out, 1);
    put_ids(out, 2);
    put_attribute(out, 3, "worker");
    put_attribute(out, 4, TRACE_HEX);
    put_attribute(out, 5, SPAN_HEX);
    put_attribute(out, 6, "/own");
    put_attribute(out, 7, "GET /before");
    wire_end(out, &nest);
}

static void put_sample(struct buf *out, const struct plan *plan, unsigned time)
{
    struct wire_nest nest;
    wire_begin(out, 2, NESTED_MAX, &nest);
    wire_put_bytes(out, 100, BYTES_LIT("unknown to us"));
    for (unsigned i = 0; i < 3 && plan->attributes[i]; i++)
        wire_put_varint(out, 2, plan->attributes[i]);
    if (plan->link)
        wire_put_varint(out, 3, plan->link);
    wire_put_fixed64(out, 5, 1000 + time);
    wire_end(out, &nest);
}

static void put_resource(struct buf *out)
{
    struct wire_nest resource, attribute, value;
    wire_begin(out, 1, NESTED_MAX, &resource);
    wire_begin(out, 1, NESTED_MAX, &attribute);
    wire_begin(out, 2, NESTED_MAX, &value);
    wire_put_varint(out, 8, 9);
    wire_end(out, &value);
    wire_put_varint(out, 3, 8);
    wire_end(out, &attribute);
    wire_end(out, &resource);
}

/* One Resource, by references or without attributes; one profile. */
static void make(struct buf *out, const struct plan *list, size_t n, bool described)
{
    struct wire_nest resources, scope, profile;
    put_dictionary(out, described ? 10 : 8);
    wire_begin(out, 1, NESTED_MAX, &resources);
    if (described)
        put_resource(out);
    wire_begin(out, 2, NESTED_MAX, &scope);
    wire_begin(out, 2, NESTED_MAX, &profile);
    wire_put_bytes(out, 1, BYTES_LIT("\x08\x01\x10\x02"));
    wire_put_fixed64(out, 3, 1000);
    wire_put_varint(out, 4, 1000);
    for (size_t i = 0; i < n; i++)
        put_sample(out, &list[i], (unsigned)i);
    wire_end(out, &profile);
    wire_end(out, &scope);
    wire_end(out, &resources);
    assert_int_equal(otlp_items_check(SIGNAL_PROFILES, buf_bytes(out)), OTLP_OK);
}

static bool ids_of(void *context, const struct profiles_text *texts, size_t n,
                   struct profiles_ids *ids)
{
    bool trace = false, span = false;
    (void)context;
    for (size_t i = 0; i < n; i++) {
        trace |=
            bytes_is(texts[i].key, "trace_id") && bytes_from_hex(texts[i].value, ids->trace_id, 16);
        span |=
            bytes_is(texts[i].key, "span_id") && bytes_from_hex(texts[i].value, ids->span_id, 8);
    }
    return trace && span;
}

static const struct plan plans[] = {
    {1, {THREAD}},     {0, {THREAD}},
    {2, {ROUTE}},      {0, {TRACE_TEXT, SPAN_TEXT}}, /* of the same span as the one before */
    {0, {TRACE_TEXT}},                               /* half of it */
    {1, {JOINED}},     {7, {0}},                     /* leads nowhere */
};
enum { N = sizeof(plans) / sizeof(*plans) };

static void test_read(void **state)
{
    static const uint32_t expected[N] = {1, 0, 2, 2, 0, 0, 0};
    struct buf request _cleanup_buf_ = BUF_INIT(0);
    struct profiles_links links;
    struct bytes service, name;
    (void)state;
    make(&request, plans, N, true);
    assert_int_equal(profiles_links_read(buf_bytes(&request), ids_of, NULL, &links), 0);
    assert_int_equal(links.n_samples, N);
    assert_memory_equal(links.contexts_of, expected, sizeof(expected));
    assert_int_equal(links.n_contexts, 2);
    assert_int_equal(links.contexts[0].ids.span_id[7], 1);
    assert_int_equal(links.contexts[1].ids.span_id[7], 2);
    assert_int_equal(links.contexts[1].ids.trace_id[15], 1);
    assert_int_equal(links.n_resources, 1);
    assert_true(otlp_resource_attribute(links.resources[0], "service.name", &service));
    assert_true(otlp_key_value_string(service, &name));
    assert_true(bytes_is(name, "shop"));
    profiles_links_close(&links);
}

static void annotate(struct bytes request, const struct profiles_span *const *spans, size_t n,
                     struct buf *out)
{
    struct profiles_links links;
    assert_int_equal(profiles_links_read(request, ids_of, NULL, &links), 0);
    assert_int_equal(links.n_contexts, n);
    const struct profiles_annotation annotation = {links.n_samples, links.contexts_of, n, spans};
    assert_int_equal(profiles_annotate(request, &annotation, out), 0);
    profiles_links_close(&links);
    assert_int_equal(otlp_items_check(SIGNAL_PROFILES, buf_bytes(out)), OTLP_OK);
}

static Request *decode(const struct buf *body)
{
    Request *request =
        opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__unpack(
            NULL, body->len, body->data);
    assert_non_null(request);
    return request;
}

static void release(Request *request)
{
    opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__free_unpacked(
        request, NULL);
}

static const Sample *sample_at(const Request *request, size_t i)
{
    return request->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[i];
}

/* "key=value key=value ..." */
static void assert_attributes(const Request *request, size_t i, const char *expected)
{
    struct buf text _cleanup_buf_ = BUF_INIT(0);
    const Sample *sample = sample_at(request, i);
    for (size_t k = 0; k < sample->n_attribute_indices; k++) {
        assert_in_range(sample->attribute_indices[k], 1,
                        request->dictionary->n_attribute_table - 1);
        const Attribute *attribute =
            request->dictionary->attribute_table[sample->attribute_indices[k]];
        assert_in_range(attribute->key_strindex, 1, request->dictionary->n_string_table - 1);
        buf_printf(&text, "%s%s=%s", k ? " " : "",
                   request->dictionary->string_table[attribute->key_strindex],
                   attribute->value->string_value);
    }
    assert_int_equal(buf_append(&text, "", 1), 0);
    assert_string_equal((char *)text.data, expected);
}

static void test_annotated(void **state)
{
    struct buf request _cleanup_buf_ = BUF_INIT(0), out _cleanup_buf_ = BUF_INIT(0);
    struct buf framed _cleanup_buf_ = BUF_INIT(0);
    char why[128];
    (void)state;
    make(&request, plans, N, true);
    otlp_attribute_string(&framed, 9, "http.route", BYTES_LIT("/cart"));
    otlp_attribute_string(&framed, 9, "user", BYTES_LIT("eve"));
    const struct profiles_span first = {
        .name = BYTES_LIT("GET /cart"), .kind = SPAN_SERVER, .attributes = buf_bytes(&framed)};
    struct profiles_span second = first;
    second.ids = (struct profiles_ids){{10, [15] = 1}, {11, [7] = 2}};
    const struct profiles_span *const spans[] = {&first, &second};
    annotate(buf_bytes(&request), spans, 2, &out);

    Request *decoded = decode(&out);
    assert_attributes(decoded, 0,
                      "thread.name=worker span.name=GET /cart span.kind=server http.route=/cart "
                      "user=eve");
    assert_attributes(decoded, 1, "thread.name=worker");
    assert_attributes(decoded, 2, "http.route=/own span.name=GET /cart span.kind=server user=eve");
    assert_attributes(decoded, 3,
                      "trace_id=" TRACE_HEX " span_id=" SPAN_HEX " span.name=GET /cart "
                      "span.kind=server http.route=/cart user=eve");
    assert_attributes(decoded, 4, "trace_id=" TRACE_HEX);
    assert_attributes(decoded, 5, "span.name=GET /before");
    assert_int_equal(sample_at(decoded, 0)->link_index, 1);
    assert_int_equal(sample_at(decoded, 3)->link_index, 2); /* it had none */
    assert_int_equal(decoded->dictionary->n_link_table, 3);
    assert_int_equal(decoded->dictionary->n_attribute_table, 6 + 4); /* once for both spans */
    assert_int_equal(decoded->dictionary->n_string_table, 10 + 2);
    assert_int_equal(decoded->dictionary->base.n_unknown_fields, 0);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(sample_at(decoded, i)->base.n_unknown_fields, 1);
    release(decoded);

    /* But for what is wrong in it on purpose it conforms. */
    assert_int_equal(otlp_profiles_check(buf_bytes(&out), 1 << 20, why, sizeof(why)),
                     PROFILES_BREAK_RULE);
    assert_string_equal(why, "index 7 is outside of link_table");
}

static void test_one_known(void **state)
{
    struct buf request _cleanup_buf_ = BUF_INIT(0), out _cleanup_buf_ = BUF_INIT(0);
    const struct profiles_span span = {.name = BYTES_LIT("")};
    const struct profiles_span *const spans[] = {NULL, &span};
    char why[128];
    (void)state;
    make(&request, plans, N - 1, false);
    annotate(buf_bytes(&request), spans, 2, &out);
    Request *decoded = decode(&out);
    assert_attributes(decoded, 0, "thread.name=worker");
    assert_attributes(decoded, 2, "http.route=/own span.name=");
    release(decoded);
    if (otlp_profiles_check(buf_bytes(&out), 1 << 20, why, sizeof(why)) != PROFILES_CONFORM)
        fail_msg("%s", why);

    /* what is joined once is not joined again */
    struct profiles_links links;
    assert_int_equal(profiles_links_read(buf_bytes(&out), ids_of, NULL, &links), 0);
    assert_int_equal(links.n_contexts, 1);
    profiles_links_close(&links);
}

/* A dictionary without zero elements breaks the rules, but nothing more is broken. */
static void test_tables_without_zero(void **state)
{
    const uint32_t contexts_of[] = {1};
    struct buf out _cleanup_buf_ = BUF_INIT(0);
    const struct profiles_span span = {.ids = {{1}, {1}}, .name = BYTES_LIT("GET /")};
    const struct profiles_span *const spans[] = {&span};
    const struct profiles_annotation annotation = {1, contexts_of, 1, spans};
    (void)state;
    struct buf made _cleanup_buf_ = BUF_INIT(0);
    struct wire_nest resources, scope, profile;
    wire_begin(&made, 1, NESTED_MAX, &resources);
    wire_begin(&made, 2, NESTED_MAX, &scope);
    wire_begin(&made, 2, NESTED_MAX, &profile);
    wire_put_bytes(&made, 2, BYTES_LIT("\x08\x01"));
    wire_end(&made, &profile);
    wire_end(&made, &scope);
    wire_end(&made, &resources);
    assert_int_equal(profiles_annotate(buf_bytes(&made), &annotation, &out), 0);
    Request *decoded = decode(&out);
    assert_attributes(decoded, 0, "span.name=GET /");
    assert_int_equal(sample_at(decoded, 0)->link_index, 1);
    assert_int_equal(sample_at(decoded, 0)->stack_index, 1);
    release(decoded);
}

static void test_malformed(void **state)
{
    struct buf request _cleanup_buf_ = BUF_INIT(0);
    struct profiles_links links;
    (void)state;
    make(&request, plans, N, true);
    assert_int_equal(
        profiles_links_read(BYTES(request.data, request.len - 1), ids_of, NULL, &links),
        PROFILES_LINKS_MALFORMED);
    profiles_links_close(&links);
    assert_int_equal(profiles_links_read(BYTES(NULL, 0), ids_of, NULL, &links), 0);
    assert_int_equal(links.n_samples, 0);
    profiles_links_close(&links);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),      cmocka_unit_test(test_annotated),
        cmocka_unit_test(test_one_known), cmocka_unit_test(test_tables_without_zero),
        cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
