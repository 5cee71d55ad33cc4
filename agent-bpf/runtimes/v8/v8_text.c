/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A string of two parts (cons) may be a tree; as long as a name is read of it, with few parts kept
 * for later and few looked at.
 */
#include "agent-bpf/runtimes/v8/v8_text.h"
#include <errno.h>

#define PARTS_KEPT   16
#define PARTS_LOOKED 64

#define STRING_LENGTH  12 /* u32 */
#define STRING_DATA    16
#define CONS_FIRST     16
#define CONS_SECOND    24
#define SLICED_PARENT  16
#define SLICED_OFFSET  24
#define THIN_ACTUAL    16
#define EXTERNAL_DATA  24
#define STRING_MAX     (1u << 30) /* characters */
#define REPRESENTATION 7
#define ONE_BYTE       8

enum { SEQUENTIAL = 0, CONS = 1, EXTERNAL = 2, SLICED = 3, THIN = 5 };

static int string_head(struct v8_heap *heap, uint64_t string, uint16_t *type, uint32_t *length)
{
    int error = v8_heap_type(heap, string, type);
    if (error)
        return error;
    if (*type >= heap->file->types.first_nonstring)
        return -EFAULT;
    error = v8_heap_field(heap, string, STRING_LENGTH, length, sizeof(*length));
    return error ? error : *length < STRING_MAX ? 0 : -EFAULT;
}

int v8_text_is_string(struct v8_heap *heap, uint64_t object, bool *is_string)
{
    uint16_t type;
    int error = v8_heap_type(heap, object, &type);
    *is_string = !error && type < heap->file->types.first_nonstring;
    return error;
}

/* Where the characters of a string without parts are. -ENOENT: it has parts, or stands for another
 * string. */
static int string_flat(struct v8_heap *heap, uint64_t string, uint16_t type,
                       struct v8_characters *characters)
{
    characters->wide = !(type & ONE_BYTE);
    switch (type & REPRESENTATION) {
    case SEQUENTIAL:
        characters->address = string - 1 + STRING_DATA;
        return 0;
    case EXTERNAL:
        return v8_heap_word(heap, string, EXTERNAL_DATA, &characters->address);
    default:
        return -ENOENT;
    }
}

int v8_text_characters(struct v8_heap *heap, uint64_t string, struct v8_characters *characters)
{
    uint32_t start = 0, length, whole = UINT32_MAX;
    for (int i = 0; i < PARTS_KEPT; i++) {
        uint16_t type;
        uint32_t second, offset;
        uint64_t rest;
        int error = string_head(heap, string, &type, &length);
        if (error)
            return error;
        if (whole == UINT32_MAX)
            whole = length;
        error = string_flat(heap, string, type, characters);
        if (!error) {
            if (start > length || whole > length - start)
                return -EFAULT;
            characters->address += (uint64_t)start << characters->wide;
            characters->length = whole;
            return 0;
        }
        if (error != -ENOENT)
            return error;
        switch (type & REPRESENTATION) {
        case THIN:
            error = v8_heap_word(heap, string, THIN_ACTUAL, &string);
            break;
        case SLICED:
            error = v8_heap_count(heap, string, SLICED_OFFSET, &offset);
            start += offset;
            if (!error && start > STRING_MAX)
                error = -EFAULT;
            if (!error)
                error = v8_heap_word(heap, string, SLICED_PARENT, &string);
            break;
        case CONS: /* of one part, once its parts were put together */
            error = v8_heap_word(heap, string, CONS_SECOND, &rest);
            if (!error)
                error = string_head(heap, rest, &type, &second);
            if (!error && second)
                error = -EFAULT;
            if (!error)
                error = v8_heap_word(heap, string, CONS_FIRST, &string);
            break;
        default:
            error = -EFAULT;
        }
        if (error)
            return error;
    }
    return -EFAULT;
}

struct utf8 {
    char bytes[V8_TEXT_MAX + 8];
    size_t length;
    uint32_t high; /* surrogate that waits for its second half; 0 = none */
};

static void utf8_put(struct utf8 *out, uint32_t code)
{
    char *to = out->bytes + out->length;
    if (code < 0x80) {
        *to = (char)code;
        out->length += 1;
    } else if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3f));
        out->length += 2;
    } else if (code < 0x10000) {
        to[0] = (char)(0xe0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 0x3f));
        to[2] = (char)(0x80 | (code & 0x3f));
        out->length += 3;
    } else {
        to[0] = (char)(0xf0 | code >> 18);
        to[1] = (char)(0x80 | (code >> 12 & 0x3f));
        to[2] = (char)(0x80 | (code >> 6 & 0x3f));
        to[3] = (char)(0x80 | (code & 0x3f));
        out->length += 4;
    }
}

static void utf8_put_unit(struct utf8 *out, uint32_t unit)
{
    bool low = (unit & 0xfc00) == 0xdc00;
    if (out->high) {
        utf8_put(out, low ? 0x10000 + ((out->high & 0x3ff) << 10) + (unit & 0x3ff) : '?');
        out->high = 0;
        if (low)
            return;
    }
    if ((unit & 0xfc00) == 0xd800)
        out->high = unit;
    else
        utf8_put(out, low ? '?' : unit);
}

static int utf8_append(struct v8_heap *heap, const struct v8_characters *from, struct utf8 *out)
{
    uint8_t units[2 * V8_TEXT_MAX];
    size_t n = from->length < V8_TEXT_MAX ? from->length : V8_TEXT_MAX;
    int error = v8_heap_read(heap, from->address, units, n << from->wide);
    if (error)
        return error;
    for (size_t i = 0; i < n && out->length < V8_TEXT_MAX; i++)
        utf8_put_unit(out, from->wide ? units[2 * i] | (uint32_t)units[2 * i + 1] << 8 : units[i]);
    return 0;
}

int v8_text_copy(struct v8_heap *heap, uint64_t string, char out[V8_TEXT_MAX + 1])
{
    struct utf8 text = {.length = 0};
    uint64_t kept[PARTS_KEPT] = {string};
    size_t n = 1;
    for (int i = 0; n && i < PARTS_LOOKED && text.length < V8_TEXT_MAX; i++) {
        uint64_t part = kept[--n];
        uint16_t type;
        uint32_t length;
        int error = string_head(heap, part, &type, &length);
        if (error)
            return error;
        if ((type & REPRESENTATION) == CONS) {
            if (n + 2 > PARTS_KEPT)
                break;
            error = v8_heap_word(heap, part, CONS_SECOND, &kept[n++]);
            if (!error)
                error = v8_heap_word(heap, part, CONS_FIRST, &kept[n++]);
        } else {
            struct v8_characters characters;
            error = v8_text_characters(heap, part, &characters);
            if (!error)
                error = utf8_append(heap, &characters, &text);
        }
        if (error)
            return error;
    }
    bytes_sanitize(BYTES(text.bytes, text.length), out, V8_TEXT_MAX + 1);
    return 0;
}
