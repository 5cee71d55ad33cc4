/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/otlp_json.h"
#include "proto/otlp/otlp_json_fields.h"

enum otlp_json_bytes otlp_json_bytes_of(const ProtobufCFieldDescriptor *field)
{
    static const struct {
        const char *name;
        enum otlp_json_bytes bytes;
    } names[] = {{"trace_id", BYTES_HEX},
                 {"span_id", BYTES_HEX},
                 {"parent_span_id", BYTES_HEX},
                 {"profile_id", BYTES_HEX_OR_BASE64}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(field->name, names[i].name))
            return names[i].bytes;
    return BYTES_BASE64;
}

enum wire_type otlp_json_wire_type(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_FIXED32;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_FIXED64;
    default:
        return WIRE_VARINT;
    }
}
