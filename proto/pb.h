/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Decodes untrusted messages with protobuf-c. A message is first checked by the generated
 * descriptors, without allocation or recursion, and then decoded into an arena with a limit. Pure;
 * thread: any. Limits: PB_DEPTH_MAX messages within each other, the outermost counted; the arena's.
 */
#include "base/arena.h"
#include "base/buf.h"
#include <protobuf-c/protobuf-c.h>

#define PB_DEPTH_MAX 32
/* A message that consists of empty messages decodes to more than a hundred times its size, here and
 * at the next receiver; real telemetry to about ten times its size. */
#define PB_DECODED_FACTOR 32
#define PB_DECODED_FREE   (UINT64_C(1) << 20) /* bytes that any message may have */

enum pb_outcome {
    PB_OK = 0,
    /* also: wrong wire type of a known field, invalid UTF-8 in a string, too deep */
    PB_MALFORMED = 1,
    /* it decodes to more than PB_DECODED_FACTOR times its size, or (pb_unpack) to more than the
     * arena's limit or memory */
    PB_TOO_BIG = 2,
};

/* The whole message to its last nested field. Unknown fields are skipped, known ones must have
 * their wire type (repeated numbers packed or not), strings must be UTF-8, as a proto3 peer would
 * demand of us when we pass the bytes on. */
int pb_check(const ProtobufCMessageDescriptor *descriptor, struct bytes message);

/* pb_check(), then decodes. *message lives in the arena: never protobuf_c_message_free_unpacked().
 * A string with a NUL inside is cut there, since protobuf-c's strings have no length. Some messages
 * pass pb_check() and are PB_MALFORMED here, because protobuf-c 1.4 cannot merge them: a message
 * field that comes twice, both times with its oneof unset. No known encoder writes that. On any
 * outcome but PB_OK *message is NULL; memory taken from the arena stays used until the arena is
 * reset. */
int pb_unpack(const ProtobufCMessageDescriptor *descriptor, struct bytes bytes, struct arena *arena,
              ProtobufCMessage **message);
