/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/python/python_text.h"
#include "base/utf8.h"

#define WIDE_HEADER_MORE  24 /* up to 3.11: utf8_length, utf8, wstr_length behind the ASCII part */
#define WIDE_HEADER_MORE2 16 /* from 3.12 on: without wstr_length */
#define WIDE_SINCE        12

struct text {
    uint64_t length; /* characters */
    unsigned width;  /* bytes of each */
    size_t header;
};

static bool text_open(const struct python_layout *layout, struct bytes object, struct text *text)
{
    uint32_t state;
    if (object.len < layout->text_length + sizeof(text->length) ||
        object.len < layout->text_state + sizeof(state))
        return false;
    memcpy(&text->length, object.data + layout->text_length, sizeof(text->length));
    memcpy(&state, object.data + layout->text_state, sizeof(state));
    state >>= layout->text_state_shift;
    unsigned minor = PYTHON_MINOR(layout->version);
    bool compact = state >> 3 & 1, ascii = state >> 4 & 1;
    text->width = state & 7;
    text->header = layout->text_header;
    if (!ascii)
        text->header += minor < WIDE_SINCE ? WIDE_HEADER_MORE : WIDE_HEADER_MORE2;
    return compact && (text->width == 1 || text->width == 2 || text->width == 4) &&
           text->length <= INT64_MAX && (!ascii || text->width == 1);
}

size_t python_text_size(const struct python_layout *layout, struct bytes object)
{
    struct text text;
    if (!text_open(layout, object, &text))
        return 0;
    uint64_t length = text.length < PYTHON_TEXT_MAX ? text.length : PYTHON_TEXT_MAX;
    return text.header + (size_t)length * text.width;
}

size_t python_text(const struct python_layout *layout, struct bytes object, char *out, size_t size)
{
    uint8_t utf8[PYTHON_TEXT_MAX * UTF8_CHARACTER_MAX];
    struct text text;
    size_t used = 0;
    if (!text_open(layout, object, &text))
        return bytes_sanitize(BYTES(utf8, 0), out, size);
    for (size_t i = 0; i < text.length && i < PYTHON_TEXT_MAX; i++) {
        uint32_t character = 0;
        size_t at = text.header + i * text.width;
        if (at + text.width > object.len)
            break;
        memcpy(&character, object.data + at, text.width);
        used += utf8_put(character, utf8 + used);
    }
    return bytes_sanitize(BYTES(utf8, used), out, size);
}
