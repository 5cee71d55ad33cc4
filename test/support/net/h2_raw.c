/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/net/h2_raw.h"
#include <stdlib.h>

enum { FRAME_HEADER = 9 };

static void append(struct buf *out, const void *data, size_t size)
{
    if (buf_append(out, data, size))
        abort();
}

static void put_u32(uint8_t *out, uint32_t value)
{
    out[0] = (uint8_t)(value >> 24);
    out[1] = (uint8_t)(value >> 16);
    out[2] = (uint8_t)(value >> 8);
    out[3] = (uint8_t)value;
}

uint32_t h2_raw_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

void h2_raw_frame(struct buf *out, uint8_t type, uint8_t flags, uint32_t stream,
                  struct bytes payload)
{
    uint8_t header[FRAME_HEADER];
    put_u32(header, (uint32_t)payload.len << 8);
    header[3] = type;
    header[4] = flags;
    put_u32(header + 5, stream);
    append(out, header, sizeof(header));
    append(out, payload.data, payload.len);
}

static void put_length(struct buf *out, size_t n) /* HPACK integer with a prefix of 7 bits */
{
    uint8_t byte = (uint8_t)(n < 127 ? n : 127);
    append(out, &byte, 1);
    if (n < 127)
        return;
    for (n -= 127; n >= 128; n >>= 7) {
        byte = (uint8_t)(n & 127) | 128;
        append(out, &byte, 1);
    }
    byte = (uint8_t)n;
    append(out, &byte, 1);
}

void h2_raw_header(struct buf *block, const char *name, struct bytes value)
{
    append(block, "\x10", 1);
    put_length(block, strlen(name));
    append(block, name, strlen(name));
    put_length(block, value.len);
    append(block, value.data, value.len);
}

void h2_raw_request_block(struct buf *block, const char *path)
{
    h2_raw_header(block, ":method", BYTES_LIT("POST"));
    h2_raw_header(block, ":scheme", BYTES_LIT("http"));
    h2_raw_header(block, ":path", BYTES_STR(path));
    h2_raw_header(block, ":authority", BYTES_LIT("localhost"));
    h2_raw_header(block, "content-type", BYTES_LIT("application/grpc"));
    h2_raw_header(block, "te", BYTES_LIT("trailers"));
}

bool h2_raw_next(struct bytes *in, struct h2_raw_seen *frame)
{
    if (in->len < FRAME_HEADER)
        return false;
    size_t size = h2_raw_u32(in->data) >> 8;
    if (in->len - FRAME_HEADER < size)
        return false;
    *frame = (struct h2_raw_seen){in->data[3], in->data[4], h2_raw_u32(in->data + 5),
                                  BYTES(in->data + FRAME_HEADER, size)};
    in->data += FRAME_HEADER + size;
    in->len -= FRAME_HEADER + size;
    return true;
}
