/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_json.h"
#include "base/stats.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void put(struct json_writer *json, const void *data, size_t size)
{
    if (!json->error)
        json->error = buf_append(json->out, data, size);
}

/* ---- texts ---- */

/* Of the character that begins there; 0: none does. */
static size_t character_length(const uint8_t *at, const uint8_t *end)
{
    size_t len = *at < 0x80 ? 1 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    return len <= (size_t)(end - at) && bytes_utf8_valid(BYTES(at, len)) ? len : 0;
}

/* JavaScript took these two for ends of lines. */
static bool is_line_end(const uint8_t *at)
{
    return at[0] == 0xe2 && at[1] == 0x80 && (at[2] == 0xa8 || at[2] == 0xa9);
}

static bool is_plain(uint8_t c)
{
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' &&
           c != '\'';
}

static void put_escaped(struct json_writer *json, unsigned character)
{
    char text[8];
    put(json, text, (size_t)snprintf(text, sizeof(text), "\\u%04x", character));
}

static const uint8_t *put_special(struct json_writer *json, const uint8_t *at, const uint8_t *end)
{
    size_t len = character_length(at, end);
    if (!len)
        put(json, "\xef\xbf\xbd", 3);
    else if (len == 1)
        put_escaped(json, *at);
    else if (len == 3 && is_line_end(at))
        put_escaped(json, at[2] == 0xa8 ? 0x2028 : 0x2029);
    else
        put(json, at, len);
    return at + (len ? len : 1);
}

static void put_quoted(struct json_writer *json, struct bytes text)
{
    const uint8_t *at = text.data, *end = at + text.len;
    put(json, "\"", 1);
    while (at < end && !json->error) {
        const uint8_t *from = at;
        while (at < end && is_plain(*at))
            at++;
        put(json, from, (size_t)(at - from));
        if (at < end)
            at = put_special(json, at, end);
    }
    put(json, "\"", 1);
}

/* ---- structure ---- */

static void begin(struct json_writer *json, const char *key)
{
    if (json->follows)
        put(json, ",", 1);
    json->follows = true;
    if (!key)
        return;
    put(json, "\"", 1);
    put(json, key, strlen(key));
    put(json, "\":", 2);
}

static void open_with(struct json_writer *json, const char *key, const char *bracket)
{
    begin(json, key);
    put(json, bracket, 1);
    json->follows = false;
}

static void close_with(struct json_writer *json, const char *bracket)
{
    put(json, bracket, 1);
    json->follows = true;
}

void json_begin_object(struct json_writer *json, const char *key)
{
    open_with(json, key, "{");
}

void json_end_object(struct json_writer *json)
{
    close_with(json, "}");
}

void json_begin_array(struct json_writer *json, const char *key)
{
    open_with(json, key, "[");
}

void json_end_array(struct json_writer *json)
{
    close_with(json, "]");
}

/* ---- values ---- */

void json_put_text(struct json_writer *json, const char *key, struct bytes text)
{
    begin(json, key);
    put_quoted(json, text);
}

void json_put_string(struct json_writer *json, const char *key, const char *text)
{
    json_put_text(json, key, BYTES_STR(text));
}

void json_put_pair(struct json_writer *json, struct bytes key, struct bytes text)
{
    begin(json, NULL);
    put_quoted(json, key);
    put(json, ":", 1);
    put_quoted(json, text);
}

void json_put_hex(struct json_writer *json, const char *key, const void *data, size_t size)
{
    char text[65];
    size = size > 32 ? 32 : size;
    bytes_to_hex(BYTES(data, size), text);
    json_put_text(json, key, BYTES(text, 2 * size));
}

static void put_integer(struct json_writer *json, bool negative, uint64_t magnitude)
{
    char text[24], *at = text + sizeof(text);
    do
        *--at = (char)('0' + magnitude % 10);
    while (magnitude /= 10);
    if (negative)
        *--at = '-';
    put(json, at, (size_t)(text + sizeof(text) - at));
}

void json_put_uint(struct json_writer *json, const char *key, uint64_t value)
{
    begin(json, key);
    put_integer(json, false, value);
}

void json_put_int(struct json_writer *json, const char *key, int64_t value)
{
    begin(json, key);
    put_integer(json, value < 0, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void json_put_waiting(struct json_writer *json)
{
    json_put_int(json, "waiting_samples", stats_find("spanprof_join_pending_samples", ""));
}

void json_put_bool(struct json_writer *json, const char *key, bool value)
{
    begin(json, key);
    put(json, value ? "true" : "false", value ? 4 : 5);
}

void json_put_double(struct json_writer *json, const char *key, double value)
{
    char text[32];
    begin(json, key);
    int len = snprintf(text, sizeof(text), "%.6g", isfinite(value) ? value : 0.0);
    put(json, text, (size_t)len);
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
    begin(json, key);
    put(json, text, (size_t)len);
}
