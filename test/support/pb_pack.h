/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Messages that tests make with protobuf-c; the product writes its own with proto/wire.h. */
#include "base/buf.h"
#include <protobuf-c/protobuf-c.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* Appended to out. Asserts with cmocka. */
static inline void pb_pack(const ProtobufCMessage *message, struct buf *out)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    if (size == 0)
        return; /* out may have no memory yet */
    assert_int_equal(buf_reserve(out, size), 0);
    assert_int_equal(protobuf_c_message_pack(message, out->data + out->len), size);
    out->len += size;
}
