/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/otlp_profiles_check.h"
#include "proto/pb.h"
#include "proto/wire.h"
#include "profiles_service.pb-c.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define OF(name) Opentelemetry__Proto__Profiles__V1development__##name
typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest
    Request;
typedef OF(ProfilesDictionary) Dictionary;
typedef OF(ResourceProfiles) ResourceProfiles;
typedef OF(ScopeProfiles) ScopeProfiles;
typedef OF(Profile) Profile;
typedef OF(Sample) Sample;
typedef OF(ValueType) ValueType;
typedef OF(Mapping) Mapping;
typedef OF(Location) Location;
typedef OF(Function) Function;
typedef OF(Link) Link;

enum table { MAPPINGS, LOCATIONS, FUNCTIONS, LINKS, STRINGS, ATTRIBUTES, STACKS, TABLES };

static const char *const table_names[TABLES] = {
    "mapping_table", "location_table",  "function_table", "link_table",
    "string_table",  "attribute_table", "stack_table"};

enum { REQUEST_DICTIONARY = 2, DICTIONARY_STRINGS = 5, DICTIONARY_ATTRIBUTES = 6 };

struct checker {
    struct bytes request;
    const Dictionary *dictionary;
    size_t counts[TABLES];
    uint8_t *used[TABLES]; /* referred to, by index */
    struct arena arena;
    char *why;
    size_t why_size;
};

__attribute__((format(printf, 2, 3))) static int fault(struct checker *checker, const char *format,
                                                       ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(checker->why, checker->why_size, format, arguments);
    va_end(arguments);
    return PROFILES_BREAK_RULE;
}

/* ---- references ---- */

static int checker_refer(struct checker *checker, enum table table, int32_t index)
{
    if (index < 0 || (size_t)index >= checker->counts[table])
        return fault(checker, "index %d is outside of %s", index, table_names[table]);
    checker->used[table][index] = 1;
    return 0;
}

static int refer_attributes(struct checker *checker, const int32_t *indices, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int outcome = checker_refer(checker, ATTRIBUTES, indices[i]);
        if (outcome)
            return outcome;
        int32_t key = checker->dictionary->attribute_table[indices[i]]->key_strindex;
        for (size_t j = 0; j < i; j++)
            if (checker->dictionary->attribute_table[indices[j]]->key_strindex == key)
                return fault(checker, "attribute_indices has key %d twice", key);
    }
    return 0;
}

static int refer_type(struct checker *checker, const ValueType *type)
{
    if (!type)
        return 0;
    int outcome = checker_refer(checker, STRINGS, type->type_strindex);
    return outcome ? outcome : checker_refer(checker, STRINGS, type->unit_strindex);
}

/* ---- duplicates ---- */

static int compare_bytes(const void *a, const void *b)
{
    const struct bytes *left = a, *right = b;
    size_t shorter = left->len < right->len ? left->len : right->len;
    int order = shorter ? memcmp(left->data, right->data, shorter) : 0;
    return order ? order : (left->len > right->len) - (left->len < right->len);
}

static bool has_duplicate(struct bytes *list, size_t n)
{
    qsort(list, n, sizeof(*list), compare_bytes);
    for (size_t i = 1; i < n; i++)
        if (compare_bytes(&list[i - 1], &list[i]) == 0)
            return true;
    return false;
}

/* An entry as bytes: decoded and encoded again, so that only the meaning counts. */
static int checker_flatten(struct checker *checker, const ProtobufCMessage *message,
                           struct bytes *bytes)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *data = arena_alloc(&checker->arena, size + 1);
    if (!data)
        return PROFILES_TOO_BIG;
    protobuf_c_message_pack(message, data);
    *bytes = BYTES(data, size);
    return 0;
}

/* The entries of a table as they came: protobuf-c would cut strings at a NUL, and see twins where
 * there are none. NULL: no memory. */
static struct bytes *list_raw(struct checker *checker, uint32_t field_number, size_t n)
{
    struct bytes *list = arena_alloc(&checker->arena, (n + 1) * sizeof(*list));
    struct wire_reader reader = wire_read(checker->request);
    struct wire_field part, field;
    size_t i = 0;
    while (list && wire_next(&reader, &part) == WIRE_FIELD) {
        if (part.number != REQUEST_DICTIONARY)
            continue;
        struct wire_reader dictionary = wire_read(part.bytes);
        while (wire_next(&dictionary, &field) == WIRE_FIELD)
            if (field.number == field_number)
                list[i++] = field.bytes;
    }
    assert(!list || i == n);
    return list;
}

/* NULL: no memory. */
static struct bytes *list_flat(struct checker *checker, ProtobufCMessage *const *entries, size_t n)
{
    struct bytes *list = arena_alloc(&checker->arena, (n + 1) * sizeof(*list));
    for (size_t i = 0; list && i < n; i++)
        if (checker_flatten(checker, entries[i], &list[i]))
            return NULL;
    return list;
}

static int check_table(struct checker *checker, enum table table, ProtobufCMessage *const *entries)
{
    size_t n = checker->counts[table];
    if (n == 0)
        return fault(checker, "%s is empty", table_names[table]);
    struct bytes *list = table == STRINGS      ? list_raw(checker, DICTIONARY_STRINGS, n)
                         : table == ATTRIBUTES ? list_raw(checker, DICTIONARY_ATTRIBUTES, n)
                                               : list_flat(checker, entries, n);
    if (!list)
        return PROFILES_TOO_BIG;
    if (list[0].len != 0)
        return fault(checker, "%s[0] is not the zero value", table_names[table]);
    return has_duplicate(list, n) ? fault(checker, "%s has an entry twice", table_names[table]) : 0;
}

static int check_orphans(struct checker *checker)
{
    for (size_t table = 0; table < TABLES; table++)
        for (size_t i = 1; i < checker->counts[table]; i++)
            if (!checker->used[table][i])
                return fault(checker, "nothing refers to %s[%zu]", table_names[table], i);
    return 0;
}

/* ---- entries of the dictionary ---- */

static int check_mapping(struct checker *checker, const Mapping *mapping)
{
    if ((mapping->memory_start || mapping->memory_limit) &&
        mapping->memory_start >= mapping->memory_limit)
        return fault(checker, "a mapping ends where it starts, or before");
    int outcome = checker_refer(checker, STRINGS, mapping->filename_strindex);
    return outcome ? outcome
                   : refer_attributes(checker, mapping->attribute_indices,
                                      mapping->n_attribute_indices);
}

static int check_location(struct checker *checker, const Location *location)
{
    int outcome = checker_refer(checker, MAPPINGS, location->mapping_index);
    for (size_t i = 0; !outcome && i < location->n_lines; i++) {
        if (location->lines[i]->line < 0 || location->lines[i]->column < 0)
            return fault(checker, "a negative line or column");
        outcome = checker_refer(checker, FUNCTIONS, location->lines[i]->function_index);
    }
    return outcome ? outcome
                   : refer_attributes(checker, location->attribute_indices,
                                      location->n_attribute_indices);
}

static int check_function(struct checker *checker, const Function *function, bool zero)
{
    if (function->start_line < 0)
        return fault(checker, "a negative start_line");
    if (!zero && !function->name_strindex && !function->system_name_strindex &&
        !function->filename_strindex)
        return fault(checker, "a function without any name");
    int outcome = checker_refer(checker, STRINGS, function->name_strindex);
    if (!outcome)
        outcome = checker_refer(checker, STRINGS, function->system_name_strindex);
    return outcome ? outcome : checker_refer(checker, STRINGS, function->filename_strindex);
}

static int check_attributes(struct checker *checker)
{
    int outcome = 0;
    for (size_t i = 0; !outcome && i < checker->counts[ATTRIBUTES]; i++) {
        outcome =
            checker_refer(checker, STRINGS, checker->dictionary->attribute_table[i]->key_strindex);
        if (!outcome)
            outcome = checker_refer(checker, STRINGS,
                                    checker->dictionary->attribute_table[i]->unit_strindex);
        if (!outcome && i > 0 && !checker->dictionary->attribute_table[i]->key_strindex)
            outcome = fault(checker, "attribute_table[%zu] has no key", i);
    }
    return outcome;
}

static int check_links(struct checker *checker)
{
    for (size_t i = 1; i < checker->counts[LINKS]; i++) {
        const Link *link = checker->dictionary->link_table[i];
        if (link->trace_id.len != 16 || link->span_id.len != 8)
            return fault(checker, "link_table[%zu] has ids of %zu and %zu bytes", i,
                         link->trace_id.len, link->span_id.len);
    }
    return 0;
}

static int check_entries(struct checker *checker)
{
    const Dictionary *dictionary = checker->dictionary;
    int outcome = check_attributes(checker);
    if (!outcome)
        outcome = check_links(checker);
    for (size_t i = 0; !outcome && i < dictionary->n_mapping_table; i++)
        outcome = check_mapping(checker, dictionary->mapping_table[i]);
    for (size_t i = 0; !outcome && i < dictionary->n_function_table; i++)
        outcome = check_function(checker, dictionary->function_table[i], i == 0);
    for (size_t i = 0; !outcome && i < dictionary->n_location_table; i++)
        outcome = check_location(checker, dictionary->location_table[i]);
    for (size_t i = 0; !outcome && i < dictionary->n_stack_table; i++)
        for (size_t j = 0; !outcome && j < dictionary->stack_table[i]->n_location_indices; j++)
            outcome =
                checker_refer(checker, LOCATIONS, dictionary->stack_table[i]->location_indices[j]);
    return outcome;
}

static int check_dictionary(struct checker *checker)
{
    const Dictionary *dictionary = checker->dictionary;
    ProtobufCMessage **entries[TABLES] = {
        [MAPPINGS] = (ProtobufCMessage **)dictionary->mapping_table,
        [LOCATIONS] = (ProtobufCMessage **)dictionary->location_table,
        [FUNCTIONS] = (ProtobufCMessage **)dictionary->function_table,
        [LINKS] = (ProtobufCMessage **)dictionary->link_table,
        [STACKS] = (ProtobufCMessage **)dictionary->stack_table};
    int outcome = 0;
    for (size_t table = 0; !outcome && table < TABLES; table++)
        outcome = check_table(checker, (enum table)table, entries[table]);
    return outcome ? outcome : check_entries(checker);
}

/* ---- profiles ---- */

enum shape { SHAPE_INVALID, SHAPE_PAIRS, SHAPE_SUM, SHAPE_TIMESTAMPS };

static enum shape shape_of(const Sample *sample)
{
    if (sample->n_values == sample->n_timestamps_unix_nano && sample->n_values > 0)
        return SHAPE_PAIRS;
    if (sample->n_values == 1 && sample->n_timestamps_unix_nano == 0)
        return SHAPE_SUM;
    if (sample->n_values == 0 && sample->n_timestamps_unix_nano > 0)
        return SHAPE_TIMESTAMPS;
    return SHAPE_INVALID;
}

static int compare_index(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

/* Stack, link and the set of attributes. */
static int checker_identify(struct checker *checker, const Sample *sample, struct bytes *identity)
{
    size_t n = sample->n_attribute_indices + 2;
    int32_t *key = arena_alloc(&checker->arena, n * sizeof(*key));
    if (!key)
        return PROFILES_TOO_BIG;
    key[0] = sample->stack_index;
    key[1] = sample->link_index;
    if (n > 2)
        memcpy(key + 2, sample->attribute_indices, (n - 2) * sizeof(*key));
    qsort(key + 2, n - 2, sizeof(*key), compare_index);
    *identity = BYTES(key, n * sizeof(*key));
    return 0;
}

static int check_sample(struct checker *checker, const Profile *profile, const Sample *sample)
{
    if (shape_of(sample) == SHAPE_INVALID || shape_of(sample) != shape_of(profile->samples[0]))
        return fault(checker, "a sample with %zu values and %zu timestamps, unlike the first",
                     sample->n_values, sample->n_timestamps_unix_nano);
    for (size_t i = 0; i < sample->n_timestamps_unix_nano; i++) {
        uint64_t time = sample->timestamps_unix_nano[i];
        if (time < profile->time_unix_nano ||
            time - profile->time_unix_nano >= profile->duration_nano)
            return fault(checker, "timestamp %zu of a sample is outside the window", i);
    }
    int outcome = checker_refer(checker, STACKS, sample->stack_index);
    if (!outcome)
        outcome = checker_refer(checker, LINKS, sample->link_index);
    return outcome
               ? outcome
               : refer_attributes(checker, sample->attribute_indices, sample->n_attribute_indices);
}

static int check_samples(struct checker *checker, const Profile *profile)
{
    struct bytes *identities =
        arena_alloc(&checker->arena, (profile->n_samples + 1) * sizeof(*identities));
    if (!identities)
        return PROFILES_TOO_BIG;
    for (size_t i = 0; i < profile->n_samples; i++) {
        int outcome = check_sample(checker, profile, profile->samples[i]);
        if (!outcome)
            outcome = checker_identify(checker, profile->samples[i], &identities[i]);
        if (outcome)
            return outcome;
    }
    if (has_duplicate(identities, profile->n_samples))
        return fault(checker, "two samples of one identity in a profile");
    return 0;
}

static int check_profile(struct checker *checker, const Profile *profile)
{
    size_t id_len = profile->profile_id.len;
    if (id_len != 0 && (id_len != 16 || bytes_zero(profile->profile_id.data, id_len)))
        return fault(checker, "a profile_id of %zu bytes, or zero", id_len);
    if (!profile->sample_type)
        return fault(checker, "a profile without sample_type");
    if (!*profile->original_payload_format != !profile->original_payload.len)
        return fault(checker, "original_payload and its format do not go together");
    int outcome = refer_type(checker, profile->sample_type);
    if (!outcome)
        outcome = refer_type(checker, profile->period_type);
    if (!outcome)
        outcome =
            refer_attributes(checker, profile->attribute_indices, profile->n_attribute_indices);
    return outcome ? outcome : check_samples(checker, profile);
}

static int check_resources(struct checker *checker, const Request *request)
{
    if (request->n_resource_profiles == 0)
        return fault(checker, "no resource_profiles");
    for (size_t i = 0; i < request->n_resource_profiles; i++) {
        const ResourceProfiles *resource = request->resource_profiles[i];
        if (resource->n_scope_profiles == 0)
            return fault(checker, "no scope_profiles");
        for (size_t j = 0; j < resource->n_scope_profiles; j++) {
            const ScopeProfiles *scope = resource->scope_profiles[j];
            if (scope->n_profiles == 0)
                return fault(checker, "no profiles");
            for (size_t k = 0; k < scope->n_profiles; k++) {
                int outcome = check_profile(checker, scope->profiles[k]);
                if (outcome)
                    return outcome;
            }
        }
    }
    return 0;
}

static int check_request(struct checker *checker, const Request *request)
{
    const Dictionary *dictionary = request->dictionary;
    if (!dictionary)
        return fault(checker, "no dictionary");
    checker->dictionary = dictionary;
    checker->counts[MAPPINGS] = dictionary->n_mapping_table;
    checker->counts[LOCATIONS] = dictionary->n_location_table;
    checker->counts[FUNCTIONS] = dictionary->n_function_table;
    checker->counts[LINKS] = dictionary->n_link_table;
    checker->counts[STRINGS] = dictionary->n_string_table;
    checker->counts[ATTRIBUTES] = dictionary->n_attribute_table;
    checker->counts[STACKS] = dictionary->n_stack_table;
    for (size_t table = 0; table < TABLES; table++) {
        checker->used[table] = arena_zalloc(&checker->arena, checker->counts[table] + 1);
        if (!checker->used[table])
            return PROFILES_TOO_BIG;
    }
    int outcome = check_dictionary(checker);
    if (!outcome)
        outcome = check_resources(checker, request);
    return outcome ? outcome : check_orphans(checker);
}

int otlp_profiles_check(struct bytes request, size_t arena_bytes, char *why, size_t why_size)
{
    struct checker checker = {.request = request, .why = why, .why_size = why_size};
    ProtobufCMessage *message;
    arena_init(&checker.arena, arena_bytes);
    int outcome = pb_unpack(
        &opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__descriptor,
        request, &checker.arena, &message);
    snprintf(why, why_size, "%s", outcome == PB_MALFORMED ? "not a well-formed request" : "");
    if (!outcome)
        outcome = check_request(&checker, (const Request *)(const void *)message);
    if (outcome == PROFILES_TOO_BIG)
        snprintf(why, why_size, "more than %zu bytes to decode", arena_bytes);
    arena_close(&checker.arena);
    return outcome;
}
