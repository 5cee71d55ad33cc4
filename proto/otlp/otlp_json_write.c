/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On the wire the occurrences of a field may lie apart (what the join appends to a span does), in
 * JSON they are one array. So a first pass finds where each field begins and ends, then the fields
 * are written from there. Odd input is written as a decoder would read it: the last value of a
 * repeated singular field, the last member of a oneof, submessages merged from their pieces.
 */
#include "base/json_write.h"
#include "proto/otlp/otlp_json_fields.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FIELDS_MAX 24 /* of a message; a span has 16 */

struct place {
    const uint8_t *first; /* occurrence, with its tag; NULL: the field is not there */
    const uint8_t *last;
    const uint8_t *end; /* of the last */
};

static int write_message(struct buf *out, const ProtobufCMessageDescriptor *descriptor,
                         struct bytes message, unsigned depth);

/* ---- values ---- */

static int write_text(struct buf *out, struct bytes text)
{
    int outcome = json_write_text(out, text, JSON_ESCAPES_NEEDED);
    return outcome == JSON_NOT_UTF8 ? OTLP_JSON_MALFORMED : outcome;
}

static int write_bytes(struct buf *out, const ProtobufCFieldDescriptor *field, struct bytes bytes)
{
    enum otlp_json_bytes form = otlp_json_bytes_of(field);
    bool hex = form == BYTES_HEX || (form == BYTES_HEX_OR_BASE64 && bytes.len == 16);
    int error = buf_reserve(out, 2 * bytes.len + 8);
    if (error)
        return error;
    char *begin = (char *)out->data + out->len, *end = begin;
    *end++ = '"';
    if (hex) {
        bytes_to_hex(bytes, end);
        end += 2 * bytes.len;
    } else {
        end += bytes_to_base64(bytes, false, end);
        while ((end - begin - 1) % 4)
            *end++ = '=';
    }
    *end++ = '"';
    out->len += (size_t)(end - begin);
    return 0;
}

/* As few digits, from 15 on, as give the same double again. */
static int write_double(struct buf *out, uint64_t bits)
{
    char text[32];
    double value;
    memcpy(&value, &bits, sizeof(value));
    if (isnan(value))
        return buf_append(out, "\"NaN\"", 5);
    if (isinf(value))
        return buf_printf(out, "\"%sInfinity\"", value < 0 ? "-" : "");
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return buf_append(out, text, strlen(text));
}

static int write_signed(struct buf *out, int64_t value, bool quoted)
{
    return json_write_integer(out, value < 0, value < 0 ? -(uint64_t)value : (uint64_t)value,
                              quoted);
}

/* bits: as they are on the wire. */
static int write_number(struct buf *out, ProtobufCType type, uint64_t bits)
{
    int64_t unzigzagged = (int64_t)(bits >> 1 ^ -(bits & 1));
    switch (type) {
    case PROTOBUF_C_TYPE_BOOL:
        return bits ? buf_append(out, "true", 4) : buf_append(out, "false", 5);
    case PROTOBUF_C_TYPE_DOUBLE:
        return write_double(out, bits);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return write_signed(out, (int64_t)bits, true);
    case PROTOBUF_C_TYPE_SINT64:
        return write_signed(out, unzigzagged, true);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return json_write_integer(out, false, bits, true);
    case PROTOBUF_C_TYPE_SINT32:
        return write_signed(out, (int32_t)unzigzagged, false);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return json_write_integer(out, false, (uint32_t)bits, false);
    default:
        assert(type != PROTOBUF_C_TYPE_FLOAT); /* not in OTLP */
        return write_signed(out, (int32_t)bits, false);
    }
}

/* ---- fields ---- */

static int write_key(struct buf *out, const char *name, bool first)
{
    char key[64], *at = key;
    assert(strlen(name) < sizeof(key) - 4);
    if (!first)
        *at++ = ',';
    *at++ = '"';
    for (; *name; name++) {
        bool capital = *name == '_';
        name += capital;
        *at++ = (char)(capital ? toupper((unsigned char)*name) : *name);
    }
    *at++ = '"';
    *at++ = ':';
    return buf_append(out, key, (size_t)(at - key));
}

static int write_value(struct buf *out, const ProtobufCFieldDescriptor *field,
                       const struct wire_field *value, unsigned depth)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return write_message(out, field->descriptor, value->bytes, depth + 1);
    case PROTOBUF_C_TYPE_STRING:
        return write_text(out, value->bytes);
    case PROTOBUF_C_TYPE_BYTES:
        return write_bytes(out, field, value->bytes);
    default:
        return write_number(out, field->type, value->value);
    }
}

static bool next_packed(struct wire_reader *list, enum wire_type type, uint64_t *value)
{
    if (type == WIRE_VARINT)
        return wire_next_varint(list, value);
    return wire_next_fixed(list, type == WIRE_FIXED64 ? 8 : 4, value);
}

static int write_separate(struct buf *out, bool *first)
{
    bool was_first = *first;
    *first = false;
    return was_first ? 0 : buf_append(out, ",", 1);
}

static int write_packed(struct buf *out, const ProtobufCFieldDescriptor *field, struct bytes packed,
                        bool *first)
{
    struct wire_reader list = wire_read(packed);
    uint64_t value;
    int error = 0;
    while (!error && list.at < list.end) {
        if (!next_packed(&list, otlp_json_wire_type(field->type), &value))
            return OTLP_JSON_MALFORMED;
        error = write_separate(out, first);
        error = error ? error : write_number(out, field->type, value);
    }
    return error;
}

static int write_list(struct buf *out, const ProtobufCFieldDescriptor *field,
                      const struct place *place, unsigned depth)
{
    struct wire_reader reader = {place->first, place->end};
    struct wire_field item;
    bool first = true;
    int error = buf_append(out, "[", 1);
    while (!error && wire_next(&reader, &item) == WIRE_FIELD) {
        if (item.number != field->id)
            continue;
        if (otlp_json_is_number(field) && item.type == WIRE_BYTES) {
            error = write_packed(out, field, item.bytes, &first);
            continue;
        }
        error = write_separate(out, &first);
        error = error ? error : write_value(out, field, &item, depth);
    }
    return error ? error : buf_append(out, "]", 1);
}

/* A message in pieces means their bytes one behind the other. */
static int write_pieces(struct buf *out, const ProtobufCFieldDescriptor *field,
                        const struct place *place, unsigned depth)
{
    _cleanup_buf_ struct buf whole = BUF_INIT(0);
    struct wire_reader reader = {place->first, place->end};
    struct wire_field piece;
    int error = 0;
    while (!error && wire_next(&reader, &piece) == WIRE_FIELD)
        if (piece.number == field->id)
            error = buf_append_bytes(&whole, piece.bytes);
    return error ? error : write_message(out, field->descriptor, buf_bytes(&whole), depth + 1);
}

/* proto3 does not tell a zero from what is not there, but in a oneof. */
static bool is_default(const ProtobufCFieldDescriptor *field, const struct wire_field *value)
{
    return field->type != PROTOBUF_C_TYPE_MESSAGE && !otlp_json_is_oneof(field) && !value->value;
}

static int write_field(struct buf *out, const ProtobufCFieldDescriptor *field,
                       const struct place *place, bool *first, unsigned depth)
{
    struct wire_reader reader = {place->last, place->end};
    struct wire_field value;
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    int got = wire_next(&reader, &value);
    assert(got == WIRE_FIELD); /* find_places() has read it */
    (void)got;
    if (!repeated && is_default(field, &value))
        return 0;
    int error = write_key(out, field->name, *first);
    *first = false;
    if (error)
        return error;
    if (repeated)
        return write_list(out, field, place, depth);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE && place->first != place->last)
        return write_pieces(out, field, place, depth);
    return write_value(out, field, &value, depth);
}

/* ---- messages ---- */

static bool has_its_type(const ProtobufCFieldDescriptor *field, enum wire_type type)
{
    if (!otlp_json_is_number(field))
        return type == WIRE_BYTES;
    return type == otlp_json_wire_type(field->type) ||
           (field->label == PROTOBUF_C_LABEL_REPEATED && type == WIRE_BYTES);
}

static void forget_others(const ProtobufCMessageDescriptor *descriptor,
                          const ProtobufCFieldDescriptor *field, struct place *places)
{
    for (unsigned i = 0; i < descriptor->n_fields; i++)
        if (&descriptor->fields[i] != field && otlp_json_same_oneof(&descriptor->fields[i], field))
            places[i].first = NULL;
}

static int find_places(const ProtobufCMessageDescriptor *descriptor, struct bytes message,
                       struct place *places)
{
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    int got;
    while ((got = wire_next(&reader, &field)) == WIRE_FIELD) {
        const ProtobufCFieldDescriptor *known =
            protobuf_c_message_descriptor_get_field(descriptor, field.number);
        if (!known)
            continue;
        if (!has_its_type(known, field.type))
            return OTLP_JSON_MALFORMED;
        struct place *place = &places[known - descriptor->fields];
        if (otlp_json_is_oneof(known))
            forget_others(descriptor, known, places);
        if (!place->first)
            place->first = field.raw.data;
        place->last = field.raw.data;
        place->end = reader.at;
    }
    return got == WIRE_END ? 0 : OTLP_JSON_MALFORMED;
}

static int write_message(struct buf *out, const ProtobufCMessageDescriptor *descriptor,
                         struct bytes message, unsigned depth)
{
    struct place places[FIELDS_MAX];
    bool first = true;
    assert(descriptor->n_fields <= FIELDS_MAX);
    if (depth > PB_DEPTH_MAX)
        return OTLP_JSON_MALFORMED;
    memset(places, 0, descriptor->n_fields * sizeof(places[0]));
    int error = find_places(descriptor, message, places);
    error = error ? error : buf_append(out, "{", 1);
    for (unsigned i = 0; !error && i < descriptor->n_fields; i++)
        if (places[i].first)
            error = write_field(out, &descriptor->fields[i], &places[i], &first, depth);
    return error ? error : buf_append(out, "}", 1);
}

int otlp_json_write(const ProtobufCMessageDescriptor *descriptor, struct bytes message,
                    struct buf *out)
{
    size_t before = out->len;
    int error = write_message(out, descriptor, message, 1);
    if (error)
        out->len = before;
    return error;
}
