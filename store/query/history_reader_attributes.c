/* SPDX-License-Identifier: Apache-2.0 */
#include "store/query/history_reader_state.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"
#include <inttypes.h>
#include <stdio.h>

#define KEY_VALUE_VALUE 2 /* field of KeyValue */

enum any_value { VALUE_STRING = 1, VALUE_BOOL = 2, VALUE_INT = 3, VALUE_DOUBLE = 4 };

/* The last field with this number counts, as in protobuf. */
static bool field_of(struct bytes message, uint32_t number, struct wire_field *found)
{
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    int outcome;
    bool is_there = false;
    while ((outcome = wire_next(&reader, &field)) == WIRE_FIELD) {
        if (number && field.number != number)
            continue;
        *found = field;
        is_there = true;
    }
    return is_there && outcome == WIRE_END;
}

static bool number_text(const struct wire_field *value, char own[READER_VALUE_BYTES],
                        struct bytes *text)
{
    double real;
    int len;
    if (value->number == VALUE_BOOL && value->type == WIRE_VARINT)
        len = snprintf(own, READER_VALUE_BYTES, "%s", value->value ? "true" : "false");
    else if (value->number == VALUE_INT && value->type == WIRE_VARINT)
        len = snprintf(own, READER_VALUE_BYTES, "%" PRId64, (int64_t)value->value);
    else if (value->number == VALUE_DOUBLE && value->type == WIRE_FIXED64) {
        memcpy(&real, &value->value, sizeof(real));
        len = snprintf(own, READER_VALUE_BYTES, "%.15g", real);
    } else
        return false;
    *text = BYTES(own, (size_t)len);
    return true;
}

bool reader_value_text(struct bytes key_value, char own[READER_VALUE_BYTES], struct bytes *text)
{
    struct wire_field any, value;
    if (!field_of(key_value, KEY_VALUE_VALUE, &any) || any.type != WIRE_BYTES ||
        !field_of(any.bytes, 0, &value))
        return false;
    if (value.number != VALUE_STRING || value.type != WIRE_BYTES)
        return number_text(&value, own, text);
    *text = value.bytes;
    return true;
}

bool reader_attribute_find(struct bytes framed, struct bytes key, struct bytes *key_value)
{
    struct wire_reader reader = wire_read(framed);
    struct wire_field field;
    while (wire_next(&reader, &field) == WIRE_FIELD) {
        if (field.number != OTLP_SPAN_ATTRIBUTES || field.type != WIRE_BYTES ||
            !bytes_equal(otlp_key_value_key(field.bytes), key))
            continue;
        *key_value = field.bytes;
        return true;
    }
    return false;
}

bool reader_attributes_have(struct bytes framed, const struct history_pair *pair)
{
    char own[READER_VALUE_BYTES];
    struct bytes key_value, text;
    return reader_attribute_find(framed, pair->key, &key_value) &&
           reader_value_text(key_value, own, &text) && bytes_equal(text, pair->value);
}
