/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/python/python_lines.h"

#define LINETABLE_NO_LINE (-128)
#define VARINT_BITS_MAX   30

/* Kinds of an entry of 3.11's table; below KIND_ONE_LINE the kind is a part of the column. */
enum {
    KIND_ONE_LINE = 10, /* to 12: as many lines further as it is above */
    KIND_NO_COLUMNS = 13,
    KIND_LONG = 14,
    KIND_NONE = 15,
};

struct location {
    int64_t line;
    int64_t column; /* from 0 on; -1: none */
    bool has_line;
};

static struct python_line line_of(int64_t line, int64_t column)
{
    struct python_line found = {0};
    if (line <= 0 || line > INT32_MAX)
        return found;
    found.line = (uint32_t)line;
    if (column >= 0 && column < INT32_MAX)
        found.column = (uint32_t)column + 1;
    return found;
}

/* Pairs of bytes further and lines further: the line of what is in front of the sum of bytes. */
static struct python_line line_of_lnotab(struct bytes table, int64_t line, int64_t lasti)
{
    int64_t address = 0;
    for (size_t i = 0; i + 1 < table.len; i += 2) {
        address += table.data[i];
        if (address > 2 * lasti)
            break;
        line += (int8_t)table.data[i + 1];
    }
    return line_of(line, -1);
}

/* Pairs of bytes and lines further: of the bytes' own line. */
static struct python_line line_of_linetable(struct bytes table, int64_t line, int64_t lasti)
{
    int64_t end = 0;
    for (size_t i = 0; i + 1 < table.len; i += 2) {
        int delta = (int8_t)table.data[i + 1];
        end += table.data[i];
        line += delta == LINETABLE_NO_LINE ? 0 : delta;
        if (2 * lasti < end)
            return line_of(delta == LINETABLE_NO_LINE ? 0 : line, -1);
    }
    return line_of(0, -1);
}

/* Six bits a byte, the lowest first. 0 at the end of the table. */
static uint32_t take_varint(struct bytes *table)
{
    uint32_t value = 0;
    for (unsigned shift = 0; table->len; shift += 6) {
        uint8_t byte = *table->data;
        *table = bytes_skip(*table, 1);
        if (shift <= VARINT_BITS_MAX)
            value |= (uint32_t)(byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return value;
}

static int64_t take_signed_varint(struct bytes *table)
{
    int64_t value = take_varint(table);
    return value & 1 ? -(value >> 1) : value >> 1;
}

static uint8_t take_byte(struct bytes *table)
{
    uint8_t byte = table->len ? *table->data : 0;
    *table = bytes_skip(*table, table->len ? 1 : 0);
    return byte;
}

static void take_location(struct bytes *table, unsigned kind, struct location *location)
{
    location->column = -1;
    location->has_line = kind != KIND_NONE;
    if (kind < KIND_ONE_LINE) {
        location->column = (int64_t)(kind << 3 | take_byte(table) >> 4);
    } else if (kind < KIND_NO_COLUMNS) {
        location->line += kind - KIND_ONE_LINE;
        location->column = take_byte(table);
        take_byte(table);
    } else if (kind == KIND_NO_COLUMNS) {
        location->line += take_signed_varint(table);
    } else if (kind == KIND_LONG) {
        location->line += take_signed_varint(table);
        take_varint(table);
        location->column = (int64_t)take_varint(table) - 1;
        take_varint(table);
    }
}

/* Entries begin with a byte whose highest bit is set. */
static struct python_line line_of_locations(struct bytes table, int64_t line, int64_t lasti)
{
    struct location location = {.line = line};
    int64_t end = 0;
    while (table.len) {
        uint8_t first = take_byte(&table);
        take_location(&table, first >> 3 & 15, &location);
        end += (first & 7) + 1;
        if (lasti < end)
            return line_of(location.has_line ? location.line : 0, location.column);
    }
    return line_of(0, -1);
}

struct python_line python_line(enum python_lines_form form, struct bytes table, uint32_t first_line,
                               int64_t lasti)
{
    if (lasti < 0)
        return line_of(first_line, -1);
    if (form == PYTHON_LNOTAB)
        return line_of_lnotab(table, first_line, lasti);
    if (form == PYTHON_LINETABLE)
        return line_of_linetable(table, first_line, lasti);
    return line_of_locations(table, first_line, lasti);
}
