/* SPDX-License-Identifier: Apache-2.0 */
/* Small numbers have short encodings. Readers check everything they read. */
#include "store/db/blob.h"

void blob_put_fixed(struct blob_writer *out, const void *data, size_t size)
{
    if (out->error || !size)
        return;
    out->error = buf_append(&out->buf, data, size); /* without a limit: 0 or -ENOMEM */
}

#define NUMBER_BYTES_MAX 10

/* Writes directly into the buffer, for speed: stacks and samples are mostly numbers. */
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

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are read as words");

/* Joins the low seven bits of each of the eight bytes. */
static uint64_t blob_squeeze(uint64_t word)
{
    word = (word & 0x007f007f007f007f) | (word & 0x7f007f007f007f00) >> 1;
    word = (word & 0x00003fff00003fff) | (word & 0x3fff00003fff0000) >> 2;
    return (word & 0x000000000fffffff) | (word & 0x0fffffff00000000) >> 4;
}

/* Decodes up to eight bytes at once: if the lengths of numbers vary, a branch per byte is slow. */
static bool get_word(struct blob_reader *in, uint64_t *number)
{
    const uint64_t last = 0x8080808080808080;
    uint64_t word;
    if (in->left.len < sizeof(word) || in->bad)
        return false;
    memcpy(&word, in->left.data, sizeof(word));
    uint64_t ends = ~word & last;
    if (!ends)
        return false;
    size_t len = (size_t)__builtin_ctzll(ends) / 8 + 1;
    *number = blob_squeeze(word & (ends ^ (ends - 1)) & ~last);
    in->left = BYTES(in->left.data + len, in->left.len - len);
    return true;
}

uint64_t blob_get_long_number(struct blob_reader *in)
{
    const uint8_t *at = in->left.data;
    size_t len = in->left.len < NUMBER_BYTES_MAX ? in->left.len : NUMBER_BYTES_MAX;
    uint64_t number = 0;
    if (get_word(in, &number))
        return number;
    if (!len) {
        in->bad = true;
        return 0;
    }
    for (size_t i = 0; i < len; i++) {
        number |= (uint64_t)(at[i] & 0x7f) << 7 * i;
        if (at[i] & 0x80)
            continue;
        in->left = BYTES(at + i + 1, in->left.len - i - 1);
        return in->bad ? 0 : number;
    }
    in->left = BYTES(at + len, in->left.len - len);
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
