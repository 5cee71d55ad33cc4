/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the text, directly into protobuf, without a tree: only the result is in memory. A
 * nested message reserves room for the longest length that out's limit allows; wire_end() removes
 * the unused bytes.
 */
#include "profiles_service.pb-c.h"
#include "proto/json.h"
#include "proto/otlp/otlp_json_fields.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>

_Static_assert((int)OTLP_JSON_MALFORMED == (int)JSON_MALFORMED, "outcomes are passed on");
_Static_assert((int)OTLP_JSON_TOO_BIG == (int)BUF_FULL, "outcomes are passed on");

struct reader {
    struct json json;
    struct buf *out;
    struct buf scratch; /* of bytes that are written with escapes */
};

static int read_message(struct reader *reader, const ProtobufCMessageDescriptor *descriptor,
                        unsigned depth);

/* ---- keys ---- */

static bool is_camel_case_of(const char *name, struct bytes key)
{
    size_t i = 0;
    for (; *name; name++) {
        bool capital = *name == '_';
        name += capital;
        if (i == key.len || key.data[i] != (capital ? toupper((unsigned char)*name) : *name))
            return false;
        i++;
    }
    return i == key.len;
}

/* Writers keep the order of the schema: the search begins where the last one ended. */
static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *descriptor,
                                                  struct bytes key, unsigned *hint)
{
    for (unsigned n = 0, i = *hint; n < descriptor->n_fields; n++, i++) {
        if (i >= descriptor->n_fields)
            i = 0;
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (!key.len || key.data[0] != (uint8_t)field->name[0] ||
            (!is_camel_case_of(field->name, key) && !bytes_is(key, field->name)))
            continue;
        *hint = i + 1;
        return field;
    }
    return NULL;
}

/* Until OTLP 1.8: the samples would be skipped as an unknown key, and with them what the request is
 * about. */
static bool is_former_samples(const ProtobufCMessageDescriptor *descriptor, struct bytes key)
{
    return descriptor == &opentelemetry__proto__profiles__v1development__profile__descriptor &&
           bytes_is(key, "sample");
}

/* The text of a string that is no longer than any name or number; else cut, which is none. */
static int short_text(struct reader *reader, struct buf *unescaped, struct bytes *text)
{
    struct json_string string;
    int error = json_string(&reader->json, &string);
    *text = string.raw;
    if (error || !string.escaped)
        return error;
    const uint8_t *behind = reader->json.at;
    error = json_unescape(&reader->json, string.raw, unescaped);
    *text = buf_bytes(unescaped);
    if (error == BUF_FULL) { /* the rest of its escapes was not looked at: they do not matter */
        reader->json.at = behind;
        return JSON_OK;
    }
    return error;
}

/* ---- strings and bytes ---- */

static int put_text(struct reader *reader, const ProtobufCFieldDescriptor *field,
                    const struct json_string *string)
{
    struct wire_nest nest;
    if (!string->escaped)
        return wire_put_bytes(reader->out, field->id, string->raw);
    int error = wire_begin(reader->out, field->id, string->raw.len, &nest);
    error = error ? error : json_unescape(&reader->json, string->raw, reader->out);
    if (!error)
        wire_end(reader->out, &nest);
    return error;
}

static ptrdiff_t read_decode(enum otlp_json_bytes form, struct bytes text, uint8_t *out)
{
    size_t half = text.len / 2;
    bool hex = form == BYTES_HEX || (form == BYTES_HEX_OR_BASE64 && text.len == 32);
    if (hex && text.len % 2 == 0 && bytes_from_hex(text, out, half))
        return (ptrdiff_t)half;
    return form == BYTES_HEX ? -1 : bytes_from_base64(text, out);
}

static int put_bytes(struct reader *reader, const ProtobufCFieldDescriptor *field,
                     const struct json_string *string)
{
    struct bytes text = string->raw;
    int error = 0;
    if (string->escaped) { /* as a slash may be */
        buf_clear(&reader->scratch);
        error = json_unescape(&reader->json, string->raw, &reader->scratch);
        text = buf_bytes(&reader->scratch);
    }
    struct wire_nest nest;
    error = error ? error : wire_begin(reader->out, field->id, text.len + 3, &nest);
    error = error ? error : buf_reserve(reader->out, text.len + 3);
    if (error)
        return error;
    ptrdiff_t n =
        read_decode(otlp_json_bytes_of(field), text, reader->out->data + reader->out->len);
    if (n < 0) {
        reader->json.at = string->raw.data;
        return json_fail(&reader->json, otlp_json_bytes_of(field) == BYTES_HEX
                                            ? "an id is not in hex digits"
                                            : "bytes are not in base64");
    }
    reader->out->len += (size_t)n;
    wire_end(reader->out, &nest);
    return 0;
}

static int read_string(struct reader *reader, const ProtobufCFieldDescriptor *field, bool zero_too)
{
    struct json_string string;
    int error = json_string(&reader->json, &string);
    if (error || (!string.raw.len && !zero_too))
        return error;
    return field->type == PROTOBUF_C_TYPE_STRING ? put_text(reader, field, &string)
                                                 : put_bytes(reader, field, &string);
}

/* ---- numbers ---- */

static bool read_fits(ProtobufCType type, bool negative, uint64_t magnitude)
{
    switch (type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return magnitude <= UINT32_MAX && !(negative && magnitude);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return !(negative && magnitude);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return magnitude <= (uint64_t)INT64_MAX + negative;
    default:
        return magnitude <= (uint64_t)INT32_MAX + negative;
    }
}

static int integer_of(struct reader *reader, ProtobufCType type, struct bytes number,
                      uint64_t *value)
{
    bool negative;
    uint64_t magnitude;
    if (!json_integer(number, &negative, &magnitude) || !read_fits(type, negative, magnitude))
        return json_fail(&reader->json, "a number is no integer of the field's range");
    uint64_t bits = negative ? -magnitude : magnitude;
    bool zigzag = type == PROTOBUF_C_TYPE_SINT32 || type == PROTOBUF_C_TYPE_SINT64;
    *value = zigzag ? bits << 1 ^ (negative ? UINT64_MAX : 0) : bits;
    return 0;
}

static bool double_of_name(struct bytes text, double *value)
{
    static const struct {
        const char *name;
        double value;
    } names[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!bytes_is(text, names[i].name))
            continue;
        *value = names[i].value;
        return true;
    }
    return false;
}

/* float is not in OTLP: asserted in read_number(). */
static int double_of(struct reader *reader, struct bytes text, bool is_number, uint64_t *bits)
{
    double value;
    if (!(is_number && json_double(text, &value)) && !double_of_name(text, &value))
        return json_fail(&reader->json,
                         is_number ? "a number is beyond a double" : "a number is missing");
    memcpy(bits, &value, sizeof(value));
    return 0;
}

static bool enumerator_of(const ProtobufCFieldDescriptor *field, struct bytes text, uint64_t *value)
{
    char name[64];
    if (field->type != PROTOBUF_C_TYPE_ENUM || text.len >= sizeof(name))
        return false;
    memcpy(name, text.data, text.len);
    name[text.len] = '\0';
    const ProtobufCEnumValue *found =
        protobuf_c_enum_descriptor_get_value_by_name(field->descriptor, name);
    *value = found ? (uint64_t)found->value : 0;
    return found;
}

static int value_of(struct reader *reader, const ProtobufCFieldDescriptor *field, struct bytes text,
                    bool quoted, uint64_t *value)
{
    bool is_number = text.len && json_number_length(text) == text.len;
    if (quoted && enumerator_of(field, text, value))
        return 0;
    if (field->type == PROTOBUF_C_TYPE_DOUBLE)
        return double_of(reader, text, is_number, value);
    return is_number ? integer_of(reader, field->type, text, value)
                     : json_fail(&reader->json, "a number is missing");
}

/* A number or bool, as it is on the wire. */
static int read_number(struct reader *reader, const ProtobufCFieldDescriptor *field,
                       uint64_t *value)
{
    struct buf unescaped = BUF_INIT(64);
    struct bytes text;
    assert(field->type != PROTOBUF_C_TYPE_FLOAT);
    *value = 0;
    if (field->type == PROTOBUF_C_TYPE_BOOL) {
        bool flag;
        int error = json_bool(&reader->json, &flag);
        *value = flag;
        return error;
    }
    bool quoted = json_sees(&reader->json, '"');
    const uint8_t *begin = reader->json.at;
    int error = quoted ? short_text(reader, &unescaped, &text) : json_number(&reader->json, &text);
    error = error ? error : value_of(reader, field, text, quoted, value);
    if (error == JSON_MALFORMED)
        reader->json.at = begin;
    buf_close(&unescaped);
    return error;
}

static int put_bare(struct buf *out, enum wire_type type, uint64_t value)
{
    if (type == WIRE_VARINT)
        return wire_put_bare_varint(out, value);
    return buf_append(out, &value, type == WIRE_FIXED64 ? 8 : 4); /* little-endian: see wire.c */
}

static int read_singular_number(struct reader *reader, const ProtobufCFieldDescriptor *field,
                                bool zero_too)
{
    uint64_t value;
    int error = read_number(reader, field, &value);
    if (error || (!value && !zero_too))
        return error;
    switch (otlp_json_wire_type(field->type)) {
    case WIRE_FIXED64:
        return wire_put_fixed64(reader->out, field->id, value);
    case WIRE_FIXED32:
        return wire_put_fixed32(reader->out, field->id, (uint32_t)value);
    default:
        return wire_put_varint(reader->out, field->id, value);
    }
}

/* ---- fields ---- */

static size_t reader_longest(const struct reader *reader)
{
    return reader->out->limit_bytes;
}

static int read_nested(struct reader *reader, const ProtobufCFieldDescriptor *field, unsigned depth)
{
    struct wire_nest nest;
    int error = wire_begin(reader->out, field->id, reader_longest(reader), &nest);
    error = error ? error : read_message(reader, field->descriptor, depth + 1);
    if (!error)
        wire_end(reader->out, &nest);
    return error;
}

static int read_item(struct reader *reader, const ProtobufCFieldDescriptor *field, unsigned depth)
{
    uint64_t value;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return read_nested(reader, field, depth);
    if (!otlp_json_is_number(field))
        return read_string(reader, field, true);
    int error = read_number(reader, field, &value);
    return error ? error : put_bare(reader->out, otlp_json_wire_type(field->type), value);
}

static int read_items(struct reader *reader, const ProtobufCFieldDescriptor *field, unsigned depth)
{
    bool first = true;
    int error = json_expect(&reader->json, '[', "an array is missing");
    while (!error && !(error = json_next(&reader->json, ']', &first)))
        error = read_item(reader, field, depth);
    return error == JSON_END ? 0 : error;
}

static int read_packed(struct reader *reader, const ProtobufCFieldDescriptor *field)
{
    struct wire_nest nest;
    size_t before = reader->out->len;
    int error = wire_begin(reader->out, field->id, reader_longest(reader), &nest);
    error = error ? error : read_items(reader, field, 0);
    if (error)
        return error;
    if (reader->out->len == nest.length_at + nest.length_size)
        reader->out->len = before; /* an empty list is no field */
    else
        wire_end(reader->out, &nest);
    return 0;
}

static int read_field(struct reader *reader, const ProtobufCFieldDescriptor *field, unsigned depth)
{
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return otlp_json_is_number(field) ? read_packed(reader, field)
                                          : read_items(reader, field, depth);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return read_nested(reader, field, depth);
    bool zero_too = otlp_json_is_oneof(field);
    return otlp_json_is_number(field) ? read_singular_number(reader, field, zero_too)
                                      : read_string(reader, field, zero_too);
}

/* The bits of a field, and with a value of those that it excludes. */
static uint64_t bits_of(const ProtobufCMessageDescriptor *descriptor,
                        const ProtobufCFieldDescriptor *field, bool null)
{
    uint64_t bits = UINT64_C(1) << (field - descriptor->fields);
    for (unsigned i = 0; !null && otlp_json_is_oneof(field) && i < descriptor->n_fields; i++)
        if (otlp_json_same_oneof(field, &descriptor->fields[i]))
            bits |= UINT64_C(1) << i;
    return bits;
}

static int read_member(struct reader *reader, const ProtobufCMessageDescriptor *descriptor,
                       unsigned *hint, uint64_t *seen, unsigned depth)
{
    struct buf unescaped = BUF_INIT(64);
    struct bytes key;
    json_sees(&reader->json, '"');
    const uint8_t *begin = reader->json.at;
    int error = short_text(reader, &unescaped, &key);
    const ProtobufCFieldDescriptor *field = error ? NULL : find_field(descriptor, key, hint);
    bool is_former = !error && !field && is_former_samples(descriptor, key);
    buf_close(&unescaped);
    if (is_former) {
        reader->json.at = begin;
        return json_fail(&reader->json,
                         "profiles of OTLP 1.8 or before, which are not read as JSON");
    }
    error = error ? error : json_expect(&reader->json, ':', "a colon is missing");
    if (error)
        return error;
    if (!field)
        return json_skip(&reader->json);
    bool null = json_takes_null(&reader->json);
    if (*seen >> (field - descriptor->fields) & 1) {
        reader->json.at = begin;
        return json_fail(&reader->json, "a key twice, or two of which only one may be");
    }
    *seen |= bits_of(descriptor, field, null);
    return null ? 0 : read_field(reader, field, depth);
}

static int read_message(struct reader *reader, const ProtobufCMessageDescriptor *descriptor,
                        unsigned depth)
{
    uint64_t seen = 0;
    unsigned hint = 0;
    bool first = true;
    assert(descriptor->n_fields <= 64);
    if (depth > PB_DEPTH_MAX)
        return json_fail(&reader->json, "nested too deep");
    int error = json_expect(&reader->json, '{', "an object is missing");
    while (!error && !(error = json_next(&reader->json, '}', &first)))
        error = read_member(reader, descriptor, &hint, &seen, depth);
    return error == JSON_END ? 0 : error;
}

int otlp_json_read(const ProtobufCMessageDescriptor *descriptor, struct bytes text, struct buf *out,
                   struct otlp_json_error *error)
{
    struct reader reader = {.json = json_open(text), .out = out, .scratch = BUF_INIT(text.len)};
    size_t before = out->len;
    assert(out->limit_bytes);
    int outcome = read_message(&reader, descriptor, 1);
    outcome = outcome ? outcome : json_finish(&reader.json);
    if (outcome)
        out->len = before;
    *error = (struct otlp_json_error){outcome == JSON_MALFORMED ? reader.json.what : NULL,
                                      (size_t)(reader.json.at - reader.json.start)};
    buf_close(&reader.scratch);
    return outcome;
}
