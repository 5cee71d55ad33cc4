/* SPDX-License-Identifier: Apache-2.0 */
/* Which numbers the fields of samples have, and how former ones become today's. */
#include "proto/otlp/otlp_profiles_layout.h"
#include "profiles_service.pb-c.h"
#include "proto/otlp/otlp_items.h"
#include "proto/otlp/otlp_json.h"
#include "proto/otlp/otlp_schema.h"
#include "proto/wire.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { NESTED_MAX = 1 << 20, ATTRIBUTES = 4, CAPTURED_MAX = 1 << 20 };

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

static enum profiles_layout layout_of(const struct sample *samples, size_t n,
                                      const struct numbers *numbers, bool says_version_1)
{
    struct buf request _cleanup_buf_ = BUF_INIT(0);
    enum profiles_layout result = PROFILES_LAYOUTS;
    make(&request, samples, n, numbers);
    assert_int_equal(profiles_layout_of(buf_bytes(&request), says_version_1, &result), OTLP_OK);
    return result;
}

static void test_told_apart(void **state)
{
    static const struct sample telling[] = {
        {.n_values = 1, .n_attributes = 2, .link = 3, .value = 5},
        {.n_values = 2, .n_attributes = 1, .n_times = 2, .value = 1},
        {.n_times = 4, .n_attributes = 3},
        {.n_times = 1, .link = 1},
        {.n_values = 1, .value = 100},
        {.n_values = 2, .n_times = 2, .value = 100}, /* as indices they would lead nowhere */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(telling) / sizeof(*telling); i++) {
        if (layout_of(&telling[i], 1, &today, false) != PROFILES_TODAY ||
            layout_of(&telling[i], 1, &former, false) != PROFILES_1_9)
            fail_msg("sample %zu", i);
    }
    assert_int_equal(layout_of(telling, 6, &today, false), PROFILES_TODAY);
    assert_int_equal(layout_of(telling, 6, &former, false), PROFILES_1_9);
    assert_int_equal(layout_of(NULL, 0, &today, false), PROFILES_TODAY);
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
    assert_int_equal(layout_of(samples, 3, &former, false), PROFILES_1_9);
    assert_int_equal(layout_of(samples, 3, &today, false), PROFILES_TODAY);
}

/* A value for each timestamp and nothing else, or an attribute for each timestamp. */
static void test_values_or_attributes(void **state)
{
    static const struct sample valued[] = {
        {.n_values = 1, .n_times = 1, .value = 1},
        {.n_values = 1, .n_times = 1, .value = 2},
        {.n_values = 2, .n_times = 2, .value = 1}, /* no attribute is twice in a list */
    };
    static const struct sample attributed[] = {
        {.n_attributes = 1, .n_times = 1},
        {.n_attributes = 2, .n_times = 2},
        {.n_attributes = 2, .n_times = 3}, /* a value for two of three timestamps */
    };
    (void)state;
    assert_int_equal(layout_of(valued, 2, &former, false), PROFILES_UNCLEAR);
    assert_int_equal(layout_of(valued, 3, &former, false), PROFILES_1_9);
    assert_int_equal(layout_of(attributed, 2, &today, false), PROFILES_UNCLEAR);
    assert_int_equal(layout_of(attributed, 2, &today, true), PROFILES_TODAY);
    assert_int_equal(layout_of(attributed, 3, &today, false), PROFILES_TODAY);
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
    assert_int_equal(profiles_layout_renumber(request.data, request.len, PROFILES_1_9), OTLP_OK);
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
    enum profiles_layout result;
    (void)state;
    make(&request, &sample, 1, &former);
    for (size_t len = 0; len < request.len; len++) { /* ends anywhere: no harm */
        profiles_layout_of(BYTES(request.data, len), false, &result);
        uint8_t *copy = malloc(len + 1);
        assert_non_null(copy);
        memcpy(copy, request.data, len);
        profiles_layout_renumber(copy, len, PROFILES_1_8);
        free(copy);
    }
    assert_int_equal(profiles_layout_of(BYTES(request.data, request.len - 1), false, &result),
                     OTLP_MALFORMED);
    assert_int_equal(profiles_layout_renumber(long_tag, sizeof(long_tag), PROFILES_1_9),
                     OTLP_MALFORMED);
}

/* ---- as published packages write them ---- */

static struct buf captured(const char *name)
{
    char path[512];
    struct buf body = BUF_INIT(0);
    snprintf(path, sizeof(path), "%s/test/captured/former/%s.pb", SPANPROF_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(buf_reserve(&body, CAPTURED_MAX), 0);
    body.len = fread(body.data, 1, CAPTURED_MAX, file);
    fclose(file);
    assert_true(body.len > 0 && body.len < CAPTURED_MAX);
    return body;
}

static void expect_captured(const char *name, enum profiles_layout expected, bool says_version_1)
{
    _cleanup_buf_ struct buf body = captured(name);
    enum profiles_layout layout;
    assert_int_equal(profiles_layout_of(buf_bytes(&body), says_version_1, &layout), OTLP_OK);
    if (layout != expected)
        fail_msg("%s: layout %d", name, layout);
}

/* Converted, it is what the same program writes today, field by field: only their order may differ.
 */
static void expect_converted(const char *former_name, enum profiles_layout layout,
                             const char *today_name)
{
    _cleanup_buf_ struct buf body = captured(former_name), expected = captured(today_name);
    expect_captured(former_name, layout, false);
    assert_int_equal(profiles_layout_renumber(body.data, body.len, layout), OTLP_OK);
    assert_int_equal(otlp_items_check(SIGNAL_PROFILES, buf_bytes(&body)), OTLP_OK);
    _cleanup_buf_ struct buf text = BUF_INIT(1 << 20), expected_text = BUF_INIT(1 << 20);
    const ProtobufCMessageDescriptor *request = otlp_schema_request(SIGNAL_PROFILES);
    assert_int_equal(otlp_json_write(request, buf_bytes(&body), &text), 0);
    assert_int_equal(otlp_json_write(request, buf_bytes(&expected), &expected_text), 0);
    if (!bytes_equal(buf_bytes(&text), buf_bytes(&expected_text)))
        fail_msg("%s:\n%.*s\n%.*s", former_name, (int)text.len, (char *)text.data,
                 (int)expected_text.len, (char *)expected_text.data);
}

static void test_captured(void **state)
{
    static const char *const names[] = {"attributes", "aggregated", "valued", "ones", "whole"};
    char former_name[32], today_name[32];
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        snprintf(today_name, sizeof(today_name), "today_%s", names[i]);
        snprintf(former_name, sizeof(former_name), "1.8_%s", names[i]);
        expect_captured(today_name, PROFILES_TODAY, false);
        expect_converted(former_name, PROFILES_1_8, today_name);
        former_name[2] = '9';
        expect_converted(former_name, PROFILES_1_9, today_name);
    }
    expect_converted("1.8_one", PROFILES_1_8, "today_one");
    expect_captured("1.9_one", PROFILES_UNCLEAR, false);
    expect_captured("today_one", PROFILES_TODAY, false);
    expect_captured("1.8_comments", PROFILES_1_8_COMMENTS, false);
    expect_captured("1.7_python", PROFILES_1_7, false);
    expect_captured("1.9_python", PROFILES_1_9, false);
    expect_captured("../ebpf_profiler", PROFILES_TODAY, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told_apart),
        cmocka_unit_test(test_one_tells),
        cmocka_unit_test(test_values_or_attributes),
        cmocka_unit_test(test_renumbered),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_captured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
