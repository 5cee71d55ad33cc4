/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/otlp_profiles_links.h"
#include "base/map.h"
#include "profiles_service.pb-c.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/pb.h"

#define OF(name) Opentelemetry__Proto__Profiles__V1development__##name
typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest
    Request;
typedef OF(ProfilesDictionary) Dictionary;
typedef OF(KeyValueAndUnit) Attribute;
typedef OF(Profile) Profile;
typedef OF(Sample) Sample;
typedef OF(Link) Link;
typedef Opentelemetry__Proto__Common__V1__AnyValue AnyValue;
typedef Opentelemetry__Proto__Common__V1__KeyValue KeyValue;
typedef Opentelemetry__Proto__Resource__V1__Resource Resource;

#define ID_TEXT 33 /* an id of 16 bytes as hex */

struct reading {
    struct profiles_links *links;
    const Dictionary *dictionary; /* NULL: none */
    profiles_ids_of *ids_of;
    void *context;
    struct map by_context;
    uint32_t resource;
};

_Static_assert(sizeof(struct profiles_context) == 28, "a key has no padding");

/* ---- references ---- */

/* Many references may lead to one text, so a text that is long is not read to its end. */
static struct bytes short_text(const char *text)
{
    size_t len = strnlen(text, PROFILES_TEXT_MAX + 1);
    return BYTES(text, len <= PROFILES_TEXT_MAX ? len : 0);
}

static struct bytes string_at(const Dictionary *dictionary, int32_t index)
{
    if (!dictionary || index < 0 || (size_t)index >= dictionary->n_string_table)
        return BYTES(NULL, 0);
    return short_text(dictionary->string_table[index]);
}

static const Attribute *attribute_at(const Dictionary *dictionary, int32_t index)
{
    if (!dictionary || index <= 0 || (size_t)index >= dictionary->n_attribute_table)
        return NULL;
    return dictionary->attribute_table[index];
}

/* hex: room for ids that are bytes. Empty: no text. */
static struct bytes text_of(const Dictionary *dictionary, const AnyValue *value, char hex[ID_TEXT])
{
    if (!value)
        return BYTES(NULL, 0);
    switch (value->value_case) {
    case OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE:
        return short_text(value->string_value);
    case OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX:
        return string_at(dictionary, value->string_value_strindex);
    case OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_BYTES_VALUE:
        if (value->bytes_value.len != 16 && value->bytes_value.len != 8)
            return BYTES(NULL, 0);
        bytes_to_hex(BYTES(value->bytes_value.data, value->bytes_value.len), hex);
        return BYTES_STR(hex);
    default:
        return BYTES(NULL, 0);
    }
}

/* ---- ids of a sample ---- */

static bool ids_of_link(const Dictionary *dictionary, const Sample *sample,
                        struct profiles_ids *ids)
{
    int32_t index = sample->link_index;
    if (!dictionary || index <= 0 || (size_t)index >= dictionary->n_link_table)
        return false;
    const Link *link = dictionary->link_table[index];
    if (link->trace_id.len != 16 || link->span_id.len != 8)
        return false;
    memcpy(ids->trace_id, link->trace_id.data, 16);
    memcpy(ids->span_id, link->span_id.data, 8);
    return true;
}

static bool ids_of_attributes(const struct reading *reading, const Sample *sample,
                              struct profiles_ids *ids)
{
    struct profiles_text texts[PROFILES_ATTRIBUTES_MAX];
    char hex[PROFILES_ATTRIBUTES_MAX][ID_TEXT];
    size_t n = 0;
    for (size_t i = 0; i < sample->n_attribute_indices; i++) {
        const Attribute *attribute =
            attribute_at(reading->dictionary, sample->attribute_indices[i]);
        if (!attribute)
            continue;
        texts[n].key = string_at(reading->dictionary, attribute->key_strindex);
        texts[n].value = text_of(reading->dictionary, attribute->value, hex[n]);
        n += texts[n].value.len > 0;
    }
    return n && reading->ids_of(reading->context, texts, n, ids);
}

static bool was_joined(const Dictionary *dictionary, const Sample *sample)
{
    for (size_t i = 0; i < sample->n_attribute_indices; i++) {
        const Attribute *attribute = attribute_at(dictionary, sample->attribute_indices[i]);
        if (attribute && bytes_is(string_at(dictionary, attribute->key_strindex), "span.name"))
            return true;
    }
    return false;
}

/* ---- contexts ---- */

/* Its index + 1; 0: one too many. */
static int reading_intern(struct reading *reading, const struct profiles_ids *ids, uint32_t *index)
{
    struct profiles_links *links = reading->links;
    struct profiles_context key = {.ids = *ids, .resource = reading->resource};
    struct profiles_context *known = map_get(&reading->by_context, &key);
    *index = 0;
    if (!known && links->n_contexts == PROFILES_CONTEXTS_MAX) {
        links->n_passed_over++;
        return PROFILES_LINKS_OK;
    }
    if (!known) {
        known = &links->contexts[links->n_contexts];
        *known = key;
        if (map_put(&reading->by_context, known, NULL))
            return PROFILES_LINKS_TOO_BIG;
        links->n_contexts++;
    }
    *index = (uint32_t)(known - links->contexts) + 1;
    return PROFILES_LINKS_OK;
}

static int read_sample(struct reading *reading, const Sample *sample)
{
    struct profiles_links *links = reading->links;
    struct profiles_ids ids;
    uint32_t *index = &links->contexts_of[links->n_samples++];
    *index = 0;
    bool found = sample->n_attribute_indices <= PROFILES_ATTRIBUTES_MAX &&
                 !was_joined(reading->dictionary, sample) &&
                 (ids_of_link(reading->dictionary, sample, &ids) ||
                  ids_of_attributes(reading, sample, &ids));
    if (!found || bytes_zero(ids.trace_id, 16) || bytes_zero(ids.span_id, 8))
        return PROFILES_LINKS_OK;
    return reading_intern(reading, &ids, index);
}

static int read_profiles(struct reading *reading, const OF(ResourceProfiles) * resource)
{
    for (size_t s = 0; s < resource->n_scope_profiles; s++) {
        const OF(ScopeProfiles) *scope = resource->scope_profiles[s];
        for (size_t p = 0; p < scope->n_profiles; p++) {
            const Profile *profile = scope->profiles[p];
            for (size_t i = 0; i < profile->n_samples; i++) {
                int outcome = read_sample(reading, profile->samples[i]);
                if (outcome)
                    return outcome;
            }
        }
    }
    return PROFILES_LINKS_OK;
}

/* Keeps only attributes with text values: these identify the sender of a span. References make a
 * Resource larger than the request that it came in: hence the limit. */
static int plain_resource(struct reading *reading, const Resource *resource, struct bytes *result)
{
    _cleanup_buf_ struct buf plain = BUF_INIT(PROFILES_RESOURCE_MAX);
    char hex[ID_TEXT], key[128];
    *result = BYTES(NULL, 0);
    for (size_t i = 0; resource && i < resource->n_attributes; i++) {
        const KeyValue *attribute = resource->attributes[i];
        struct bytes name = attribute->key_strindex
                                ? string_at(reading->dictionary, attribute->key_strindex)
                                : short_text(attribute->key);
        struct bytes text = text_of(reading->dictionary, attribute->value, hex);
        if (!text.len || !name.len || name.len >= sizeof(key))
            continue;
        memcpy(key, name.data, name.len);
        key[name.len] = '\0';
        int error = otlp_attribute_string(&plain, 1, key, text);
        if (error)
            return error == BUF_FULL ? PROFILES_LINKS_OK : PROFILES_LINKS_TOO_BIG;
    }
    if (!plain.len)
        return PROFILES_LINKS_OK;
    void *copy = arena_dup(&reading->links->arena, plain.data, plain.len);
    *result = BYTES(copy, plain.len);
    return copy ? PROFILES_LINKS_OK : PROFILES_LINKS_TOO_BIG;
}

static size_t count_samples(const Request *request)
{
    size_t n = 0;
    for (size_t r = 0; r < request->n_resource_profiles; r++) {
        const OF(ResourceProfiles) *resource = request->resource_profiles[r];
        for (size_t s = 0; s < resource->n_scope_profiles; s++)
            for (size_t p = 0; p < resource->scope_profiles[s]->n_profiles; p++)
                n += resource->scope_profiles[s]->profiles[p]->n_samples;
    }
    return n;
}

static int read_request(struct reading *reading, const Request *request)
{
    struct profiles_links *links = reading->links;
    size_t n_samples = count_samples(request);
    size_t most = n_samples < PROFILES_CONTEXTS_MAX ? n_samples : PROFILES_CONTEXTS_MAX;
    links->contexts_of = arena_alloc(&links->arena, n_samples * sizeof(*links->contexts_of) + 1);
    links->contexts = arena_alloc(&links->arena, most * sizeof(*links->contexts) + 1);
    links->resources =
        arena_alloc(&links->arena, request->n_resource_profiles * sizeof(*links->resources) + 1);
    if (!links->contexts_of || !links->contexts || !links->resources)
        return PROFILES_LINKS_TOO_BIG;
    int outcome = PROFILES_LINKS_OK;
    for (size_t r = 0; r < request->n_resource_profiles && !outcome; r++) {
        reading->resource = (uint32_t)r;
        outcome = plain_resource(reading, request->resource_profiles[r]->resource,
                                 &links->resources[links->n_resources++]);
        if (!outcome)
            outcome = read_profiles(reading, request->resource_profiles[r]);
    }
    return outcome;
}

int profiles_links_read(struct bytes request, profiles_ids_of *ids_of, void *context,
                        struct profiles_links *links)
{
    struct reading reading = {.links = links, .ids_of = ids_of, .context = context};
    ProtobufCMessage *message;
    *links = (struct profiles_links){0};
    arena_init(&links->arena, PROFILES_DECODED_MAX);
    map_init(&reading.by_context, 0, sizeof(struct profiles_context));
    int outcome = pb_unpack(
        &opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__descriptor,
        request, &links->arena, &message);
    if (!outcome) {
        const Request *decoded = (const Request *)(const void *)message;
        reading.dictionary = decoded->dictionary;
        outcome = read_request(&reading, decoded);
    }
    map_close(&reading.by_context);
    return outcome;
}

void profiles_links_close(struct profiles_links *links)
{
    arena_close(&links->arena);
    *links = (struct profiles_links){0};
}
