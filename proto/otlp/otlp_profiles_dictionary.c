/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a profiles request, entry by entry, and the references in them. */
#include "proto/otlp/otlp_profiles_encode.h"

#include <assert.h>

/* ---- fields ---- */

static uint64_t number_of(const struct profiles_table *table, int32_t index)
{
    int32_t number = profiles_table_entry(table, index)->number;
    assert(number >= 0);
    return (uint64_t)number;
}

int profiles_put_nonzero(struct encoder *encoder, uint32_t field, uint64_t value)
{
    return value ? wire_put_varint(encoder->out, field, value) : 0;
}

int profiles_put_index(struct encoder *encoder, uint32_t field, const struct profiles_table *table,
                       int32_t index)
{
    return profiles_put_nonzero(encoder, field, number_of(table, index));
}

int profiles_put_indices(struct encoder *encoder, uint32_t field,
                         const struct profiles_table *table, struct bytes list, bool skip_zero)
{
    struct wire_nest nest;
    int error = list.len ? wire_begin(encoder->out, field, list.len * 2, &nest) : 0;
    size_t start = encoder->out->len;
    for (size_t at = 0; !error && at < list.len; at += sizeof(int32_t)) {
        int32_t index = profiles_list_at(list, at);
        if (index != 0 || !skip_zero)
            error = wire_put_bare_varint(encoder->out, number_of(table, index));
    }
    if (error || list.len == 0)
        return error;
    if (encoder->out->len == start)
        encoder->out->len = nest.length_at - wire_tag_size(field); /* empty: removed again */
    else
        wire_end(encoder->out, &nest);
    return 0;
}

/* ---- entries ---- */

static int put_mapping(struct encoder *encoder, int32_t index)
{
    const struct otlp_profiles *profiles = encoder->profiles;
    struct mapping_key key;
    profiles_table_read(&profiles->mappings, index, &key, sizeof(key));
    int error = profiles_put_nonzero(encoder, MAPPING_START, key.start);
    if (!error)
        error = profiles_put_nonzero(encoder, MAPPING_LIMIT, key.limit);
    if (!error)
        error = profiles_put_nonzero(encoder, MAPPING_OFFSET, key.offset);
    if (!error)
        error = profiles_put_index(encoder, MAPPING_FILENAME, &profiles->strings, key.file);
    if (!error)
        error = profiles_put_indices(encoder, MAPPING_ATTRIBUTES_FIELD, &profiles->attributes,
                                     BYTES(key.attributes, sizeof(key.attributes)), true);
    return error;
}

static int put_line(struct encoder *encoder, const struct line_key *key)
{
    struct wire_nest nest;
    int error = wire_begin(encoder->out, LOCATION_LINES, 3 + 3 * WIRE_VARINT_MAX, &nest);
    if (!error)
        error = profiles_put_index(encoder, LINE_FUNCTION, &encoder->profiles->functions,
                                   key->function);
    if (!error)
        error = profiles_put_nonzero(encoder, LINE_LINE, (uint64_t)key->line);
    if (!error)
        error = profiles_put_nonzero(encoder, LINE_COLUMN, key->column);
    if (!error)
        wire_end(encoder->out, &nest);
    return error;
}

static int put_location(struct encoder *encoder, int32_t index)
{
    const struct otlp_profiles *profiles = encoder->profiles;
    struct location_key key;
    int32_t n_lines = profiles_location(profiles, index, &key);
    int error = profiles_put_index(encoder, LOCATION_MAPPING, &profiles->mappings, key.mapping);
    if (!error)
        error = profiles_put_nonzero(encoder, LOCATION_ADDRESS, key.address);
    for (int32_t i = 0; !error && i < n_lines; i++) {
        struct line_key line = profiles_line(profiles, index, i);
        error = put_line(encoder, &line);
    }
    if (!error)
        error = profiles_put_indices(encoder, LOCATION_ATTRIBUTES, &profiles->attributes,
                                     BYTES(key.attributes, sizeof(key.attributes)), true);
    return error;
}

static int put_function(struct encoder *encoder, int32_t index)
{
    const struct otlp_profiles *profiles = encoder->profiles;
    struct function_key key;
    profiles_table_read(&profiles->functions, index, &key, sizeof(key));
    int error = profiles_put_index(encoder, FUNCTION_NAME, &profiles->strings, key.name);
    if (!error)
        error =
            profiles_put_index(encoder, FUNCTION_SYSTEM_NAME, &profiles->strings, key.system_name);
    if (!error)
        error = profiles_put_index(encoder, FUNCTION_FILENAME, &profiles->strings, key.file);
    return error ? error : profiles_put_nonzero(encoder, FUNCTION_START_LINE, key.start_line);
}

/* Link 0 is empty, not two ids of zeros: the conformance checker takes no other. */
static int put_link(struct encoder *encoder, int32_t index)
{
    struct link_key key;
    if (index == 0)
        return 0;
    profiles_table_read(&encoder->profiles->links, index, &key, sizeof(key));
    int error = wire_put_bytes(encoder->out, LINK_TRACE_ID, BYTES(key.trace_id, 16));
    return error ? error : wire_put_bytes(encoder->out, LINK_SPAN_ID, BYTES(key.span_id, 8));
}

static int put_string(struct encoder *encoder, int32_t index)
{
    return buf_append_bytes(encoder->out, profiles_table_key(&encoder->profiles->strings, index));
}

static int put_attribute(struct encoder *encoder, int32_t index)
{
    const struct otlp_profiles *profiles = encoder->profiles;
    if (index == 0)
        return 0;
    struct bytes key = profiles_table_key(&profiles->attributes, index);
    int error =
        profiles_put_index(encoder, ATTRIBUTE_KEY, &profiles->strings, profiles_list_at(key, 0));
    return error ? error
                 : wire_put_bytes(encoder->out, ATTRIBUTE_VALUE,
                                  BYTES(key.data + sizeof(int32_t), key.len - sizeof(int32_t)));
}

static int put_stack(struct encoder *encoder, int32_t index)
{
    const struct otlp_profiles *profiles = encoder->profiles;
    return profiles_put_indices(encoder, STACK_LOCATIONS, &profiles->locations,
                                profiles_table_key(&profiles->stacks, index), false);
}

static int put_table(struct encoder *encoder, uint32_t field, const struct profiles_table *table,
                     int (*put)(struct encoder *encoder, int32_t index))
{
    int error = 0;
    for (int32_t i = 0; !error && i < profiles_table_count(table); i++) {
        struct wire_nest nest;
        if (profiles_table_entry(table, i)->number < 0)
            continue;
        error = wire_begin(encoder->out, field, encoder->profiles->size_bound, &nest);
        if (!error)
            error = put(encoder, i);
        if (!error)
            wire_end(encoder->out, &nest);
    }
    return error;
}

int profiles_put_dictionary(struct encoder *encoder)
{
    const struct otlp_profiles *profiles = encoder->profiles;
    const struct {
        uint32_t field;
        const struct profiles_table *table;
        int (*put)(struct encoder *encoder, int32_t index);
    } tables[] = {
        {DICTIONARY_MAPPINGS, &profiles->mappings, put_mapping},
        {DICTIONARY_LOCATIONS, &profiles->locations, put_location},
        {DICTIONARY_FUNCTIONS, &profiles->functions, put_function},
        {DICTIONARY_LINKS, &profiles->links, put_link},
        {DICTIONARY_STRINGS, &profiles->strings, put_string},
        {DICTIONARY_ATTRIBUTES, &profiles->attributes, put_attribute},
        {DICTIONARY_STACKS, &profiles->stacks, put_stack},
    };
    struct wire_nest nest;
    int error = wire_begin(encoder->out, REQUEST_DICTIONARY, profiles->size_bound, &nest);
    for (size_t i = 0; !error && i < sizeof(tables) / sizeof(tables[0]); i++)
        error = put_table(encoder, tables[i].field, tables[i].table, tables[i].put);
    if (!error)
        wire_end(encoder->out, &nest);
    return error;
}
