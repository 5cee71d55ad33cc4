/* SPDX-License-Identifier: Apache-2.0 */
#include "test_otlp_profiles.h"
#include "proto/wire.h"
#include "test/unit/proto/proto_alloc_fault.h"

#include <errno.h>
#include <stdio.h>

static void test_without_samples_there_is_no_request(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    (void)state;
    resource_of(profiles, "idle");
    stack_of(profiles, "f", 1);
    assert_int_equal(otlp_profiles_samples(profiles), 0);
    assert_int_equal(otlp_profiles_finish(profiles, 0, 1, "1", &out), 0);
    assert_int_equal(out.len, 0);
    otlp_profiles_close(profiles);
    otlp_profiles_close(NULL);
}

static void test_a_cpu_sample_in_full(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    struct plan plan = {"shop", "do_work", PROFILE_CPU, 1500, 9, 10309278, true, "worker"};
    struct arena arena;
    (void)state;
    assert_int_equal(add(profiles, &plan), 0);
    const Request *request = finish(profiles, &out, &arena);
    const Dictionary *dictionary = request->dictionary;
    assert_int_equal(request->n_resource_profiles, 1);
    assert_string_equal(service_of(request, 0), "shop");
    const OF(ScopeProfiles) *scope = request->resource_profiles[0]->scope_profiles[0];
    assert_string_equal(scope->scope->name, "spanprof");
    assert_string_equal(scope->scope->version, "1.2.3");
    assert_int_equal(scope->n_profiles, 1);
    const Profile *profile = scope->profiles[0];
    assert_type(request, profile->sample_type, "samples", "count");
    assert_type(request, profile->period_type, "cpu", "nanoseconds");
    assert_int_equal(profile->period, 10309278);
    assert_int_equal(profile->time_unix_nano, 1000);
    assert_int_equal(profile->duration_nano, 1000);
    assert_int_equal(profile->profile_id.len, 16);
    assert_int_equal(profile->n_samples, 1);
    const Sample *sample = profile->samples[0];
    assert_int_equal(sample->n_values, 0);
    assert_int_equal(sample->n_timestamps_unix_nano, 1);
    assert_int_equal(sample->timestamps_unix_nano[0], 1500);
    assert_int_equal(sample->n_attribute_indices, 2);
    assert_memory_equal(dictionary->link_table[sample->link_index]->trace_id.data, trace_id, 16);
    assert_memory_equal(dictionary->link_table[sample->link_index]->span_id.data, span_id, 8);
    assert_int_equal(dictionary->link_table[0]->trace_id.len, 0);
    const OF(Stack) *stack = dictionary->stack_table[sample->stack_index];
    assert_int_equal(stack->n_location_indices, 2);
    const OF(Location) *leaf = dictionary->location_table[stack->location_indices[0]];
    const OF(Location) *caller = dictionary->location_table[stack->location_indices[1]];
    assert_int_equal(leaf->mapping_index, 0);
    assert_int_equal(leaf->n_lines, 1);
    assert_int_equal(leaf->lines[0]->line, 12);
    const OF(Function) *function = dictionary->function_table[leaf->lines[0]->function_index];
    assert_string_equal(string_of(request, function->name_strindex), "do_work");
    assert_string_equal(string_of(request, function->filename_strindex), "vmlinux");
    const OF(KeyValueAndUnit) *type = dictionary->attribute_table[leaf->attribute_indices[0]];
    assert_string_equal(string_of(request, type->key_strindex), "profile.frame.type");
    assert_string_equal(type->value->string_value, "kernel");
    assert_int_equal(caller->n_lines, 0);
    assert_int_equal(caller->address, 0x2000);
    const OF(Mapping) *mapping = dictionary->mapping_table[caller->mapping_index];
    assert_true(mapping->memory_start == 0x1000 && mapping->memory_limit == 0x9000);
    assert_string_equal(string_of(request, mapping->filename_strindex), "/usr/bin/shop");
    assert_int_equal(mapping->n_attribute_indices, 3);
    const OF(KeyValueAndUnit) *htl = dictionary->attribute_table[mapping->attribute_indices[0]];
    assert_string_equal(string_of(request, htl->key_strindex),
                        "process.executable.build_id.htlhash");
    assert_string_equal(htl->value->string_value, "ab0000000000000000000000000000cd");
    const OF(KeyValueAndUnit) *gnu = dictionary->attribute_table[mapping->attribute_indices[1]];
    assert_string_equal(gnu->value->string_value, "0102ff");
    arena_close(&arena);
    otlp_profiles_close(profiles);
}

static void test_profiles_are_told_apart(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    const struct plan plans[] = {
        {"shop", "f", PROFILE_CPU, 1100, 0, 10, false, NULL},
        {"stock", "f", PROFILE_CPU, 1101, 0, 10, false, NULL},
        {"shop", "f", PROFILE_OFF_CPU, 1102, 77, 10, false, NULL},
        {"shop", "f", PROFILE_CPU, 1103, 0, 20, false, NULL},
        {"shop", "f", PROFILE_EVENTS, 1104, 3, 0, false, NULL},
        {"shop", "f", PROFILE_OFF_CPU, 1105, 78, 0, false, NULL}, /* has no period: as above */
        {"shop", "f", PROFILE_CPU, 1106, 0, 10, false, NULL},
    };
    struct arena arena;
    (void)state;
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++)
        assert_int_equal(add(profiles, &plans[i]), 0);
    assert_int_equal(otlp_profiles_samples(profiles), 7);
    const Request *request = finish(profiles, &out, &arena);
    assert_int_equal(request->n_resource_profiles, 2);
    assert_string_equal(service_of(request, 0), "shop");
    assert_string_equal(service_of(request, 1), "stock");
    const OF(ScopeProfiles) *scope = request->resource_profiles[0]->scope_profiles[0];
    assert_int_equal(request->resource_profiles[0]->n_scope_profiles, 1);
    assert_int_equal(scope->n_profiles, 4);
    assert_int_equal(scope->profiles[0]->samples[0]->n_timestamps_unix_nano, 2);
    const Profile *off_cpu = scope->profiles[1];
    assert_type(request, off_cpu->sample_type, "off_cpu", "nanoseconds");
    assert_null(off_cpu->period_type);
    assert_int_equal(off_cpu->samples[0]->n_values, 2);
    assert_int_equal(off_cpu->samples[0]->values[1], 78);
    assert_int_equal(off_cpu->samples[0]->timestamps_unix_nano[1], 1105);
    assert_int_equal(scope->profiles[2]->period, 20);
    assert_type(request, scope->profiles[3]->sample_type, "events", "count");
    assert_true(memcmp(scope->profiles[0]->profile_id.data, off_cpu->profile_id.data, 16) != 0);
    arena_close(&arena);
    otlp_profiles_close(profiles);
}

static void test_samples_of_one_identity_merge(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    struct arena arena;
    (void)state;
    int32_t a = otlp_profiles_attribute_int(profiles, "a", 1);
    int32_t b = otlp_profiles_attribute_int(profiles, "b", 1);
    int32_t other_b = otlp_profiles_attribute_int(profiles, "b", 2);
    const int32_t lists[][4] = {{a, b, 0, 0}, {b, a, 0, 0}, {a, b, other_b, a}, {a, other_b, b, 0}};
    struct otlp_sample sample = {.resource = resource_of(profiles, "shop"),
                                 .stack = stack_of(profiles, "f", 1),
                                 .n_attributes = 4,
                                 .time_unix_ns = 1500};
    for (size_t i = 0; i < 4; i++) {
        sample.attributes = lists[i];
        assert_int_equal(otlp_profiles_add(profiles, &sample), 0);
    }
    const Request *request = finish(profiles, &out, &arena);
    const Profile *profile = request->resource_profiles[0]->scope_profiles[0]->profiles[0];
    assert_int_equal(profile->n_samples, 2);
    assert_int_equal(profile->samples[0]->n_timestamps_unix_nano, 3);
    assert_int_equal(profile->samples[0]->n_attribute_indices, 2);
    assert_int_equal(profile->samples[1]->n_attribute_indices, 2);
    arena_close(&arena);
    otlp_profiles_close(profiles);
}

/* Interned ahead and then not used: for a span that did not come, for a sample that did not fit. */
static void test_what_no_sample_uses_is_left_out(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    struct plan plan = {"shop", "used", PROFILE_CPU, 1500, 0, 10, false, NULL};
    struct arena arena;
    (void)state;
    resource_of(profiles, "unused");
    stack_of(profiles, "unused", 0x7777);
    otlp_profiles_link(profiles, trace_id, span_id);
    otlp_profiles_attribute_string(profiles, "unused.key", BYTES_LIT("unused value"));
    assert_int_equal(add(profiles, &plan), 0);
    const Request *request = finish(profiles, &out, &arena);
    assert_int_equal(request->n_resource_profiles, 1);
    assert_int_equal(request->dictionary->n_link_table, 1);
    assert_int_equal(request->dictionary->n_stack_table, 2);
    assert_int_equal(request->dictionary->n_function_table, 2);
    assert_int_equal(request->dictionary->n_location_table, 3);
    assert_null(memmem(out.data, out.len, "unused", 6));
    assert_null(memmem(out.data, out.len, "events", 6));
    arena_close(&arena);
    otlp_profiles_close(profiles);
}

static void test_zero_things_are_entry_zero(void **state)
{
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    const struct otlp_mapping mapping = {.memory_start = 5, .memory_limit = 5};
    const struct otlp_line line = {.file = BYTES_LIT("without a function")};
    const struct otlp_location location = {.lines = &line, .n_lines = 1};
    static const uint8_t zero[16];
    _cleanup_buf_ struct buf keyless = BUF_INIT(0);
    (void)state;
    otlp_attribute_int(&keyless, 1, "", 5);
    assert_int_equal(otlp_profiles_mapping(profiles, &mapping), 0);
    assert_int_equal(otlp_profiles_location(profiles, &location), 0);
    assert_int_equal(otlp_profiles_stack(profiles, NULL, 0), 0);
    assert_int_equal(otlp_profiles_link(profiles, zero, zero), 0);
    assert_int_equal(otlp_profiles_attribute(profiles, BYTES(keyless.data + 2, keyless.len - 2)),
                     0);
    otlp_profiles_close(profiles);
}

static void test_inlined_functions_are_lines(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct arena arena;
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    struct otlp_line lines[] = {
        {.function = BYTES_LIT("inner"), .file = BYTES_LIT("inner.h"), .line = 3},
        {.file = BYTES_LIT("of no function")},
        {.function = BYTES_LIT("outer"), .system_name = BYTES_LIT("_Z5outerv"), .line = -1},
    };
    struct otlp_location location = {
        .frame_type = BYTES_LIT("native"), .lines = lines, .n_lines = 3};
    struct otlp_sample sample = {.type = PROFILE_CPU, .time_unix_ns = 1500, .period_ns = 1000};
    (void)state;
    int32_t index = otlp_profiles_location(profiles, &location);
    assert_int_equal(otlp_profiles_location(profiles, &location), index);
    lines[2].line = 4;
    assert_int_not_equal(otlp_profiles_location(profiles, &location), index);
    sample.stack = otlp_profiles_stack(profiles, &index, 1);
    sample.resource = otlp_profiles_resource(profiles, BYTES(NULL, 0));
    assert_int_equal(otlp_profiles_add(profiles, &sample), 0);
    const Request *request = finish(profiles, &out, &arena);
    assert_int_equal(request->dictionary->n_location_table, 2);
    const OF(Location) *found = request->dictionary->location_table[1];
    assert_int_equal(found->n_lines, 2);
    assert_int_equal(found->lines[0]->line, 3);
    assert_int_equal(found->lines[1]->line, 0);
    const OF(Function) *outer =
        request->dictionary->function_table[found->lines[1]->function_index];
    assert_string_equal(string_of(request, outer->name_strindex), "outer");
    assert_string_equal(string_of(request, outer->system_name_strindex), "_Z5outerv");
    arena_close(&arena);
    otlp_profiles_close(profiles);
}

static void test_the_window_holds_late_samples(void **state)
{
    const struct plan plans[] = {{"early", "f", PROFILE_CPU, 3, 0, 10, false, NULL},
                                 {"late", "f", PROFILE_CPU, 2000, 0, 10, false, NULL},
                                 {"inside", "f", PROFILE_CPU, 1999, 0, 10, false, NULL},
                                 {"both", "f", PROFILE_CPU, 9000, 0, 10, false, NULL},
                                 {"both", "f", PROFILE_CPU, 999, 0, 10, false, NULL}};
    const uint64_t windows[][2] = {{3, 1997}, {1000, 1001}, {1000, 1000}, {999, 8002}};
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    struct arena arena;
    (void)state;
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(add(profiles, &plans[i]), 0);
    const Request *request = finish(profiles, &out, &arena);
    assert_int_equal(request->n_resource_profiles, 4);
    for (size_t i = 0; i < 4; i++) {
        const Profile *profile = request->resource_profiles[i]->scope_profiles[0]->profiles[0];
        assert_int_equal(profile->time_unix_nano, windows[i][0]);
        assert_int_equal(profile->duration_nano, windows[i][1]);
    }
    arena_close(&arena);
    otlp_profiles_close(profiles);
}

/* ---- what strangers send ---- */

/* Indices into a string table that is not ours: a receiver would refuse the request for them. */
static void test_string_indices_of_strangers_are_taken_out(void **state)
{
    /* KeyValue{key "k", key_strindex 9, value: array [ "s", index 7, {"i": index 7} ]} */
    static const uint8_t attribute[] = {0x0a, 1, 'k',  0x18, 9,    0x12, 20,   0x2a, 18,
                                        0x0a, 3, 0x0a, 1,    's',  0x0a, 2,    0x40, 7,
                                        0x0a, 7, 0x32, 5,    0x0a, 3,    0x18, 7,    0x12};
    _cleanup_buf_ struct buf out = BUF_INIT(0), resource = BUF_INIT(0), pair = BUF_INIT(0);
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    struct arena arena;
    (void)state;
    buf_append(&pair, attribute, sizeof(attribute));
    buf_append(&pair, "\x00", 1); /* the innermost pair's value, empty */
    pair.data[6]++, pair.data[8]++, pair.data[19]++, pair.data[21]++, pair.data[23]++;
    wire_put_bytes(&resource, 1, buf_bytes(&pair));
    wire_put_varint(&resource, 2, 3);
    int32_t index = otlp_profiles_attribute(profiles, buf_bytes(&pair));
    assert_true(index > 0);
    struct otlp_sample sample = {.resource = otlp_profiles_resource(profiles, buf_bytes(&resource)),
                                 .attributes = &index,
                                 .n_attributes = 1,
                                 .time_unix_ns = 1500};
    assert_int_equal(otlp_profiles_add(profiles, &sample), 0);
    const Request *request = finish(profiles, &out, &arena);
    const Opentelemetry__Proto__Resource__V1__Resource *kept =
        request->resource_profiles[0]->resource;
    assert_int_equal(kept->dropped_attributes_count, 3);
    assert_int_equal(kept->attributes[0]->key_strindex, 0);
    const Opentelemetry__Proto__Common__V1__ArrayValue *arrays[] = {
        kept->attributes[0]->value->array_value,
        request->dictionary->attribute_table[1]->value->array_value};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(arrays[i]->n_values, 3);
        assert_string_equal(arrays[i]->values[0]->string_value, "s");
        assert_int_equal(arrays[i]->values[1]->value_case, 0);
        assert_int_equal(arrays[i]->values[2]->kvlist_value->values[0]->key_strindex, 0);
    }
    arena_close(&arena);
    otlp_profiles_close(profiles);
}

static void test_one_value_has_one_entry(void **state)
{
    /* k = 1: plain; with a padded varint; after another member; with an unknown field */
    static const struct {
        size_t len;
        uint8_t bytes[16];
    } same[] = {{7, {0x0a, 1, 'k', 0x12, 2, 0x18, 1}},
                {9, {0x0a, 1, 'k', 0x12, 4, 0x18, 0x81, 0x80, 0}},
                {9, {0x0a, 1, 'k', 0x12, 4, 0x10, 1, 0x18, 1}},
                {9, {0x12, 2, 0x18, 1, 0x0a, 1, 'k', 0x50, 1}}};
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    (void)state;
    int32_t plain = otlp_profiles_attribute_int(profiles, "k", 1);
    assert_true(plain > 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(otlp_profiles_attribute(profiles, BYTES(same[i].bytes, same[i].len)),
                         plain);
    otlp_profiles_close(profiles);
}

static void test_malformed_messages_are_refused(void **state)
{
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    (void)state;
    assert_int_equal(otlp_profiles_attribute(profiles, BYTES_LIT("\x0a\x05k")), -EINVAL);
    assert_int_equal(otlp_profiles_attribute(profiles, BYTES_LIT("\x0a\x01\xff")), -EINVAL);
    assert_int_equal(otlp_profiles_resource(profiles, BYTES_LIT("\x0a\x05k")), -EINVAL);
    otlp_profiles_close(profiles);
}

static void test_text_is_made_valid(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    struct plan plan = {"shop", "f\xff\xfe", PROFILE_CPU, 1500, 0, 10, false, "\xc3worker"};
    struct arena arena;
    (void)state;
    assert_int_equal(add(profiles, &plan), 0);
    finish(profiles, &out, &arena);
    assert_non_null(memmem(out.data, out.len, "f??", 3));
    assert_non_null(memmem(out.data, out.len, "?worker", 7));
    arena_close(&arena);
    otlp_profiles_close(profiles);
}

/* ---- limits ---- */

static void test_sizes_that_make_no_sense(void **state)
{
    struct otlp_profiles *profiles = NULL;
    (void)state;
    assert_int_equal(otlp_profiles_open(20, &profiles), -EMSGSIZE);
    assert_int_equal(otlp_profiles_open(60, &profiles), -EMSGSIZE);
    assert_int_equal(otlp_profiles_open(SIZE_MAX, &profiles), -EINVAL);
    assert_null(profiles);
}

static uint32_t pseudo_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

/* Fills requests up to many sizes with all kinds of samples: none is larger than it may be. */
static void test_requests_keep_to_their_size(void **state)
{
    uint32_t random = 1;
    (void)state;
    for (size_t max_bytes = 700; max_bytes < 60000; max_bytes = max_bytes * 5 / 4) {
        _cleanup_buf_ struct buf out = BUF_INIT(max_bytes);
        struct otlp_profiles *profiles = profiles_open(max_bytes);
        char function[64], service[32], thread[16];
        int result = 0;
        uint64_t added = 0;
        while (result == 0) {
            uint32_t dice = pseudo_random(&random);
            snprintf(function, sizeof(function), "function_%u", dice % 50);
            snprintf(service, sizeof(service), "service-%u", dice % 7);
            snprintf(thread, sizeof(thread), "t%u", dice % 11);
            struct plan plan = {service,
                                function,
                                (enum otlp_profile_type)(dice % 3),
                                1000 + dice % 1000,
                                (int64_t)dice << (dice % 40),
                                dice % 2 ? 10309278 : 1,
                                dice % 5 == 0,
                                dice % 4 ? thread : NULL};
            result = add(profiles, &plan);
            added += result == 0;
        }
        assert_int_equal(result, -EMSGSIZE);
        assert_int_equal(otlp_profiles_samples(profiles), added);
        assert_int_equal(otlp_profiles_finish(profiles, 1000, 2000, "1.2.3", &out), 0);
        assert_true(out.len <= max_bytes);
        assert_true(added == 0 || out.len > 0);
        assert_true(added < 50 || out.len > max_bytes / 2); /* the bound is not far too high */
        if (out.len > 0)
            assert_conforms(buf_bytes(&out));
        otlp_profiles_close(profiles);
    }
}

/* Many of everything: numbers of three bytes, and the table of slots grown many times. */
static void test_large_requests(void **state)
{
    enum { N = 20000 };
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct otlp_profiles *profiles = profiles_open(16 << 20);
    struct otlp_sample sample = {.resource = resource_of(profiles, "shop"), .period_ns = 10};
    char name[32];
    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        struct otlp_line line = {.function = BYTES_STR(name)};
        struct otlp_location location = {
            .frame_type = BYTES_LIT("jvm"), .lines = &line, .n_lines = 1};
        int32_t index = otlp_profiles_location(profiles, &location);
        assert_true(index > 0);
        sample.stack = otlp_profiles_stack(profiles, &index, 1);
        sample.time_unix_ns = 1000 + (uint64_t)i;
        assert_int_equal(otlp_profiles_add(profiles, &sample), 0);
    }
    assert_int_equal(otlp_profiles_finish(profiles, 1000, 2000, "1", &out), 0);
    assert_conforms(buf_bytes(&out));
    otlp_profiles_close(profiles);
}

static void test_finish_may_be_repeated_and_fail(void **state)
{
    _cleanup_buf_ struct buf first = BUF_INIT(0), second = BUF_INIT(0), full = BUF_INIT(50);
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    struct plan plan = {"shop", "f", PROFILE_CPU, 1500, 0, 10, true, "worker"};
    (void)state;
    assert_int_equal(add(profiles, &plan), 0);
    buf_append(&full, "before", 6);
    assert_int_equal(otlp_profiles_finish(profiles, 1000, 2000, "", &full), BUF_FULL);
    assert_int_equal(full.len, 6);
    assert_int_equal(otlp_profiles_finish(profiles, 1000, 2000, "", &first), 0);
    assert_int_equal(add(profiles, &plan), 0);
    assert_int_equal(otlp_profiles_finish(profiles, 1000, 2000, "", &second), 0);
    assert_int_equal(second.len, first.len + 8); /* one more timestamp */
    assert_conforms(buf_bytes(&second));
    otlp_profiles_close(profiles);
}

static void test_no_memory_is_an_outcome(void **state)
{
    const struct plan plans[] = {{"shop", "f", PROFILE_CPU, 1500, 0, 10, true, "worker"},
                                 {"stock", "g\xff", PROFILE_OFF_CPU, 1600, 5, 0, false, "\xff"},
                                 {"shop", "f", PROFILE_CPU, 1501, 0, 10, true, "worker"}};
    bool done = false;
    (void)state;
    for (long n = 0; !done; n++) {
        _cleanup_buf_ struct buf out = BUF_INIT(0);
        struct otlp_profiles *profiles = NULL;
        uint64_t added = 0;
        assert_true(n < 2000);
        allocations_left = n;
        int result = otlp_profiles_open(1 << 20, &profiles);
        for (size_t i = 0; !result && i < 3; i++) {
            result = add(profiles, &plans[i]);
            added += result == 0;
        }
        if (!result)
            result = otlp_profiles_finish(profiles, 1000, 2000, "1", &out);
        done = allocations_left >= 0;
        allocations_left = -1;
        assert_true(result == 0 || result == -ENOMEM);
        assert_true(result < 0 || done || out.len > 0);
        if (profiles) { /* it goes on from there */
            assert_int_equal(otlp_profiles_samples(profiles), added);
            for (size_t i = 0; i < 3; i++)
                assert_int_equal(add(profiles, &plans[i]), 0);
            buf_clear(&out);
            assert_int_equal(otlp_profiles_finish(profiles, 1000, 2000, "1", &out), 0);
            assert_conforms(buf_bytes(&out));
            assert_int_equal(otlp_profiles_samples(profiles), added + 3);
        }
        otlp_profiles_close(profiles);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_samples_there_is_no_request),
        cmocka_unit_test(test_a_cpu_sample_in_full),
        cmocka_unit_test(test_profiles_are_told_apart),
        cmocka_unit_test(test_samples_of_one_identity_merge),
        cmocka_unit_test(test_what_no_sample_uses_is_left_out),
        cmocka_unit_test(test_zero_things_are_entry_zero),
        cmocka_unit_test(test_inlined_functions_are_lines),
        cmocka_unit_test(test_the_window_holds_late_samples),
        cmocka_unit_test(test_string_indices_of_strangers_are_taken_out),
        cmocka_unit_test(test_one_value_has_one_entry),
        cmocka_unit_test(test_malformed_messages_are_refused),
        cmocka_unit_test(test_text_is_made_valid),
        cmocka_unit_test(test_sizes_that_make_no_sense),
        cmocka_unit_test(test_requests_keep_to_their_size),
        cmocka_unit_test(test_large_requests),
        cmocka_unit_test(test_finish_may_be_repeated_and_fail),
        cmocka_unit_test(test_no_memory_is_an_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
