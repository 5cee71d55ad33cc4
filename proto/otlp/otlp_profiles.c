/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two phases. While samples are added, everything is interned under an index of the builder. Finish
 * (otlp_profiles_encode.c) renumbers the entries that samples use and writes only those. So a
 * caller may intern entries that it does not use in the end, and the request has no unreferenced
 * entry.
 *
 * size_bound grows with each entry by its maximum size on the wire.
 */
#include "proto/otlp/otlp_profiles_builder.h"
#include "proto/otlp/otlp_profiles_value.h"
#include "proto/otlp/otlp_spans_walk.h"
#include "proto/pb.h"
#include "resource.pb-c.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

_Static_assert(sizeof(struct mapping_key) == 40 && sizeof(struct location_key) == 24 &&
                   sizeof(struct line_key) == 16 && sizeof(struct profile_key) == 16 &&
                   sizeof(struct function_key) == 16 && sizeof(struct link_key) == 24 &&
                   sizeof(struct sample_key) == 12,
               "keys have no padding");

#define SCOPE_BYTES    (2 + 10 + 2 + OTLP_PROFILES_VERSION_MAX)
#define RESOURCE_BYTES (2 * PROFILES_HEADER_BYTES + 2 + SCOPE_BYTES) /* all but the Resource */
#define FRAME_BYTES    (PROFILES_HEADER_BYTES + 32) /* dictionary; lengths not closed up yet */
#define TABLES         (7)

/* ---- interning ---- */

static size_t index_size(int32_t index)
{
    return wire_varint_size((uint64_t)index);
}

static bool otlp_profiles_fits(const struct otlp_profiles *profiles, size_t more)
{
    return more <= profiles->max_bytes - profiles->size_bound;
}

/* The index of key; if it is new, it is counted with bytes_on_wire. */
static int32_t otlp_profiles_intern(struct otlp_profiles *profiles, struct profiles_table *table,
                                    struct bytes key, size_t bytes_on_wire)
{
    int32_t index = profiles_table_find(table, profiles->seed, key);
    if (index >= 0)
        return index;
    if (!otlp_profiles_fits(profiles, bytes_on_wire))
        return -EMSGSIZE;
    index = profiles_table_add(table, profiles->seed, key);
    if (index >= 0)
        profiles->size_bound += bytes_on_wire;
    return index;
}

/* A single string that is not UTF-8 would make a receiver refuse the whole request. */
static int make_valid(struct otlp_profiles *profiles, struct bytes *text)
{
    if (bytes_utf8_valid(*text))
        return 0;
    buf_clear(&profiles->text);
    int error = buf_reserve(&profiles->text, text->len + 1);
    if (error)
        return error;
    char *out = (char *)profiles->text.data;
    *text = BYTES(out, bytes_sanitize(*text, out, text->len + 1));
    return 0;
}

static int32_t intern_string(struct otlp_profiles *profiles, struct bytes text)
{
    int error = make_valid(profiles, &text);
    if (error)
        return error;
    return otlp_profiles_intern(profiles, &profiles->strings, text,
                                wire_bytes_size(DICTIONARY_STRINGS, text.len));
}

/* ---- open, close ---- */

/* Entry 0 of each table of the dictionary is its zero value: the zero key here. */
static int add_zero_entries(struct otlp_profiles *profiles)
{
    static const uint8_t zero[sizeof(struct mapping_key)];
    struct {
        struct profiles_table *table;
        size_t key_len;
    } tables[TABLES] = {
        {&profiles->strings, 0},
        {&profiles->attributes, sizeof(int32_t)},
        {&profiles->functions, sizeof(struct function_key)},
        {&profiles->mappings, sizeof(struct mapping_key)},
        {&profiles->locations, sizeof(struct location_key)},
        {&profiles->stacks, 0},
        {&profiles->links, sizeof(struct link_key)},
    };
    for (size_t i = 0; i < TABLES; i++) {
        int32_t index =
            otlp_profiles_intern(profiles, tables[i].table, BYTES(zero, tables[i].key_len), 2);
        if (index < 0)
            return index;
        assert(index == 0);
    }
    return 0;
}

static int add_types(struct otlp_profiles *profiles)
{
    static const char *const names[PROFILE_TYPE_COUNT][4] = {
        [PROFILE_CPU] = {"samples", "count", "cpu", "nanoseconds"},
        [PROFILE_OFF_CPU] = {"off_cpu", "nanoseconds", "", ""},
        [PROFILE_EVENTS] = {"events", "count", "", ""},
    };
    for (size_t type = 0; type < PROFILE_TYPE_COUNT; type++) {
        int32_t index[4];
        for (size_t i = 0; i < 4; i++) {
            index[i] = intern_string(profiles, BYTES_STR(names[type][i]));
            if (index[i] < 0)
                return index[i];
        }
        profiles->types[type] = (struct type_strings){index[0], index[1], index[2], index[3]};
    }
    return 0;
}

int otlp_profiles_open(size_t max_bytes, struct otlp_profiles **profiles)
{
    if (max_bytes > OTLP_PROFILES_BYTES_MAX)
        return -EINVAL;
    struct otlp_profiles *opened = calloc(1, sizeof(*opened));
    if (!opened)
        return -ENOMEM;
    opened->max_bytes = max_bytes;
    int error = 0;
    if (getrandom(opened->seed, sizeof(opened->seed), 0) != sizeof(opened->seed))
        error = -errno;
    if (!error && !otlp_profiles_fits(opened, FRAME_BYTES))
        error = -EMSGSIZE;
    if (!error) {
        opened->size_bound = FRAME_BYTES;
        error = add_zero_entries(opened);
    }
    if (!error)
        error = add_types(opened);
    if (error) {
        otlp_profiles_close(opened);
        return error;
    }
    *profiles = opened;
    return 0;
}

void otlp_profiles_close(struct otlp_profiles *profiles)
{
    if (!profiles)
        return;
    struct profiles_table *tables[] = {
        &profiles->strings,   &profiles->attributes, &profiles->functions, &profiles->mappings,
        &profiles->locations, &profiles->stacks,     &profiles->links,     &profiles->resources,
        &profiles->profiles,  &profiles->samples};
    struct buf *bufs[] = {&profiles->resource_data, &profiles->profile_data, &profiles->sample_data,
                          &profiles->events,        &profiles->scratch,      &profiles->text};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        profiles_table_close(tables[i]);
    for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
        buf_close(bufs[i]);
    free(profiles);
}

/* ---- resources and attributes ---- */

int32_t otlp_profiles_resource(struct otlp_profiles *profiles, struct bytes resource)
{
    int32_t index = profiles_table_find(&profiles->resources, profiles->seed, resource);
    if (index >= 0)
        return index;
    if (pb_check(&opentelemetry__proto__resource__v1__resource__descriptor, resource))
        return -EINVAL;
    bool had_index = false;
    buf_clear(&profiles->scratch);
    int error = profiles_value_put_resource(&profiles->scratch, resource, &had_index);
    if (!error)
        error = buf_reserve(&profiles->resource_data, sizeof(struct resource_data));
    if (error)
        return error;
    struct bytes key = had_index ? buf_bytes(&profiles->scratch) : resource;
    index =
        otlp_profiles_intern(profiles, &profiles->resources, key,
                             RESOURCE_BYTES + wire_bytes_size(RESOURCE_PROFILES_RESOURCE, key.len));
    struct resource_data data = {{0, 0}};
    if (index >= 0 && (size_t)index == profiles->resource_data.len / sizeof(data))
        buf_append(&profiles->resource_data, &data, sizeof(data)); /* there is room */
    return index;
}

/* Scratch begins with room for the key's index; the contents of the AnyValue follow. */
static int begin_attribute(struct otlp_profiles *profiles)
{
    static const int32_t zero;
    buf_clear(&profiles->scratch);
    return buf_append(&profiles->scratch, &zero, sizeof(zero));
}

static int32_t end_attribute(struct otlp_profiles *profiles, struct bytes key)
{
    int32_t name = intern_string(profiles, key);
    if (name <= 0)
        return name;
    memcpy(profiles->scratch.data, &name, sizeof(name));
    struct bytes bytes = buf_bytes(&profiles->scratch);
    size_t value_bytes = wire_bytes_size(ATTRIBUTE_VALUE, bytes.len - sizeof(name));
    return otlp_profiles_intern(
        profiles, &profiles->attributes, bytes,
        wire_bytes_size(DICTIONARY_ATTRIBUTES, 1 + index_size(name) + value_bytes));
}

int32_t otlp_profiles_attribute_string(struct otlp_profiles *profiles, const char *key,
                                       struct bytes value)
{
    int error = make_valid(profiles, &value);
    if (!error)
        error = begin_attribute(profiles);
    if (!error)
        error = wire_put_bytes(&profiles->scratch, ANY_VALUE_STRING, value);
    return error ? error : end_attribute(profiles, BYTES_STR(key));
}

int32_t otlp_profiles_attribute_int(struct otlp_profiles *profiles, const char *key, int64_t value)
{
    int error = begin_attribute(profiles);
    if (!error)
        error = wire_put_varint(&profiles->scratch, ANY_VALUE_INT, (uint64_t)value);
    return error ? error : end_attribute(profiles, BYTES_STR(key));
}

int32_t otlp_profiles_attribute(struct otlp_profiles *profiles, struct bytes key_value)
{
    if (pb_check(&opentelemetry__proto__common__v1__key_value__descriptor, key_value))
        return -EINVAL;
    struct bytes key, value;
    bool had_index = false;
    profiles_value_split(key_value, &key, &value);
    int error = begin_attribute(profiles);
    if (!error)
        error = profiles_value_put(&profiles->scratch, value, &had_index);
    return error ? error : end_attribute(profiles, key);
}

/* ---- frames ---- */

static int32_t attribute_hex(struct otlp_profiles *profiles, const char *key, struct bytes id)
{
    char hex[2 * OTLP_PROFILES_BUILD_ID_MAX + 1];
    if (id.len == 0 || id.len > OTLP_PROFILES_BUILD_ID_MAX)
        return 0;
    bytes_to_hex(id, hex);
    return otlp_profiles_attribute_string(profiles, key, BYTES_STR(hex));
}

static int put_build_ids(struct otlp_profiles *profiles, const struct otlp_mapping *mapping,
                         struct mapping_key *key)
{
    int32_t index[MAPPING_ATTRIBUTES] = {0};
    if (mapping->htlhash)
        index[0] = attribute_hex(profiles, "process.executable.build_id.htlhash",
                                 BYTES(mapping->htlhash, 16));
    index[1] = attribute_hex(profiles, "process.executable.build_id.gnu", mapping->gnu_build_id);
    if (mapping->go_build_id.len > 0)
        index[2] = otlp_profiles_attribute_string(profiles, "process.executable.build_id.go",
                                                  mapping->go_build_id);
    for (size_t i = 0; i < MAPPING_ATTRIBUTES; i++) {
        if (index[i] < 0)
            return index[i];
        key->attributes[i] = index[i];
    }
    return 0;
}

int32_t otlp_profiles_mapping(struct otlp_profiles *profiles, const struct otlp_mapping *mapping)
{
    struct mapping_key key = {.offset = mapping->file_offset};
    if (mapping->memory_start < mapping->memory_limit) { /* else not known: both 0 */
        key.start = mapping->memory_start;
        key.limit = mapping->memory_limit;
    }
    key.file = intern_string(profiles, mapping->filename);
    if (key.file < 0)
        return key.file;
    int error = put_build_ids(profiles, mapping, &key);
    if (error)
        return error;
    size_t attribute_bytes = 0;
    for (size_t i = 0; i < MAPPING_ATTRIBUTES; i++)
        attribute_bytes += index_size(key.attributes[i]);
    size_t size = 3 + wire_varint_size(key.start) + wire_varint_size(key.limit) +
                  wire_varint_size(key.offset) + 1 + index_size(key.file) +
                  wire_bytes_size(MAPPING_ATTRIBUTES_FIELD, attribute_bytes);
    return otlp_profiles_intern(profiles, &profiles->mappings, BYTES(&key, sizeof(key)),
                                wire_bytes_size(DICTIONARY_MAPPINGS, size));
}

/* What a Line or a Function says of its place; 0: nothing. */
static uint32_t number32(int64_t number)
{
    return number > 0 && number <= INT32_MAX ? (uint32_t)number : 0;
}

static int32_t intern_function(struct otlp_profiles *profiles, const struct otlp_line *line)
{
    struct function_key key = {.start_line = number32(line->start_line)};
    const struct {
        struct bytes text;
        int32_t *index;
    } all[] = {
        {line->function, &key.name},
        {line->system_name, &key.system_name},
        {line->file, &key.file},
    };
    size_t size = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        *all[i].index = intern_string(profiles, all[i].text);
        if (*all[i].index < 0)
            return *all[i].index;
        size += 1 + index_size(*all[i].index);
    }
    size += 1 + wire_varint_size(key.start_line);
    return otlp_profiles_intern(profiles, &profiles->functions, BYTES(&key, sizeof(key)),
                                wire_bytes_size(DICTIONARY_FUNCTIONS, size));
}

/* Their bytes in a list of indices, or negative errno. */
static int32_t location_attributes(struct otlp_profiles *profiles,
                                   const struct otlp_location *location,
                                   int32_t indices[LOCATION_ATTRIBUTES_MAX])
{
    const struct {
        const char *key;
        struct bytes value;
    } all[LOCATION_ATTRIBUTES_MAX] = {
        {"profile.frame.type", location->frame_type},
        {"spanprof.frame.truncated",
         location->truncated ? BYTES_STR(location->truncated) : BYTES(NULL, 0)},
    };
    int32_t bytes = 0;
    for (size_t i = 0; i < LOCATION_ATTRIBUTES_MAX; i++) {
        if (!all[i].value.len)
            continue;
        indices[i] = otlp_profiles_attribute_string(profiles, all[i].key, all[i].value);
        if (indices[i] < 0)
            return indices[i];
        bytes += (int32_t)index_size(indices[i]);
    }
    return bytes;
}

/* Lines that have a function, behind the key. Their bytes on the wire, or negative errno. */
static int64_t location_lines(struct otlp_profiles *profiles, const struct otlp_location *location,
                              struct line_key keys[], int32_t *n)
{
    size_t size = 0;
    assert(location->n_lines <= OTLP_PROFILES_LINES_MAX);
    for (size_t i = 0; i < location->n_lines; i++) {
        const struct otlp_line *line = &location->lines[i];
        if (!line->function.len)
            continue;
        struct line_key key = {.line = line->line > 0 ? line->line : 0,
                               .function = intern_function(profiles, line),
                               .column = number32(line->column)};
        if (key.function < 0)
            return key.function;
        size += wire_bytes_size(LOCATION_LINES, 3 + index_size(key.function) +
                                                    wire_varint_size((uint64_t)key.line) +
                                                    wire_varint_size(key.column));
        keys[(*n)++] = key;
    }
    return (int64_t)size;
}

int32_t otlp_profiles_location(struct otlp_profiles *profiles, const struct otlp_location *location)
{
    struct {
        struct location_key head;
        struct line_key lines[OTLP_PROFILES_LINES_MAX];
    } key;
    key.head = (struct location_key){.address = location->address, .mapping = location->mapping};
    assert(location->mapping >= 0 && location->mapping < profiles_table_count(&profiles->mappings));
    int64_t line_bytes = location_lines(profiles, location, key.lines, &key.head.n_lines);
    if (line_bytes < 0)
        return (int32_t)line_bytes;
    int32_t attribute_bytes = location_attributes(profiles, location, key.head.attributes);
    if (attribute_bytes < 0)
        return attribute_bytes;
    size_t size = 2 + index_size(key.head.mapping) + wire_varint_size(key.head.address) +
                  (size_t)line_bytes +
                  wire_bytes_size(LOCATION_ATTRIBUTES, (size_t)attribute_bytes);
    size_t len = sizeof(key.head) + (size_t)key.head.n_lines * sizeof(key.lines[0]);
    return otlp_profiles_intern(profiles, &profiles->locations, BYTES(&key, len),
                                wire_bytes_size(DICTIONARY_LOCATIONS, size));
}

int32_t otlp_profiles_stack(struct otlp_profiles *profiles, const int32_t *locations, size_t n)
{
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        assert(locations[i] >= 0 && locations[i] < profiles_table_count(&profiles->locations));
        size += index_size(locations[i]);
    }
    return otlp_profiles_intern(
        profiles, &profiles->stacks, BYTES(locations, n * sizeof(*locations)),
        wire_bytes_size(DICTIONARY_STACKS, wire_bytes_size(STACK_LOCATIONS, size)));
}

int32_t otlp_profiles_link(struct otlp_profiles *profiles, const uint8_t trace_id[16],
                           const uint8_t span_id[8])
{
    struct link_key key;
    memcpy(key.trace_id, trace_id, sizeof(key.trace_id));
    memcpy(key.span_id, span_id, sizeof(key.span_id));
    return otlp_profiles_intern(
        profiles, &profiles->links, BYTES(&key, sizeof(key)),
        wire_bytes_size(DICTIONARY_LINKS, 2 + sizeof(key.trace_id) + 2 + sizeof(key.span_id)));
}

uint64_t otlp_profiles_samples(const struct otlp_profiles *profiles)
{
    return profiles->n_events;
}
