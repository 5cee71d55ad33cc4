/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/debug/debug_state.h"

typedef Opentelemetry__Proto__Trace__V1__Span Span;
typedef Opentelemetry__Proto__Trace__V1__ScopeSpans ScopeSpans;
typedef Opentelemetry__Proto__Trace__V1__ResourceSpans ResourceSpans;
typedef Opentelemetry__Proto__Profiles__V1development__Profile Profile;
typedef Opentelemetry__Proto__Profiles__V1development__Sample Sample;
typedef Opentelemetry__Proto__Profiles__V1development__Stack Stack;
typedef Opentelemetry__Proto__Profiles__V1development__Location Location;
typedef Opentelemetry__Proto__Profiles__V1development__Link ProfileLink;
typedef Opentelemetry__Proto__Profiles__V1development__ScopeProfiles ScopeProfiles;
typedef Opentelemetry__Proto__Profiles__V1development__ResourceProfiles ResourceProfiles;

void debug_resource_line(struct debug_text *text, const char *what, size_t i,
                         const Resource *resource)
{
    debug_printf(text, "%s #%zu", what, i);
    if (resource)
        debug_key_values(text, resource->attributes, resource->n_attributes);
    debug_line_end(text);
}

void debug_scope_line(struct debug_text *text, const char *what, size_t i, const Scope *scope)
{
    debug_printf(text, "%s #%zu", what, i);
    if (scope) {
        debug_printf(text, " ");
        debug_string(text, scope->name);
        debug_printf(text, "@");
        debug_string(text, scope->version);
        debug_key_values(text, scope->attributes, scope->n_attributes);
    }
    debug_line_end(text);
}

static void span_line(struct debug_text *text, const Span *span)
{
    debug_string(text, span->name);
    debug_printf(text, " ");
    debug_hex(text, span->trace_id);
    debug_printf(text, " ");
    debug_hex(text, span->span_id);
    debug_key_values(text, span->attributes, span->n_attributes);
    debug_line_end(text);
}

void debug_normal_traces(struct debug_text *text, const TraceRequest *request)
{
    for (size_t r = 0; r < request->n_resource_spans; r++) {
        const ResourceSpans *resource = request->resource_spans[r];
        debug_resource_line(text, "ResourceSpans", r, resource->resource);
        for (size_t s = 0; s < resource->n_scope_spans; s++) {
            const ScopeSpans *scope = resource->scope_spans[s];
            debug_scope_line(text, "ScopeSpans", s, scope->scope);
            for (size_t i = 0; i < scope->n_spans; i++)
                span_line(text, scope->spans[i]);
        }
    }
}

#define TABLE_ENTRY(dictionary, table, index)                                                      \
    ((dictionary) && (index) >= 0 && (size_t)(index) < (dictionary)->n_##table                     \
         ? (dictionary)->table[index]                                                              \
         : NULL)

/* The function, else the address, else "?". */
static void debug_text_leaf(struct debug_text *text, const Sample *sample)
{
    const ProfilesDictionary *dictionary = text->dictionary;
    const Stack *stack = TABLE_ENTRY(dictionary, stack_table, sample->stack_index);
    if (!stack || !stack->n_location_indices)
        return debug_printf(text, "?");
    const Location *location = TABLE_ENTRY(dictionary, location_table, stack->location_indices[0]);
    if (!location)
        return debug_printf(text, "?");
    int32_t function = location->n_lines ? location->lines[0]->function_index : 0;
    if (function > 0 && (size_t)function < dictionary->n_function_table)
        return debug_strindex(text, dictionary->function_table[function]->name_strindex);
    debug_printf(text, "0x%llx", (unsigned long long)location->address);
}

static void sample_line(struct debug_text *text, const Sample *sample)
{
    const ProfileLink *link = TABLE_ENTRY(text->dictionary, link_table, sample->link_index);
    debug_text_leaf(text, sample);
    debug_printf(text, " timestamps=%zu", sample->n_timestamps_unix_nano);
    for (size_t i = 0; i < sample->n_values; i++)
        debug_printf(text, "%s%lld", i ? "," : " values=", (long long)sample->values[i]);
    if (link && sample->link_index) {
        debug_printf(text, " ");
        debug_hex(text, link->trace_id);
        debug_printf(text, " ");
        debug_hex(text, link->span_id);
    }
    for (size_t i = 0; i < sample->n_attribute_indices && !text->cut; i++) {
        debug_printf(text, " ");
        debug_attribute(text, sample->attribute_indices[i]);
    }
    debug_line_end(text);
}

static void profile_lines(struct debug_text *text, size_t i, const Profile *profile)
{
    debug_printf(text, "Profile #%zu ", i);
    debug_hex(text, profile->profile_id);
    debug_printf(text, " samples=%zu", profile->n_samples);
    if (profile->sample_type) {
        debug_printf(text, " ");
        debug_strindex(text, profile->sample_type->type_strindex);
        debug_printf(text, "/");
        debug_strindex(text, profile->sample_type->unit_strindex);
    }
    debug_line_end(text);
    for (size_t s = 0; s < profile->n_samples; s++)
        sample_line(text, profile->samples[s]);
}

void debug_normal_profiles(struct debug_text *text, const ProfilesRequest *request)
{
    for (size_t r = 0; r < request->n_resource_profiles; r++) {
        const ResourceProfiles *resource = request->resource_profiles[r];
        debug_resource_line(text, "ResourceProfiles", r, resource->resource);
        for (size_t s = 0; s < resource->n_scope_profiles; s++) {
            const ScopeProfiles *scope = resource->scope_profiles[s];
            debug_scope_line(text, "ScopeProfiles", s, scope->scope);
            for (size_t i = 0; i < scope->n_profiles; i++)
                profile_lines(text, i, scope->profiles[i]);
        }
    }
}
