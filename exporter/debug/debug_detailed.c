/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints every field that protobuf-c's descriptors list, one field per line, with nested messages
 * indented. After an index into the dictionary's strings or attributes comes the entry itself.
 */
#include "exporter/debug/debug_state.h"
#include <inttypes.h>

#define INDENT 2

static void message_lines(struct debug_text *text, const ProtobufCMessage *message, int depth);

static bool is_index_of(const ProtobufCFieldDescriptor *field, const char *end)
{
    size_t name = strlen(field->name), len = strlen(end);
    return name >= len && !strcmp(field->name + name - len, end);
}

static void int32_value(struct debug_text *text, const ProtobufCFieldDescriptor *field,
                        int32_t number)
{
    bool is_string = is_index_of(field, "_strindex");
    bool is_attribute = is_index_of(field, "attribute_indices");
    debug_printf(text, "%" PRId32, number);
    if (!text->dictionary || (!is_string && !is_attribute))
        return;
    debug_printf(text, " (");
    if (is_string)
        debug_strindex(text, number);
    else
        debug_attribute(text, number);
    debug_printf(text, ")");
}

static void enum_value(struct debug_text *text, const ProtobufCEnumDescriptor *descriptor,
                       int number)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(descriptor, number);
    if (value)
        debug_printf(text, "%s", value->name);
    else
        debug_printf(text, "%d", number);
}

static void debug_text_scalar(struct debug_text *text, const ProtobufCFieldDescriptor *field,
                              const void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return int32_value(text, field, *(const int32_t *)at);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return debug_printf(text, "%" PRId64, *(const int64_t *)at);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return debug_printf(text, "%" PRIu32, *(const uint32_t *)at);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return debug_printf(text, "%" PRIu64, *(const uint64_t *)at);
    case PROTOBUF_C_TYPE_FLOAT:
        return debug_printf(text, "%g", (double)*(const float *)at);
    case PROTOBUF_C_TYPE_DOUBLE:
        return debug_printf(text, "%.17g", *(const double *)at);
    case PROTOBUF_C_TYPE_BOOL:
        return debug_printf(text, "%s", *(const protobuf_c_boolean *)at ? "true" : "false");
    case PROTOBUF_C_TYPE_ENUM:
        return enum_value(text, field->descriptor, *(const int *)at);
    case PROTOBUF_C_TYPE_STRING:
        return debug_string(text, *(char *const *)at);
    case PROTOBUF_C_TYPE_BYTES:
        return debug_hex(text, *(const ProtobufCBinaryData *)at);
    case PROTOBUF_C_TYPE_MESSAGE: /* messages take more than one line */
        return;
    }
}

static size_t size_of(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

static void debug_text_indent(struct debug_text *text, int depth)
{
    debug_printf(text, "%*s", INDENT * depth, "");
}

/* Prints an attribute as key=value: shorter and easier to read. */
static bool debug_text_attribute(struct debug_text *text, const ProtobufCMessage *message)
{
    bool plain = message->descriptor == &opentelemetry__proto__common__v1__key_value__descriptor;
    bool of_profile =
        message->descriptor ==
        &opentelemetry__proto__profiles__v1development__key_value_and_unit__descriptor;
    if (!plain && !of_profile)
        return false;
    debug_printf(text, ": ");
    if (plain)
        debug_key_value(text, (const KeyValue *)message);
    else
        debug_key_value_and_unit(text, (const KeyValueAndUnit *)message);
    return true;
}

/* The line already has the field's name. */
static void debug_text_one(struct debug_text *text, const ProtobufCFieldDescriptor *field,
                           const void *at, int depth)
{
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
        debug_printf(text, ": ");
        debug_text_scalar(text, field, at);
        debug_line_end(text);
        return;
    }
    const ProtobufCMessage *message = *(ProtobufCMessage *const *)at;
    bool done = debug_text_attribute(text, message);
    debug_line_end(text);
    if (!done)
        message_lines(text, message, depth + 1);
}

static void debug_text_numbers(struct debug_text *text, const ProtobufCFieldDescriptor *field,
                               const uint8_t *items, size_t n)
{
    debug_printf(text, "%s:", field->name);
    for (size_t i = 0; i < n && !text->cut; i++) {
        debug_printf(text, " ");
        debug_text_scalar(text, field, items + i * size_of(field));
    }
    debug_line_end(text);
}

static void debug_text_repeated(struct debug_text *text, const ProtobufCFieldDescriptor *field,
                                const uint8_t *items, size_t n, int depth)
{
    if (n && field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_STRING) {
        debug_text_indent(text, depth);
        return debug_text_numbers(text, field, items, n);
    }
    for (size_t i = 0; i < n; i++) {
        debug_text_indent(text, depth);
        debug_printf(text, "%s #%zu", field->name, i);
        debug_text_one(text, field, items + i * size_of(field), depth);
    }
}

/* proto3 does not encode a field with value zero. */
static bool is_set(const ProtobufCFieldDescriptor *field, const void *at)
{
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return *(char *const *)at && **(char *const *)at;
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)at)->len > 0;
    return !bytes_zero(at, size_of(field));
}

static void field_lines(struct debug_text *text, const ProtobufCMessage *message,
                        const ProtobufCFieldDescriptor *field, int depth)
{
    const uint8_t *base = (const uint8_t *)message;
    const void *at = base + field->offset;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t n = *(const size_t *)(const void *)(base + field->quantifier_offset);
        return debug_text_repeated(text, field, *(const uint8_t *const *)at, n, depth);
    }
    bool one_of = field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
    uint32_t chosen =
        one_of ? *(const uint32_t *)(const void *)(base + field->quantifier_offset) : 0;
    if (one_of ? chosen != field->id : !is_set(field, at))
        return;
    debug_text_indent(text, depth);
    debug_printf(text, "%s", field->name);
    debug_text_one(text, field, at, depth);
}

static void message_lines(struct debug_text *text, const ProtobufCMessage *message, int depth)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    for (unsigned i = 0; i < descriptor->n_fields; i++)
        field_lines(text, message, &descriptor->fields[i], depth);
}

void debug_detailed(struct debug_text *text, const ProtobufCMessage *message)
{
    message_lines(text, message, 0);
}
