/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers are short where they usually are small; nothing here trusts what it reads. */
#include "store/blob.h"

void blob_put_fixed(struct blob_writer *out, const void *data, size_t size)
{
    if (out->error || !size)
        return;
    out->error = buf_append(&out->buf, data, size); /* without a limit: 0 or -ENOMEM */
}

#define NUMBER_BYTES_MAX 10

/* Straight into the buffer: stacks and samples are mostly numbers. */
void blob_put_number(struct blob_writer *out, uint64_t number)
{
    struct buf *buf = &out->buf;
    if (buf->cap - buf->len < NUMBER_BYTES_MAX && !out->error)
        out->error = buf_reserve(buf, NUMBER_BYTES_MAX);
    if (out->error)
        return;
    uint8_t *at = buf->data + buf->len;
    while (number >= 0x80) {
        *at++ = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    *at++ = (uint8_t)number;
    buf->len = (size_t)(at - buf->data);
}

void blob_put_signed(struct blob_writer *out, int64_t number)
{
    uint64_t twice = (uint64_t)number << 1;
    blob_put_number(out, number < 0 ? ~twice : twice);
}

void blob_put_bytes(struct blob_writer *out, struct bytes bytes)
{
    blob_put_number(out, bytes.len);
    blob_put_fixed(out, bytes.data, bytes.len);
}

void blob_writer_closep(struct blob_writer *out)
{
    buf_close(&out->buf);
}

uint64_t blob_get_number(struct blob_reader *in)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64 && in->left.len; shift += 7) {
        uint8_t byte = *in->left.data;
        in->left.data++;
        in->left.len--;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return in->bad ? 0 : number;
    }
    in->bad = true;
    return 0;
}

uint32_t blob_get_number32(struct blob_reader *in)
{
    uint64_t number = blob_get_number(in);
    if (number > UINT32_MAX) {
        in->bad = true;
        return 0;
    }
    return (uint32_t)number;
}

int64_t blob_get_signed(struct blob_reader *in)
{
    uint64_t twice = blob_get_number(in);
    return (int64_t)(twice & 1 ? ~(twice >> 1) : twice >> 1);
}

void blob_get_fixed(struct blob_reader *in, void *data, size_t size)
{
    if (in->bad || in->left.len < size) {
        in->bad = true;
        memset(data, 0, size);
        return;
    }
    memcpy(data, in->left.data, size);
    in->left.data += size;
    in->left.len -= size;
}

struct bytes blob_get_bytes(struct blob_reader *in)
{
    uint64_t len = blob_get_number(in);
    if (in->bad || len > in->left.len) {
        in->bad = true;
        return BYTES(NULL, 0);
    }
    struct bytes bytes = {in->left.data, (size_t)len};
    in->left.data += len;
    in->left.len -= (size_t)len;
    return bytes;
}
