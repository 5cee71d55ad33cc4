/* SPDX-License-Identifier: Apache-2.0 */
/* Reads spans on the wire. Decoding every span would cost too much: for nearly all spans the join
 * needs only two ids. */
#include "proto/otlp/otlp_spans.h"
#include "proto/otlp/otlp_spans_walk.h"
#include "proto/pb.h"
#include "trace_service.pb-c.h"

_Static_assert(PB_OK == (int)OTLP_OK && PB_MALFORMED == (int)OTLP_MALFORMED &&
                   PB_TOO_BIG == (int)OTLP_TOO_BIG,
               "an outcome of pb_check() is one of otlp_spans_check()");

/* SpanFlags of trace.proto */
enum { FLAG_HAS_IS_REMOTE = 0x100, FLAG_IS_REMOTE = 0x200 };
#define STATUS_CODE_ERROR 2

int otlp_spans_check(struct bytes request)
{
    return pb_check(
        &opentelemetry__proto__collector__trace__v1__export_trace_service_request__descriptor,
        request);
}

static int count_span(void *context, struct bytes span)
{
    (void)span;
    ++*(uint64_t *)context;
    return 0;
}

uint64_t otlp_spans_count(struct bytes request)
{
    uint64_t n = 0;
    struct spans_walk walk = {.span = count_span, .context = &n};
    spans_walk(request, &walk);
    return n;
}

bool otlp_span_is_local_root(const struct otlp_span *span)
{
    struct bytes parent = span->parent_span_id;
    if (bytes_zero(parent.data, parent.len))
        return true;
    if (span->flags & FLAG_HAS_IS_REMOTE)
        return span->flags & FLAG_IS_REMOTE;
    return span->kind == SPAN_SERVER || span->kind == SPAN_CONSUMER;
}

/* Parts of a message that stands several times are merged: the last code counts. */
static void read_status(struct bytes status, uint64_t *code)
{
    struct wire_reader reader = wire_read(status);
    struct wire_field field;
    while (wire_next(&reader, &field) == WIRE_FIELD)
        if (field.number == STATUS_CODE && field.type == WIRE_VARINT)
            *code = field.value;
}

bool otlp_span_is_error(const struct otlp_span *span)
{
    struct wire_reader reader = wire_read(span->raw);
    struct wire_field field;
    uint64_t code = 0;
    while (wire_next(&reader, &field) == WIRE_FIELD)
        if (spans_nested(&field, SPAN_STATUS))
            read_status(field.bytes, &code);
    return code == STATUS_CODE_ERROR;
}

/* As everywhere in protobuf, the last of several counts. */
struct bytes otlp_key_value_key(struct bytes key_value)
{
    struct wire_reader reader = wire_read(key_value);
    struct wire_field field;
    struct bytes key = {NULL, 0};
    while (wire_next(&reader, &field) == WIRE_FIELD)
        if (spans_nested(&field, KEY_VALUE_KEY))
            key = field.bytes;
    return key;
}

static bool find_attribute(struct bytes message, uint32_t number, struct bytes key,
                           struct bytes *key_value)
{
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    while (wire_next(&reader, &field) == WIRE_FIELD) {
        if (!spans_nested(&field, number) || !bytes_equal(otlp_key_value_key(field.bytes), key))
            continue;
        *key_value = field.bytes;
        return true;
    }
    return false;
}

bool otlp_span_attribute(const struct otlp_span *span, const char *key, struct bytes *key_value)
{
    return find_attribute(span->raw, OTLP_SPAN_ATTRIBUTES, BYTES_STR(key), key_value);
}

bool otlp_resource_attribute(struct bytes resource, const char *key, struct bytes *key_value)
{
    return find_attribute(resource, RESOURCE_ATTRIBUTES, BYTES_STR(key), key_value);
}

bool otlp_resource_has(struct bytes resource, struct bytes key)
{
    struct bytes key_value;
    return find_attribute(resource, RESOURCE_ATTRIBUTES, key, &key_value);
}

/* The member that the oneof of AnyValue ends up with: the last one, over all parts of the value. */
static bool value_of(struct bytes key_value, struct wire_field *member)
{
    struct wire_reader reader = wire_read(key_value);
    struct wire_field value;
    bool found = false;
    while (wire_next(&reader, &value) == WIRE_FIELD) {
        if (!spans_nested(&value, KEY_VALUE_VALUE))
            continue;
        struct wire_reader members = wire_read(value.bytes);
        struct wire_field field;
        while (wire_next(&members, &field) == WIRE_FIELD) {
            if (field.number < ANY_VALUE_STRING || field.number > ANY_VALUE_STRINDEX)
                continue;
            *member = field;
            found = true;
        }
    }
    return found;
}

bool otlp_key_value_string(struct bytes key_value, struct bytes *text)
{
    struct wire_field member;
    if (!value_of(key_value, &member) || !spans_nested(&member, ANY_VALUE_STRING))
        return false;
    *text = member.bytes;
    return true;
}

bool otlp_key_value_int(struct bytes key_value, int64_t *number)
{
    struct wire_field member;
    if (!value_of(key_value, &member) || member.number != ANY_VALUE_INT ||
        member.type != WIRE_VARINT)
        return false;
    *number = (int64_t)member.value;
    return true;
}
