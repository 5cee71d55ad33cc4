/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/dwarf/dwarf_cursor.h"
#include "agent-bpf/dwarf/dwarf_inflated.h"
#include <unistd.h>

void dwarf_cursor_open(struct dwarf_cursor *cursor, const struct dwarf_section *section,
                       uint64_t at)
{
    cursor->section = section;
    cursor->end = section->size;
    cursor->failed = false;
    cursor->window = section->decoded;
    cursor->window_at = 0;
    cursor->window_len = section->decoded ? (size_t)section->size : 0;
    dwarf_seek(cursor, at);
}

void dwarf_seek(struct dwarf_cursor *cursor, uint64_t at)
{
    cursor->failed |= at > cursor->end;
    cursor->at = cursor->failed ? cursor->end : at;
}

void dwarf_skip(struct dwarf_cursor *cursor, uint64_t size)
{
    cursor->failed |= size > cursor->end - cursor->at;
    cursor->at = cursor->failed ? cursor->end : cursor->at + size;
}

static size_t section_read(const struct dwarf_section *section, uint64_t at, uint8_t *out,
                           size_t size)
{
    size_t done = 0, more = 1;
    if (!section->inflated) {
        ssize_t n = pread(section->fd, out, size, (off_t)(section->offset + at));
        return n > 0 ? (size_t)n : 0;
    }
    for (; done < size && more; done += more)
        more = dwarf_inflated_read(section->inflated, at + done, out + done, size - done);
    return done;
}

/* Reads on from the cursor's position; false: the file ends before its section does. */
static bool dwarf_cursor_refill(struct dwarf_cursor *cursor)
{
    const struct dwarf_section *section = cursor->section;
    uint64_t left = section->size - cursor->at;
    size_t want = left < sizeof(cursor->buffer) ? (size_t)left : sizeof(cursor->buffer);
    if (section->decoded || cursor->failed)
        return false;
    cursor->window = cursor->buffer;
    cursor->window_at = cursor->at;
    cursor->window_len = section_read(section, cursor->at, cursor->buffer, want);
    return cursor->window_len;
}

/* Bytes in the window from the cursor's position on. */
static size_t in_window(const struct dwarf_cursor *cursor)
{
    uint64_t into = cursor->at - cursor->window_at;
    return cursor->at >= cursor->window_at && into < cursor->window_len
               ? cursor->window_len - (size_t)into
               : 0;
}

/* The next `size` bytes, and moves the cursor; NULL: there are fewer. A failed cursor is at its
 * end. */
static inline const uint8_t *cursor_take(struct dwarf_cursor *cursor, size_t size)
{
    if (size > cursor->end - cursor->at ||
        (in_window(cursor) < size && (!dwarf_cursor_refill(cursor) || in_window(cursor) < size))) {
        cursor->failed = true;
        cursor->at = cursor->end;
        return NULL;
    }
    const uint8_t *taken = cursor->window + (cursor->at - cursor->window_at);
    cursor->at += size;
    return taken;
}

uint64_t dwarf_fixed(struct dwarf_cursor *cursor, unsigned size)
{
    const uint8_t *taken = cursor_take(cursor, size);
    uint64_t value = 0;
    if (!taken)
        return 0;
    if (size == 1)
        return *taken;
    for (unsigned i = 0; i < size; i++)
        value |= (uint64_t)taken[i] << (8 * i);
    return value;
}

uint64_t dwarf_uleb(struct dwarf_cursor *cursor)
{
    uint64_t value = 0;
    const uint8_t *byte = cursor_take(cursor, 1);
    if (byte && !(*byte & 0x80))
        return *byte;
    for (unsigned shift = 0; byte; shift += 7, byte = cursor_take(cursor, 1)) {
        if (shift < 64)
            value |= (uint64_t)(*byte & 0x7f) << shift;
        if (!(*byte & 0x80))
            return value;
    }
    return 0;
}

int64_t dwarf_sleb(struct dwarf_cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
        const uint8_t *byte = cursor_take(cursor, 1);
        if (!byte)
            return 0;
        if (shift < 64)
            value |= (uint64_t)(*byte & 0x7f) << shift;
        shift += 7;
        if (*byte & 0x80)
            continue;
        if (shift < 64 && *byte & 0x40)
            value |= UINT64_MAX << shift;
        return (int64_t)value;
    }
}

size_t dwarf_text(struct dwarf_cursor *cursor, char *out, size_t size)
{
    size_t len = 0;
    for (const uint8_t *byte; (byte = cursor_take(cursor, 1)) && *byte;)
        if (len + 1 < size)
            out[len++] = (char)*byte;
    out[len] = 0;
    return len;
}

void dwarf_skip_text(struct dwarf_cursor *cursor)
{
    char none[1];
    dwarf_text(cursor, none, sizeof(none));
}

void dwarf_unit_length(struct dwarf_cursor *cursor, uint8_t *offset_size)
{
    uint64_t length = dwarf_fixed(cursor, 4);
    *offset_size = length == UINT32_MAX ? 8 : 4;
    if (*offset_size == 8)
        length = dwarf_fixed(cursor, 8);
    uint64_t start = cursor->at;
    dwarf_skip(cursor, length);
    if (cursor->failed)
        return;
    cursor->end = start + length;
    cursor->at = start;
}
