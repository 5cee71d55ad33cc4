/* SPDX-License-Identifier: Apache-2.0 */
/* Which numbers the fields of samples have, and how former ones become today's. */
#include "proto/otlp/otlp_profiles_layout.h"
#include "profiles_service.pb-c.h"
#include "proto/otlp/otlp_items.h"
#include "proto/wire.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { NESTED_MAX = 1 << 20, ATTRIBUTES = 4 };

struct numbers {
    uint32_t values, attributes, link;
};
static const struct numbers today = {4, 2, 3}, former = {2, 3, 4};

struct sample {
    unsigned n_values, n_attributes, n_times;
    unsigned link;  /* 0 = none */
    uint64_t value; /* of each */
};

static void put_list(struct buf *out, uint32_t number, unsigned n, uint64_t first, uint64_t step)
{
    struct wire_nest list;
    if (!n)
        return;
    wire_begin(out, number, NESTED_MAX, &list);
    for (unsigned i = 0; i < n; i++)
        wire_put_bare_varint(out, first + i * step);
    wire_end(out, &list);
}

static void put_sample(struct buf *out, const struct sample *sample, const struct numbers *numbers)
{
    struct wire_nest nest;
    wire_begin(out, 2, NESTED_MAX, &nest);
    wire_put_varint(out, 1, 0);
    put_list(out, numbers->values, sample->n_values, sample->value, 0);
    put_list(out, numbers->attributes, sample->n_attributes, 1, 1);
    if (sample->link)
        wire_put_varint(out, numbers->link, sample->link);
    for (unsigned i = 0; i < sample->n_times; i++)
        wire_put_fixed64(out, 5, 1000 + i);
    wire_put_varint(out, 100, 7); /* from a later version */
    wire_end(out, &nest);
}

static void make(struct buf *out, const struct sample *samples, size_t n,
                 const struct numbers *numbers)
{
    struct wire_nest resource, scope, profile, dictionary;
    wire_begin(out, 1, NESTED_MAX, &resource);
    wire_begin(out, 2, NESTED_MAX, &scope);
    wire_begin(out, 2, NESTED_MAX, &profile);
    for (size_t i = 0; i < n; i++)
        put_sample(out, &samples[i], numbers);
    wire_end(out, &profile);
    wire_end(out, &scope);
    wire_end(out, &resource);
    wire_begin(out, 2, NESTED_MAX, &dictionary);
    for (unsigned i = 0; i < ATTRIBUTES; i++)
        wire_put_bytes(out, 6, BYTES(NULL, 0));
    wire_end(out, &dictionary);
}

static bool is_former(const struct sample *samples, size_t n, const struct numbers *numbers)
{
    struct buf request _cleanup_buf_ = BUF_INIT(0);
    bool result = false;
    make(&request, samples, n, numbers);
    assert_int_equal(otlp_profiles_is_former(buf_bytes(&request), &result), OTLP_OK);
    return result;
}

static void test_told_apart(void **state)
{
    static const struct sample telling[] = {
        {.n_values = 1, .n_attributes = 2, .link = 3, .value = 5},
        {.n_values = 2, .n_attributes = 1, .n_times = 2, .value = 1},
        {.n_times = 3, .n_attributes = 3},
        {.n_times = 1, .link = 1},
        {.n_values = 1, .value = 100},
        {.n_values = 2, .n_times = 2, .value = 100}, /* as indices they would lead nowhere */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(telling) / sizeof(*telling); i++) {
        if (is_former(&telling[i], 1, &today) || !is_former(&telling[i], 1, &former))
            fail_msg("sample %zu", i);
    }
    assert_false(is_former(telling, 6, &today));
    assert_true(is_former(telling, 6, &former));
    assert_false(is_former(NULL, 0, &today));
}

/* One sample that tells speaks for the whole request: it has one sender. */
static void test_one_tells(void **state)
{
    static const struct sample samples[] = {
        {.n_values = 1, .n_times = 1, .value = 1}, /* could be an attribute's index */
        {.n_values = 1, .n_times = 1, .value = 2},
        {.n_values = 1, .n_attributes = 1, .n_times = 1, .value = 1},
    };
    (void)state;
    assert_true(is_former(samples, 3, &former));
    assert_false(is_former(samples, 3, &today));
    assert_false(is_former(samples, 2, &former)); /* nothing tells: today's */
}

static Opentelemetry__Proto__Profiles__V1development__Sample *
sample_of(Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest *r,
          size_t i)
{
    return r->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[i];
}

/* What an independent decoder sees afterwards, and that nothing else has changed. */
static void test_renumbered(void **state)
{
    static const struct sample samples[] = {
        {.n_values = 2, .n_attributes = 3, .link = 2, .n_times = 2, .value = 300},
        {.n_values = 1, .value = 9},
    };
    struct buf request _cleanup_buf_ = BUF_INIT(0), expected _cleanup_buf_ = BUF_INIT(0);
    (void)state;
    make(&request, samples, 2, &former);
    make(&expected, samples, 2, &today);
    assert_int_equal(otlp_items_check(SIGNAL_PROFILES, buf_bytes(&request)), OTLP_MALFORMED);
    assert_int_equal(otlp_profiles_renumber(request.data, request.len), OTLP_OK);
    assert_int_equal(otlp_items_check(SIGNAL_PROFILES, buf_bytes(&request)), OTLP_OK);
    assert_true(bytes_equal(buf_bytes(&request), buf_bytes(&expected)));
    Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest *decoded =
        opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__unpack(
            NULL, request.len, request.data);
    assert_non_null(decoded);
    assert_int_equal(sample_of(decoded, 0)->n_values, 2);
    assert_int_equal(sample_of(decoded, 0)->values[1], 300);
    assert_int_equal(sample_of(decoded, 0)->n_attribute_indices, 3);
    assert_int_equal(sample_of(decoded, 0)->attribute_indices[2], 3);
    assert_int_equal(sample_of(decoded, 0)->link_index, 2);
    assert_int_equal(sample_of(decoded, 1)->values[0], 9);
    opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__free_unpacked(
        decoded, NULL);
}

static void test_malformed(void **state)
{
    static const struct sample sample = {.n_values = 1, .n_attributes = 1, .link = 1};
    /* a Sample whose tag of field 2 is written in two bytes */
    uint8_t long_tag[] = {0x0a, 0x09, 0x12, 0x07, 0x12, 0x05, 0x12, 0x03, 0x90, 0x00, 0x01};
    struct buf request _cleanup_buf_ = BUF_INIT(0);
    bool result;
    (void)state;
    make(&request, &sample, 1, &former);
    for (size_t len = 0; len < request.len; len++) { /* ends anywhere: no harm */
        otlp_profiles_is_former(BYTES(request.data, len), &result);
        uint8_t *copy = malloc(len + 1);
        assert_non_null(copy);
        memcpy(copy, request.data, len);
        otlp_profiles_renumber(copy, len);
        free(copy);
    }
    assert_int_equal(otlp_profiles_is_former(BYTES(request.data, request.len - 1), &result),
                     OTLP_MALFORMED);
    assert_int_equal(otlp_profiles_renumber(long_tag, sizeof(long_tag)), OTLP_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told_apart),
        cmocka_unit_test(test_one_tells),
        cmocka_unit_test(test_renumbered),
        cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
