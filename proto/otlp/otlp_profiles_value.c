/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/otlp_profiles_value.h"
#include "proto/otlp/otlp_spans_walk.h"

enum { KEY_VALUE_KEY_STRINDEX = 3 };

static int put_list(struct buf *out, uint32_t number, struct bytes list, bool of_pairs,
                    bool *had_index);

/* A oneof: the last member counts. */
static bool last_member(struct bytes any_value, struct wire_field *member, bool *had_index)
{
    struct wire_reader reader = wire_read(any_value);
    struct wire_field field;
    bool found = false;
    while (wire_next(&reader, &field) == WIRE_FIELD) {
        if (field.number == ANY_VALUE_STRINDEX)
            *had_index = true;
        if (field.number < ANY_VALUE_STRING || field.number > ANY_VALUE_STRINDEX)
            continue;
        *member = field;
        found = true;
    }
    return found;
}

int profiles_value_put(struct buf *out, struct bytes any_value, bool *had_index)
{
    struct wire_field member = {0};
    if (!last_member(any_value, &member, had_index))
        return 0;
    switch (member.number) {
    case ANY_VALUE_STRING:
    case ANY_VALUE_BYTES:
        return wire_put_bytes(out, member.number, member.bytes);
    case ANY_VALUE_BOOL:
        return wire_put_varint(out, ANY_VALUE_BOOL, member.value != 0);
    case ANY_VALUE_INT:
        return wire_put_varint(out, ANY_VALUE_INT, member.value);
    case ANY_VALUE_DOUBLE:
        return wire_put_fixed64(out, ANY_VALUE_DOUBLE, member.value);
    case ANY_VALUE_ARRAY:
    case ANY_VALUE_KVLIST:
        return put_list(out, member.number, member.bytes, member.number == ANY_VALUE_KVLIST,
                        had_index);
    default: /* an index: the value is then missing, as for any receiver that does not know of them
              */
        return 0;
    }
}

void profiles_value_split(struct bytes key_value, struct bytes *key, struct bytes *value)
{
    struct wire_reader reader = wire_read(key_value);
    struct wire_field field;
    *key = *value = BYTES(NULL, 0);
    while (wire_next(&reader, &field) == WIRE_FIELD) {
        if (spans_nested(&field, KEY_VALUE_KEY))
            *key = field.bytes;
        else if (spans_nested(&field, KEY_VALUE_VALUE))
            *value = field.bytes;
    }
}

static bool has_field(struct bytes message, uint32_t number)
{
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    while (wire_next(&reader, &field) == WIRE_FIELD)
        if (field.number == number)
            return true;
    return false;
}

static int put_value(struct buf *out, uint32_t number, struct bytes any_value, bool *had_index)
{
    struct wire_nest nest;
    int error = wire_begin(out, number, any_value.len, &nest);
    if (!error)
        error = profiles_value_put(out, any_value, had_index);
    if (!error)
        wire_end(out, &nest);
    return error;
}

static int put_pair(struct buf *out, uint32_t number, struct bytes key_value, bool *had_index)
{
    struct bytes key, value;
    struct wire_nest nest;
    profiles_value_split(key_value, &key, &value);
    *had_index |= has_field(key_value, KEY_VALUE_KEY_STRINDEX);
    int error = wire_begin(out, number, key_value.len, &nest);
    if (!error && key.len > 0)
        error = wire_put_bytes(out, KEY_VALUE_KEY, key);
    if (!error && value.data)
        error = put_value(out, KEY_VALUE_VALUE, value, had_index);
    if (!error)
        wire_end(out, &nest);
    return error;
}

/* ArrayValue and KeyValueList both have field 1 alone. */
static int put_list(struct buf *out, uint32_t number, struct bytes list, bool of_pairs,
                    bool *had_index)
{
    struct wire_reader reader = wire_read(list);
    struct wire_field field;
    struct wire_nest nest;
    int error = wire_begin(out, number, list.len, &nest);
    while (!error && wire_next(&reader, &field) == WIRE_FIELD) {
        if (!spans_nested(&field, ARRAY_VALUES))
            continue;
        error = of_pairs ? put_pair(out, ARRAY_VALUES, field.bytes, had_index)
                         : put_value(out, ARRAY_VALUES, field.bytes, had_index);
    }
    if (!error)
        wire_end(out, &nest);
    return error;
}

int profiles_value_put_resource(struct buf *out, struct bytes resource, bool *had_index)
{
    struct wire_reader reader = wire_read(resource);
    struct wire_field field;
    int error = 0;
    while (!error && wire_next(&reader, &field) == WIRE_FIELD) {
        if (spans_nested(&field, RESOURCE_ATTRIBUTES))
            error = put_pair(out, RESOURCE_ATTRIBUTES, field.bytes, had_index);
        else
            error = buf_append_bytes(out, field.raw);
    }
    return error;
}
