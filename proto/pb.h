/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Messages of strangers through protobuf-c: checked first, by the generated descriptors, without
 * allocation or recursion; decoded only into an arena with its limit. Pure; thread: any.
 * Limits: PB_DEPTH_MAX messages within each other, the outermost counted; the arena's.
 */
#include "base/arena.h"
#include "base/buf.h"
#include <protobuf-c/protobuf-c.h>

#define PB_DEPTH_MAX 32
/* A message of nothing but empty messages decodes to more than a hundred times its size, here and
 * at whoever gets it next; real telemetry to about ten times. */
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
 * A string with a NUL inside is cut there, as protobuf-c's strings have no length. PB_MALFORMED may
 * be, where pb_check() passes, what protobuf-c 1.4 cannot merge: a field of one message that comes
 * twice, both times with its oneof unset; nobody writes that. On any outcome but PB_OK *message is
 * NULL; what the arena gave meanwhile stays used until it is reset. */
int pb_unpack(const ProtobufCMessageDescriptor *descriptor, struct bytes bytes, struct arena *arena,
              ProtobufCMessage **message);
