/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Half a character is shown as a replacement sign, a different one in each reader, and a search for
 * the text does not find it.
 */
#include "base/utf8.h"

/* Bytes of the character that begins with this byte; 1 for a byte that begins none. */
static size_t size_by(uint8_t first)
{
    if (first < 0xc2 || first > 0xf4)
        return 1;
    return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
}

struct bytes utf8_cut(struct bytes text, size_t max)
{
    size_t behind = 0; /* the last first byte */
    if (text.len > max)
        text.len = max;
    while (behind < 3 && behind < text.len && (text.data[text.len - 1 - behind] & 0xc0) == 0x80)
        behind++;
    if (behind < text.len && size_by(text.data[text.len - 1 - behind]) > behind + 1)
        text.len -= behind + 1;
    return text;
}

size_t utf8_put(uint32_t character, uint8_t out[UTF8_CHARACTER_MAX])
{
    if (character < 0x80) {
        out[0] = (uint8_t)character;
        return 1;
    }
    if (character < 0x800) {
        out[0] = (uint8_t)(0xc0 | character >> 6);
        out[1] = (uint8_t)(0x80 | (character & 63));
        return 2;
    }
    if (character >> 11 == 0xd800 >> 11 || character > 0x10ffff) {
        out[0] = 0xff;
        return 1;
    }
    if (character < 0x10000) {
        out[0] = (uint8_t)(0xe0 | character >> 12);
        out[1] = (uint8_t)(0x80 | (character >> 6 & 63));
        out[2] = (uint8_t)(0x80 | (character & 63));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | character >> 18);
    out[1] = (uint8_t)(0x80 | (character >> 12 & 63));
    out[2] = (uint8_t)(0x80 | (character >> 6 & 63));
    out[3] = (uint8_t)(0x80 | (character & 63));
    return 4;
}
