/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Requests of otlp_profiles.h in its tests: samples of two frames from a plan, and the finished
 * request as its decoder sees it, after it conforms to the check. Asserts with cmocka. Thread: one.
 */
#include "profiles_service.pb-c.h"
#include "proto/otlp/otlp_profiles.h"
#include "test/support/fixtures/otlp_profiles_check.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/pb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define OF(name) Opentelemetry__Proto__Profiles__V1development__##name
typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest
    Request;
typedef OF(Profile) Profile;
typedef OF(Sample) Sample;
typedef OF(ProfilesDictionary) Dictionary;

static const uint8_t trace_id[16] = {1, [15] = 16};
static const uint8_t span_id[8] = {2, [7] = 8};
static const uint8_t htlhash[16] = {0xab, [15] = 0xcd};

/* ---- a builder with things in it ---- */

static inline struct otlp_profiles *profiles_open(size_t max_bytes)
{
    struct otlp_profiles *profiles;
    assert_int_equal(otlp_profiles_open(max_bytes, &profiles), 0);
    return profiles;
}

static inline int32_t resource_of(struct otlp_profiles *profiles, const char *service)
{
    struct buf resource = BUF_INIT(0);
    otlp_attribute_string(&resource, 1, "service.name", BYTES_STR(service));
    int32_t index = otlp_profiles_resource(profiles, buf_bytes(&resource));
    buf_close(&resource);
    return index;
}

/* A stack of two frames: `function` in a kernel, called by address in an executable. */
static inline int32_t stack_of(struct otlp_profiles *profiles, const char *function,
                               uint64_t address)
{
    struct otlp_mapping executable = {.memory_start = 0x1000,
                                      .memory_limit = 0x9000,
                                      .file_offset = 0x1000,
                                      .filename = BYTES_LIT("/usr/bin/shop"),
                                      .gnu_build_id = BYTES_LIT("\x01\x02\xff"),
                                      .go_build_id = BYTES_LIT("go/id"),
                                      .htlhash = htlhash};
    int32_t mapping = otlp_profiles_mapping(profiles, &executable);
    if (mapping < 0)
        return mapping;
    struct otlp_line line = {
        .function = BYTES_STR(function), .file = BYTES_LIT("vmlinux"), .line = 12};
    struct otlp_location leaf = {
        .frame_type = BYTES_LIT("kernel"), .address = 0xffff, .lines = &line, .n_lines = 1};
    struct otlp_location caller = {
        .frame_type = BYTES_LIT("native"), .mapping = mapping, .address = address};
    int32_t locations[2] = {otlp_profiles_location(profiles, &leaf), 0};
    if (locations[0] < 0)
        return locations[0];
    locations[1] = otlp_profiles_location(profiles, &caller);
    if (locations[1] < 0)
        return locations[1];
    return otlp_profiles_stack(profiles, locations, 2);
}

struct plan {
    const char *service;
    const char *function;
    enum otlp_profile_type type;
    uint64_t time_unix_ns;
    int64_t value;
    uint64_t period_ns;
    bool linked;
    const char *thread; /* NULL: no attributes */
};

static inline int add(struct otlp_profiles *profiles, const struct plan *plan)
{
    int32_t attributes[2];
    struct otlp_sample sample = {.type = plan->type,
                                 .attributes = attributes,
                                 .time_unix_ns = plan->time_unix_ns,
                                 .value = plan->value,
                                 .period_ns = plan->period_ns};
    sample.resource = resource_of(profiles, plan->service);
    if (sample.resource < 0)
        return sample.resource;
    sample.stack = stack_of(profiles, plan->function, 0x2000);
    if (sample.stack < 0)
        return sample.stack;
    if (plan->linked)
        sample.link = otlp_profiles_link(profiles, trace_id, span_id);
    if (sample.link < 0)
        return sample.link;
    if (plan->thread) {
        attributes[0] =
            otlp_profiles_attribute_string(profiles, "thread.name", BYTES_STR(plan->thread));
        attributes[1] = otlp_profiles_attribute_int(profiles, "thread.id", 4711);
        for (size_t i = 0; i < 2; i++)
            if (attributes[i] < 0)
                return attributes[i];
        sample.n_attributes = 2;
    }
    return otlp_profiles_add(profiles, &sample);
}

/* ---- what comes of it ---- */

static inline void assert_conforms(struct bytes request)
{
    char why[200];
    int outcome = otlp_profiles_check(request, 256 << 20, why, sizeof(why));
    assert_string_equal(why, "");
    assert_int_equal(outcome, PROFILES_CONFORM);
}

static inline const Request *finish(struct otlp_profiles *profiles, struct buf *out,
                                    struct arena *arena)
{
    ProtobufCMessage *message;
    assert_int_equal(otlp_profiles_finish(profiles, 1000, 2000, "1.2.3", out), 0);
    assert_conforms(buf_bytes(out));
    arena_init(arena, 64 << 20);
    assert_int_equal(
        pb_unpack(
            &opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__descriptor,
            buf_bytes(out), arena, &message),
        PB_OK);
    return (const Request *)(const void *)message;
}

static inline const char *string_of(const Request *request, int32_t index)
{
    assert_true(index >= 0 && (size_t)index < request->dictionary->n_string_table);
    return request->dictionary->string_table[index];
}

static inline const char *service_of(const Request *request, size_t resource)
{
    return request->resource_profiles[resource]->resource->attributes[0]->value->string_value;
}

static inline void assert_type(const Request *request, const OF(ValueType) * type, const char *name,
                               const char *unit)
{
    assert_string_equal(string_of(request, type->type_strindex), name);
    assert_string_equal(string_of(request, type->unit_strindex), unit);
}
