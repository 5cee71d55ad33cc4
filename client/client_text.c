/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client_text.h"
#include <stdio.h>

const char *client_duration(double ns, char out[CLIENT_DURATION_MAX])
{
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}};
    size_t i = 0;
    if (ns <= 0) {
        snprintf(out, CLIENT_DURATION_MAX, "0");
        return out;
    }
    while (i < 3 && ns < units[i].ns * 0.9995)
        i++;
    double value = ns / units[i].ns;
    int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(out, CLIENT_DURATION_MAX, "%.*f %s", decimals, value, units[i].name);
    return out;
}

static size_t character_size(uint8_t first)
{
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

static uint32_t code_point(const uint8_t *at, size_t size)
{
    static const uint8_t first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = at[0] & first_bits[size];
    for (size_t i = 1; i < size; i++)
        code = code << 6 | (at[i] & 0x3f);
    return code;
}

/* Control characters, marks and changes of direction, separators of lines, tags. */
static bool is_dangerous(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0xfeff ||
           (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) || code >= 0xe0000;
}

static size_t count_characters(struct bytes text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i += character_size(text.data[i]))
        n++;
    return n;
}

/* Of valid UTF-8. */
static int put_characters(struct buf *out, struct bytes text, size_t n)
{
    int error = 0;
    for (size_t at = 0; !error && n; n--) {
        size_t size = character_size(text.data[at]);
        bool bad = is_dangerous(code_point(text.data + at, size));
        error = bad ? buf_append(out, "?", 1) : buf_append(out, text.data + at, size);
        at += size;
    }
    return error;
}

int client_put_text(struct buf *out, struct bytes text, size_t width, bool fill)
{
    if (!bytes_utf8_valid(text))
        text = BYTES_LIT("(not UTF-8)");
    size_t n = count_characters(text), shown = n > width ? width - (width > 0) : n;
    int error = put_characters(out, text, shown);
    if (!error && n > width && width)
        error = buf_append(out, "…", strlen("…"));
    for (size_t i = n; fill && !error && i < width; i++)
        error = buf_append(out, " ", 1);
    return error;
}

int client_put_duration(struct buf *out, double ns, size_t width)
{
    char text[CLIENT_DURATION_MAX];
    size_t n = count_characters(BYTES_STR(client_duration(ns, text))); /* µ has two bytes */
    return buf_printf(out, "%*s%s  ", n < width ? (int)(width - n) : 0, "", text);
}
