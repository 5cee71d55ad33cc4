/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * OTLP/JSON and protobuf, into each other, driven by the generated descriptors
 * (proto/otlp/otlp_schema.h has those of the requests and responses). Pure; thread: any. Source:
 * OTLP specification 1.11, "JSON Protobuf Encoding", and protobuf.dev, "ProtoJSON Format".
 *
 * Read: keys in lowerCamelCase, or as in the .proto files, as the Collector does; unknown keys are
 * ignored; null is a field that is not set. trace_id, span_id, parent_span_id: hex of either case;
 * profile_id: 32 hex digits or base64; other bytes base64 or base64url. Integers as numbers or
 * strings; enumerators by number, or by name, which a sender must not write but some do. A key
 * twice, or two members of a oneof: malformed.
 * Written: fields in the order of their numbers, zeros left out, 64-bit integers as strings,
 * enumerators by number. profile_id in hex, as the Collector writes and reads it, though OTLP's
 * exception names only the others. Fields that the schema does not know are lost.
 *
 * Limits: PB_DEPTH_MAX messages within each other; the limit of `out`, which must have one. What is
 * read grows to four times its size at most (short numbers).
 */
#include "base/buf.h"
#include <protobuf-c/protobuf-c.h>

enum otlp_json_outcome {
    OTLP_JSON_OK = 0,
    OTLP_JSON_TOO_BIG = 1, /* BUF_FULL: out's limit */
    OTLP_JSON_MALFORMED = 2,
};

struct otlp_json_error {
    const char *what; /* static, without quotes; NULL: nothing is wrong with the text */
    size_t offset;    /* of the byte of the text where it was noticed */
};

/* Appends the protobuf encoding of the message that the text holds. OTLP_JSON_*, -ENOMEM; on
 * anything but OTLP_JSON_OK nothing was appended. error: filled in each time. */
int otlp_json_read(const ProtobufCMessageDescriptor *descriptor, struct bytes text, struct buf *out,
                   struct otlp_json_error *error);

/* Appends the message as one line of JSON, without an end of line. Outcomes as above; malformed:
 * what pb_check() would refuse. */
int otlp_json_write(const ProtobufCMessageDescriptor *descriptor, struct bytes message,
                    struct buf *out);
