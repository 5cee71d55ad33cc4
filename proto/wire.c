/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire.h"

#include <assert.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fixed fields are copied as they are");

const uint8_t *wire_varint_long(const uint8_t *at, const uint8_t *end, unsigned limit,
                                uint64_t *value)
{
    uint64_t result = 0;
    for (unsigned i = 0; i < limit && at < end; i++) {
        uint8_t byte = *at++;
        if (i == WIRE_VARINT_MAX - 1 && byte > 1)
            return NULL; /* past 64 bits */
        result |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *value = result;
            return at;
        }
    }
    return NULL;
}

size_t wire_varint_size(uint64_t value)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    return (bits + 6) / 7;
}

size_t wire_tag_size(uint32_t number)
{
    return wire_varint_size((uint64_t)number << 3);
}

size_t wire_bytes_size(uint32_t number, size_t n)
{
    return wire_tag_size(number) + wire_varint_size(n) + n;
}

static uint8_t *write_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static uint8_t *write_tag(uint8_t *at, uint32_t number, enum wire_type type)
{
    assert(number > 0 && number <= WIRE_FIELD_MAX);
    return write_varint(at, (uint64_t)number << 3 | type);
}

int wire_put_bare_varint(struct buf *out, uint64_t value)
{
    uint8_t bytes[WIRE_VARINT_MAX];
    return buf_append(out, bytes, (size_t)(write_varint(bytes, value) - bytes));
}

int wire_put_varint(struct buf *out, uint32_t number, uint64_t value)
{
    uint8_t bytes[WIRE_SHORT_VARINT_MAX + WIRE_VARINT_MAX];
    uint8_t *end = write_varint(write_tag(bytes, number, WIRE_VARINT), value);
    return buf_append(out, bytes, (size_t)(end - bytes));
}

int wire_put_fixed64(struct buf *out, uint32_t number, uint64_t value)
{
    uint8_t bytes[WIRE_SHORT_VARINT_MAX + sizeof(value)];
    uint8_t *end = write_tag(bytes, number, WIRE_FIXED64);
    memcpy(end, &value, sizeof(value));
    return buf_append(out, bytes, (size_t)(end - bytes) + sizeof(value));
}

int wire_put_fixed32(struct buf *out, uint32_t number, uint32_t value)
{
    uint8_t bytes[WIRE_SHORT_VARINT_MAX + sizeof(value)];
    uint8_t *end = write_tag(bytes, number, WIRE_FIXED32);
    memcpy(end, &value, sizeof(value));
    return buf_append(out, bytes, (size_t)(end - bytes) + sizeof(value));
}

int wire_put_header(struct buf *out, uint32_t number, size_t n)
{
    uint8_t bytes[WIRE_SHORT_VARINT_MAX + WIRE_VARINT_MAX];
    uint8_t *end = write_varint(write_tag(bytes, number, WIRE_BYTES), n);
    return buf_append(out, bytes, (size_t)(end - bytes));
}

int wire_put_bytes(struct buf *out, uint32_t number, struct bytes bytes)
{
    int error = buf_reserve(out, wire_bytes_size(number, bytes.len));
    if (error)
        return error;
    uint8_t *end = write_tag(out->data + out->len, number, WIRE_BYTES);
    end = write_varint(end, bytes.len);
    if (bytes.len > 0)
        memcpy(end, bytes.data, bytes.len);
    out->len = (size_t)(end - out->data) + bytes.len;
    return 0;
}

int wire_begin(struct buf *out, uint32_t number, size_t max_len, struct wire_nest *nest)
{
    size_t tag_size = wire_tag_size(number);
    size_t length_size = wire_varint_size(max_len);
    int error = buf_reserve(out, tag_size + length_size);
    if (error)
        return error;
    write_tag(out->data + out->len, number, WIRE_BYTES);
    nest->length_at = out->len + tag_size;
    nest->length_size = length_size;
    out->len += tag_size + length_size;
    return 0;
}

void wire_end(struct buf *out, const struct wire_nest *nest)
{
    size_t start = nest->length_at + nest->length_size;
    assert(start <= out->len);
    size_t n = out->len - start;
    size_t length_size = wire_varint_size(n);
    assert(length_size <= nest->length_size);
    write_varint(out->data + nest->length_at, n);
    if (length_size < nest->length_size)
        memmove(out->data + nest->length_at + length_size, out->data + start, n);
    out->len = nest->length_at + length_size + n;
}
