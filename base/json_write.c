/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_write.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- texts ---- */

#define ONES  UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

/* High bits of the bytes that end a plain run or are not ASCII; exact up to the lowest one. */
static inline uint64_t special_bytes(uint64_t word)
{
    uint64_t quotes = word ^ ONES * '"', backslashes = word ^ ONES * '\\';
    return (((quotes - ONES) & ~quotes) | ((backslashes - ONES) & ~backslashes) |
            ((word - ONES * ' ') & ~word) | word) &
           HIGHS;
}

size_t json_plain_length(struct bytes text, bool *foreign)
{
    size_t i = 0;
    while (i < text.len) {
        if (text.len - i >= sizeof(uint64_t)) {
            uint64_t word;
            memcpy(&word, text.data + i, sizeof(word)); /* little-endian: asserted below */
            uint64_t special = special_bytes(word);
            if (!special) {
                i += sizeof(word);
                continue;
            }
            i += (size_t)__builtin_ctzll(special) / 8;
        }
        uint8_t byte = text.data[i];
        if (byte < ' ' || byte == '"' || byte == '\\')
            break;
        *foreign |= byte >= 0x80;
        i++;
    }
    return i;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "json_plain_length() needs it");

static int write_escaped(struct buf *out, uint8_t byte)
{
    static const char names[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    const char *name = byte ? strchr(names, (char)byte) : NULL;
    return name ? buf_printf(out, "\\%c", letters[name - names]) : buf_printf(out, "\\u%04x", byte);
}

static int write_needed(struct buf *out, struct bytes text)
{
    bool foreign = false;
    int error = 0;
    for (size_t at = 0; !error && at < text.len; at++) {
        size_t n = json_plain_length(BYTES(text.data + at, text.len - at), &foreign);
        error = buf_append(out, text.data + at, n);
        at += n;
        if (!error && at < text.len)
            error = write_escaped(out, text.data[at]);
    }
    return error ? error : foreign && !bytes_utf8_valid(text) ? JSON_NOT_UTF8 : 0;
}

static bool is_plain_in_markup(uint8_t c)
{
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' &&
           c != '\'';
}

/* Length of the UTF-8 character at the front; 0: there is none. */
static size_t character_length(const uint8_t *at, const uint8_t *end)
{
    size_t len = *at < 0x80 ? 1 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    return len <= (size_t)(end - at) && bytes_utf8_valid(BYTES(at, len)) ? len : 0;
}

/* U+2028 and U+2029, which older JavaScript takes for ends of lines. */
static bool is_line_separator(const uint8_t *at, size_t len)
{
    return len == 3 && at[0] == 0xe2 && at[1] == 0x80 && (at[2] == 0xa8 || at[2] == 0xa9);
}

static int write_markup(struct buf *out, struct bytes text)
{
    const uint8_t *at = text.data, *end = at + text.len;
    int error = 0;
    while (at < end && !error) {
        const uint8_t *from = at;
        while (at < end && is_plain_in_markup(*at))
            at++;
        error = buf_append(out, from, (size_t)(at - from));
        if (error || at == end)
            break;
        size_t len = character_length(at, end);
        if (!len)
            error = buf_append(out, "\xef\xbf\xbd", 3);
        else if (len == 1)
            error = buf_printf(out, "\\u%04x", *at);
        else if (is_line_separator(at, len))
            error = buf_printf(out, "\\u20%02x", at[2] & 0x2f);
        else
            error = buf_append(out, at, len);
        at += len ? len : 1;
    }
    return error;
}

/* Most texts stand for themselves: these are appended at once. */
static int write_plain(struct buf *out, struct bytes text)
{
    int error = buf_reserve(out, text.len + 2);
    if (error)
        return error;
    uint8_t *to = out->data + out->len;
    *to = '"';
    if (text.len)
        memcpy(to + 1, text.data, text.len);
    to[1 + text.len] = '"';
    out->len += text.len + 2;
    return 0;
}

int json_write_text(struct buf *out, struct bytes text, enum json_escapes escapes)
{
    bool foreign = false;
    if (escapes == JSON_ESCAPES_NEEDED && json_plain_length(text, &foreign) == text.len && !foreign)
        return write_plain(out, text);
    int error = buf_append(out, "\"", 1);
    if (!error)
        error = escapes == JSON_ESCAPES_MARKUP ? write_markup(out, text) : write_needed(out, text);
    return error ? error : buf_append(out, "\"", 1);
}

int json_write_integer(struct buf *out, bool negative, uint64_t magnitude, bool quoted)
{
    char text[24], *at = text + sizeof(text);
    if (quoted)
        *--at = '"';
    do
        *--at = (char)('0' + magnitude % 10);
    while (magnitude /= 10);
    if (negative)
        *--at = '-';
    if (quoted)
        *--at = '"';
    return buf_append(out, at, (size_t)(text + sizeof(text) - at));
}

/* ---- structure ---- */

static void writer_append(struct json_writer *json, const void *data, size_t size)
{
    if (!json->error)
        json->error = buf_append(json->out, data, size);
}

static void writer_append_text(struct json_writer *json, struct bytes text)
{
    if (!json->error)
        json->error = json_write_text(json->out, text, JSON_ESCAPES_MARKUP);
}

static void writer_append_integer(struct json_writer *json, bool negative, uint64_t magnitude)
{
    if (!json->error)
        json->error = json_write_integer(json->out, negative, magnitude, false);
}

static void value_begin(struct json_writer *json, const char *key)
{
    if (json->follows)
        writer_append(json, ",", 1);
    json->follows = true;
    if (!key)
        return;
    writer_append(json, "\"", 1);
    writer_append(json, key, strlen(key));
    writer_append(json, "\":", 2);
}

static void bracket_open(struct json_writer *json, const char *key, const char *bracket)
{
    value_begin(json, key);
    writer_append(json, bracket, 1);
    json->follows = false;
}

static void bracket_close(struct json_writer *json, const char *bracket)
{
    writer_append(json, bracket, 1);
    json->follows = true;
}

void json_begin_object(struct json_writer *json, const char *key)
{
    bracket_open(json, key, "{");
}

void json_end_object(struct json_writer *json)
{
    bracket_close(json, "}");
}

void json_begin_array(struct json_writer *json, const char *key)
{
    bracket_open(json, key, "[");
}

void json_end_array(struct json_writer *json)
{
    bracket_close(json, "]");
}

/* ---- values ---- */

void json_put_text(struct json_writer *json, const char *key, struct bytes text)
{
    value_begin(json, key);
    writer_append_text(json, text);
}

void json_put_string(struct json_writer *json, const char *key, const char *text)
{
    json_put_text(json, key, BYTES_STR(text));
}

void json_put_pair(struct json_writer *json, struct bytes key, struct bytes text)
{
    value_begin(json, NULL);
    writer_append_text(json, key);
    writer_append(json, ":", 1);
    writer_append_text(json, text);
}

void json_put_hex(struct json_writer *json, const char *key, const void *data, size_t size)
{
    char text[65];
    size = size > 32 ? 32 : size;
    bytes_to_hex(BYTES(data, size), text);
    json_put_text(json, key, BYTES(text, 2 * size));
}

void json_put_uint(struct json_writer *json, const char *key, uint64_t value)
{
    value_begin(json, key);
    writer_append_integer(json, false, value);
}

void json_put_int(struct json_writer *json, const char *key, int64_t value)
{
    value_begin(json, key);
    writer_append_integer(json, value < 0, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void json_put_bool(struct json_writer *json, const char *key, bool value)
{
    value_begin(json, key);
    writer_append(json, value ? "true" : "false", value ? 4 : 5);
}

void json_put_double(struct json_writer *json, const char *key, double value)
{
    char text[32];
    value_begin(json, key);
    int len = snprintf(text, sizeof(text), "%.6g", isfinite(value) ? value : 0.0);
    writer_append(json, text, (size_t)len);
}

void json_put_ms(struct json_writer *json, const char *key, uint64_t ns)
{
    char text[40];
    int len = snprintf(text, sizeof(text), "%llu.%06llu", (unsigned long long)(ns / 1000000),
                       (unsigned long long)(ns % 1000000));
    while (text[len - 1] == '0')
        len--;
    if (text[len - 1] == '.')
        len--;
    value_begin(json, key);
    writer_append(json, text, (size_t)len);
}
