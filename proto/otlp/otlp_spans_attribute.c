/* SPDX-License-Identifier: Apache-2.0 */
/* Writing of attributes. The oneof in AnyValue makes zero and "" values too: they are always
 * written. */
#include "proto/otlp/otlp_spans_walk.h"

#include <assert.h>

/* Tag, length and key of a KeyValue with an AnyValue of value_size bytes, and that value's header.
 * Room for all of it is made first, so that nothing after it can fail. */
static int put_key(struct buf *out, uint32_t field, const char *key, size_t value_size)
{
    struct bytes name = BYTES_STR(key);
    size_t size =
        wire_bytes_size(KEY_VALUE_KEY, name.len) + wire_bytes_size(KEY_VALUE_VALUE, value_size);
    int error = buf_reserve(out, wire_bytes_size(field, size));
    if (error)
        return error;
    error = wire_put_header(out, field, size);
    error |= wire_put_bytes(out, KEY_VALUE_KEY, name);
    error |= wire_put_header(out, KEY_VALUE_VALUE, value_size);
    assert(!error);
    return 0;
}

int otlp_attribute_string(struct buf *out, uint32_t field, const char *key, struct bytes value)
{
    int error = put_key(out, field, key, wire_bytes_size(ANY_VALUE_STRING, value.len));
    return error ? error : wire_put_bytes(out, ANY_VALUE_STRING, value);
}

int otlp_attribute_int(struct buf *out, uint32_t field, const char *key, int64_t value)
{
    size_t size = wire_tag_size(ANY_VALUE_INT) + wire_varint_size((uint64_t)value);
    int error = put_key(out, field, key, size);
    return error ? error : wire_put_varint(out, ANY_VALUE_INT, (uint64_t)value);
}

int otlp_attribute_strings(struct buf *out, uint32_t field, const char *key,
                           const struct bytes *values, size_t n)
{
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += wire_bytes_size(ARRAY_VALUES, wire_bytes_size(ANY_VALUE_STRING, values[i].len));
    int error = put_key(out, field, key, wire_bytes_size(ANY_VALUE_ARRAY, size));
    if (error)
        return error;
    error = wire_put_header(out, ANY_VALUE_ARRAY, size);
    for (size_t i = 0; i < n; i++) {
        error |=
            wire_put_header(out, ARRAY_VALUES, wire_bytes_size(ANY_VALUE_STRING, values[i].len));
        error |= wire_put_bytes(out, ANY_VALUE_STRING, values[i]);
    }
    assert(!error);
    return 0;
}
