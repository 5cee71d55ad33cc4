/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"

bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && (!a.len || !memcmp(a.data, b.data, a.len));
}

bool bytes_is(struct bytes a, const char *text)
{
    return bytes_equal(a, BYTES_STR(text));
}

bool bytes_zero(const void *data, size_t size)
{
    const uint8_t *byte = data;
    uint8_t any = 0;
    for (size_t i = 0; i < size; i++)
        any |= byte[i];
    return !any;
}

void bytes_to_hex(struct bytes in, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < in.len; i++) {
        *out++ = digits[in.data[i] >> 4];
        *out++ = digits[in.data[i] & 15];
    }
    *out = '\0';
}

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool bytes_from_hex(struct bytes hex, uint8_t *out, size_t size)
{
    if (hex.len / 2 != size || hex.len % 2)
        return false;
    for (size_t i = 0; i < size; i++) {
        int high = hex_value(hex.data[2 * i]), low = hex_value(hex.data[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

size_t bytes_to_base64(struct bytes in, bool url, char *out)
{
    static const char plain_digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char url_digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *digits = url ? url_digits : plain_digits;
    char *at = out;
    uint32_t group = 0;
    unsigned n_bits = 0;
    for (size_t i = 0; i < in.len; i++) {
        group = group << 8 | in.data[i];
        for (n_bits += 8; n_bits >= 6; n_bits -= 6)
            *at++ = digits[group >> (n_bits - 6) & 63];
    }
    if (n_bits)
        *at++ = digits[group << (6 - n_bits) & 63];
    *at = '\0';
    return (size_t)(at - out);
}

static int base64_value(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

ptrdiff_t bytes_from_base64(struct bytes in, uint8_t *out)
{
    size_t len = in.len;
    if (len && len % 4 == 0) { /* padding is right only where it fills up a group of four */
        for (int n = 0; n < 2 && in.data[len - 1] == '='; n++)
            len--;
    }
    if (len % 4 == 1)
        return -1;
    uint8_t *at = out;
    uint32_t group = 0;
    unsigned n_bits = 0;
    for (size_t i = 0; i < len; i++) {
        int value = base64_value(in.data[i]);
        if (value < 0)
            return -1;
        group = group << 6 | (uint32_t)value;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            *at++ = (uint8_t)(group >> n_bits);
        }
    }
    if (group & ((1u << n_bits) - 1)) /* bits that belong to no byte: not what an encoder writes */
        return -1;
    return at - out;
}

/* Length of the valid UTF-8 character at the front (RFC 3629), 0 if there is none. */
static size_t utf8_char(const uint8_t *text, size_t len)
{
    uint8_t first = text[0];
    if (first < 0x80)
        return 1;
    size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || len < size)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((first == 0xe0 && text[1] < 0xa0) || (first == 0xed && text[1] > 0x9f) ||
        (first == 0xf0 && text[1] < 0x90) || (first == 0xf4 && text[1] > 0x8f))
        return 0; /* overlong, surrogate, beyond U+10FFFF */
    return size;
}

bool bytes_utf8_valid(struct bytes text)
{
    for (size_t i = 0; i < text.len;) {
        size_t size = utf8_char(text.data + i, text.len - i);
        if (!size)
            return false;
        i += size;
    }
    return true;
}

/* C0, DEL and, in two bytes, C1: terminals obey them all. */
static bool is_control(const uint8_t *text, size_t size)
{
    return size == 1 ? text[0] < 0x20 || text[0] == 0x7f
                     : size == 2 && text[0] == 0xc2 && text[1] < 0xa0;
}

size_t bytes_sanitize(struct bytes text, char *out, size_t size)
{
    size_t used = 0;
    if (!size)
        return 0;
    for (size_t i = 0; i < text.len;) {
        size_t n = utf8_char(text.data + i, text.len - i);
        bool bad = !n || is_control(text.data + i, n);
        size_t written = bad ? 1 : n;
        if (used + written > size - 1)
            break;
        if (bad)
            out[used] = '?';
        else
            memcpy(out + used, text.data + i, n);
        used += written;
        i += n ? n : 1;
    }
    out[used] = '\0';
    return used;
}
