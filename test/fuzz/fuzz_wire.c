/* SPDX-License-Identifier: Apache-2.0 */
/* Fields are read, written again, and read again: the same, and never longer than they came. */
#include "proto/wire.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static int put_again(struct buf *out, const struct wire_field *field)
{
    switch (field->type) {
    case WIRE_VARINT:
        return wire_put_varint(out, field->number, field->value);
    case WIRE_FIXED64:
        return wire_put_fixed64(out, field->number, field->value);
    case WIRE_FIXED32:
        return wire_put_fixed32(out, field->number, (uint32_t)field->value);
    case WIRE_BYTES:
        return wire_put_bytes(out, field->number, field->bytes);
    }
    abort();
}

static void read_varints(struct bytes list)
{
    struct wire_reader reader = wire_read(list);
    uint64_t value;
    while (wire_next_varint(&reader, &value))
        require(reader.at <= reader.end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct wire_reader reader = wire_read(BYTES(data, size));
    struct wire_field field, again;
    int got;
    size_t read = 0;
    while ((got = wire_next(&reader, &field)) == WIRE_FIELD) {
        size_t before = out.len;
        read += field.raw.len;
        require(put_again(&out, &field) == 0);
        require(out.len - before <= field.raw.len);
        struct wire_reader back = wire_read(BYTES(out.data + before, out.len - before));
        require(wire_next(&back, &again) == WIRE_FIELD && back.at == back.end);
        require(again.number == field.number && again.type == field.type);
        require(again.value == field.value);
        if (field.type == WIRE_BYTES) {
            require(bytes_equal(again.bytes, field.bytes));
            read_varints(field.bytes);
        }
    }
    require((got == WIRE_END) == (read == size));
    return 0;
}
