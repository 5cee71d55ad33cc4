/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUF_FIRST_BYTES = 256 };

/* Doubling makes appending cheap; it stops at the limit, so that the limit bounds memory too. */
static size_t grown_cap(const struct buf *buf, size_t need)
{
    size_t cap = buf->cap < BUF_FIRST_BYTES / 2 ? BUF_FIRST_BYTES : buf->cap;
    if (buf->cap && cap <= SIZE_MAX / 2)
        cap *= 2;
    if (buf->limit_bytes && cap > buf->limit_bytes)
        cap = buf->limit_bytes;
    return cap < need ? need : cap;
}

int buf_reserve(struct buf *buf, size_t more)
{
    if (more > SIZE_MAX / 2 - buf->len)
        return buf->limit_bytes ? BUF_FULL : -ENOMEM;
    size_t need = buf->len + more;
    if (buf->limit_bytes && need > buf->limit_bytes)
        return BUF_FULL;
    if (need <= buf->cap)
        return 0;
    size_t cap = grown_cap(buf, need);
    uint8_t *data = realloc(buf->data, cap);
    if (!data)
        return -ENOMEM;
    buf->data = data;
    buf->cap = cap;
    return 0;
}

int buf_append(struct buf *buf, const void *data, size_t size)
{
    int outcome = buf_reserve(buf, size);
    if (outcome || !size)
        return outcome;
    memcpy(buf->data + buf->len, data, size);
    buf->len += size;
    return 0;
}

int buf_append_bytes(struct buf *buf, struct bytes bytes)
{
    return buf_append(buf, bytes.data, bytes.len);
}

/* vsnprintf() wants a place for its NUL, which is not part of the text: hence the detour at the
 * limit. */
static int printf_at_limit(struct buf *buf, size_t len, const char *format, va_list arguments)
{
    char *text = malloc(len + 1);
    if (!text)
        return -ENOMEM;
    vsnprintf(text, len + 1, format, arguments);
    int outcome = buf_append(buf, text, len);
    free(text);
    return outcome;
}

int buf_printf(struct buf *buf, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = buf->cap - buf->len;
    int len = vsnprintf(room ? (char *)buf->data + buf->len : NULL, room, format, arguments);
    va_end(arguments);
    if (len < 0)
        return -EINVAL;
    if ((size_t)len < room)
        return buf->len += (size_t)len, 0;
    int outcome = buf_reserve(buf, (size_t)len);
    if (outcome)
        return outcome;
    va_start(arguments, format);
    if (buf_reserve(buf, (size_t)len + 1)) {
        outcome = printf_at_limit(buf, (size_t)len, format, arguments);
    } else {
        vsnprintf((char *)buf->data + buf->len, (size_t)len + 1, format, arguments);
        buf->len += (size_t)len;
    }
    va_end(arguments);
    return outcome;
}

void buf_consume(struct buf *buf, size_t size)
{
    if (size >= buf->len) {
        buf->len = 0;
        return;
    }
    if (!size)
        return;
    memmove(buf->data, buf->data + size, buf->len - size);
    buf->len -= size;
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
}

void buf_close(struct buf *buf)
{
    free(buf->data);
    *buf = BUF_INIT(buf->limit_bytes);
}

void buf_closep(struct buf *buf)
{
    buf_close(buf);
}

struct bytes buf_bytes(const struct buf *buf)
{
    return BYTES(buf->data, buf->len);
}

uint8_t *buf_release(struct buf *buf, size_t *len)
{
    uint8_t *data = buf->data;
    if (len)
        *len = buf->len;
    *buf = BUF_INIT(buf->limit_bytes);
    return data;
}
