/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What both directions know of a field. Private to proto/otlp_json_*.c. */
#include "proto/otlp/otlp_json.h"
#include "proto/pb.h"
#include "proto/wire.h"

enum otlp_json_bytes { BYTES_BASE64, BYTES_HEX, BYTES_HEX_OR_BASE64 };

enum otlp_json_bytes otlp_json_bytes_of(const ProtobufCFieldDescriptor *field);

static inline bool otlp_json_is_oneof(const ProtobufCFieldDescriptor *field)
{
    return field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
}

/* The members of a oneof share the field that says which of them is set. */
static inline bool otlp_json_same_oneof(const ProtobufCFieldDescriptor *a,
                                        const ProtobufCFieldDescriptor *b)
{
    return otlp_json_is_oneof(a) && otlp_json_is_oneof(b) &&
           a->quantifier_offset == b->quantifier_offset;
}

static inline bool otlp_json_is_number(const ProtobufCFieldDescriptor *field)
{
    return field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_STRING &&
           field->type != PROTOBUF_C_TYPE_BYTES;
}

/* Of a number, bool or enumerator. */
enum wire_type otlp_json_wire_type(ProtobufCType type);
