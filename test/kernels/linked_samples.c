/* SPDX-License-Identifier: Apache-2.0 */
#include "test/kernels/linked_samples.h"

#include "base/arena.h"
#include "profiles_service.pb-c.h"
#include "proto/pb.h"
#include "test/kernels/kernel_workload.h"
#include "trace_service.pb-c.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_MAX ((size_t)64 << 20)
#define SHOWN_MAX   10

typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest
    ProfilesRequest;
typedef Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceRequest TraceRequest;
typedef Opentelemetry__Proto__Profiles__V1development__ProfilesDictionary Dictionary;
typedef Opentelemetry__Proto__Profiles__V1development__ScopeProfiles ScopeProfiles;
typedef Opentelemetry__Proto__Profiles__V1development__KeyValueAndUnit Attribute;
typedef Opentelemetry__Proto__Profiles__V1development__Location Location;
typedef Opentelemetry__Proto__Profiles__V1development__Profile Profile;
typedef Opentelemetry__Proto__Profiles__V1development__Sample Sample;
typedef Opentelemetry__Proto__Profiles__V1development__Stack Stack;
typedef Opentelemetry__Proto__Profiles__V1development__Link Link;
typedef Opentelemetry__Proto__Common__V1__AnyValue AnyValue;
typedef Opentelemetry__Proto__Trace__V1__ScopeSpans ScopeSpans;
typedef Opentelemetry__Proto__Trace__V1__Span Span;

static ProtobufCMessage *unpack(const ProtobufCMessageDescriptor *descriptor, struct bytes request,
                                struct arena *arena)
{
    ProtobufCMessage *message;
    arena_init(arena, REQUEST_MAX);
    if (pb_unpack(descriptor, request, arena, &message) != PB_OK)
        abort();
    return message;
}

static bool is_text(const AnyValue *value, const char *text)
{
    return value &&
           value->value_case == OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE &&
           !strcmp(value->string_value, text);
}

static bool has_attribute(const Dictionary *dictionary, const int32_t *indices, size_t n,
                          const char *key, const char *text)
{
    for (size_t i = 0; i < n; i++) {
        const Attribute *attribute = dictionary->attribute_table[indices[i]];
        if (!strcmp(dictionary->string_table[attribute->key_strindex], key))
            return is_text(attribute->value, text);
    }
    return false;
}

/* The function of the n-th frame; "" without a name, NULL behind the last. */
static const char *frame_name(const Dictionary *dictionary, const Stack *stack, size_t n)
{
    if (n >= stack->n_location_indices)
        return NULL;
    const Location *location = dictionary->location_table[stack->location_indices[n]];
    if (!location->n_lines)
        return "";
    int32_t function = location->lines[location->n_lines - 1]->function_index; /* not inlined */
    return dictionary->string_table[dictionary->function_table[function]->name_strindex];
}

static bool frame_is(const Dictionary *dictionary, const Stack *stack, size_t n, const char *name)
{
    const char *found = frame_name(dictionary, stack, n);
    return found && !strcmp(found, name);
}

static bool is_whole(const Dictionary *dictionary, const Stack *stack)
{
    size_t first = 0, end;
    while (first < stack->n_location_indices && !frame_is(dictionary, stack, first, "descend"))
        first++;
    for (end = first; frame_is(dictionary, stack, end, "descend");)
        end++;
    return end - first == KERNEL_WORKLOAD_DESCENTS && frame_is(dictionary, stack, end, "main");
}

static bool is_of_kernel(const Dictionary *dictionary, const Stack *stack)
{
    if (!stack->n_location_indices)
        return false;
    const Location *leaf = dictionary->location_table[stack->location_indices[0]];
    return has_attribute(dictionary, leaf->attribute_indices, leaf->n_attribute_indices,
                         "profile.frame.type", "kernel");
}

/* What is not as it should be can be looked at. */
static void show(const Dictionary *dictionary, const Stack *stack)
{
    const char *name;
    for (size_t i = 0; (name = frame_name(dictionary, stack, i)); i++)
        fprintf(stderr, "%s%s", i ? " < " : "not whole: ", *name ? name : "?");
    fprintf(stderr, "\n");
}

static void add_sample(struct linked_samples *samples, const Dictionary *dictionary,
                       const Sample *sample)
{
    const Link *link = dictionary->link_table[sample->link_index];
    const Stack *stack = dictionary->stack_table[sample->stack_index];
    if (!sample->link_index ||
        !bytes_equal(BYTES(link->trace_id.data, link->trace_id.len),
                     BYTES(samples->trace_id, 16)) ||
        !bytes_equal(BYTES(link->span_id.data, link->span_id.len), BYTES(samples->span_id, 8)))
        return;
    uint64_t count = sample->n_timestamps_unix_nano;
    bool kernel = is_of_kernel(dictionary, stack), whole = is_whole(dictionary, stack);
    if (!whole && samples->total - samples->whole < SHOWN_MAX)
        show(dictionary, stack);
    samples->total += count;
    samples->with_span +=
        has_attribute(dictionary, sample->attribute_indices, sample->n_attribute_indices,
                      "span.name", KERNEL_WORKLOAD_SPAN)
            ? count
            : 0;
    samples->burning += frame_is(dictionary, stack, 0, "burn_alpha") ? count : 0;
    samples->kernel += kernel ? count : 0;
    samples->whole += whole ? count : 0;
    samples->kernel_whole += kernel && whole ? count : 0;
}

static void add_scope(struct linked_samples *samples, const Dictionary *dictionary,
                      const ScopeProfiles *scope)
{
    for (size_t p = 0; p < scope->n_profiles; p++) {
        const Profile *profile = scope->profiles[p];
        for (size_t i = 0; i < profile->n_samples; i++)
            add_sample(samples, dictionary, profile->samples[i]);
    }
}

void linked_samples_add_profiles(struct linked_samples *samples, struct bytes bytes)
{
    struct arena arena;
    const ProfilesRequest *request = (const ProfilesRequest *)unpack(
        &opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__descriptor,
        bytes, &arena);
    for (size_t r = 0; r < request->n_resource_profiles; r++)
        for (size_t s = 0; s < request->resource_profiles[r]->n_scope_profiles; s++)
            add_scope(samples, request->dictionary,
                      request->resource_profiles[r]->scope_profiles[s]);
    arena_close(&arena);
}

static void add_spans(struct linked_samples *samples, const ScopeSpans *scope)
{
    for (size_t i = 0; i < scope->n_spans; i++) {
        const Span *span = scope->spans[i];
        if (!bytes_equal(BYTES(span->span_id.data, span->span_id.len), BYTES(samples->span_id, 8)))
            continue;
        for (size_t a = 0; a < span->n_attributes; a++)
            if (!strcmp(span->attributes[a]->key, "spanprof.samples"))
                samples->annotated = (uint64_t)span->attributes[a]->value->int_value;
    }
}

void linked_samples_add_traces(struct linked_samples *samples, struct bytes bytes)
{
    struct arena arena;
    const TraceRequest *request = (const TraceRequest *)unpack(
        &opentelemetry__proto__collector__trace__v1__export_trace_service_request__descriptor,
        bytes, &arena);
    for (size_t r = 0; r < request->n_resource_spans; r++)
        for (size_t s = 0; s < request->resource_spans[r]->n_scope_spans; s++)
            add_spans(samples, request->resource_spans[r]->scope_spans[s]);
    arena_close(&arena);
}
