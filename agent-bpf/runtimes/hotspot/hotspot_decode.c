/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/hotspot/hotspot_decode.h"

#define UNSIGNED5_BYTES_MAX 5
#define UNSIGNED5_HIGH      192 /* bytes from here on have one behind them */
#define LINE_END            0x00
#define LINE_WIDE           0xff /* two numbers follow; else 5 bits of bytecodes, 3 bits of lines */
#define BCI_MAX             0xfffe

bool hotspot_unsigned5(struct bytes *bytes, unsigned excluded, uint32_t *value)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < UNSIGNED5_BYTES_MAX; i++) {
        if (i >= bytes->len || bytes->data[i] < excluded)
            return false;
        uint32_t byte = bytes->data[i] - excluded;
        sum += byte << (6 * i);
        if (byte < UNSIGNED5_HIGH || i == UNSIGNED5_BYTES_MAX - 1) {
            *bytes = bytes_skip(*bytes, i + 1);
            *value = sum;
            return true;
        }
    }
    return false;
}

bool hotspot_scope_read(struct bytes bytes, unsigned excluded, struct hotspot_scope *scope)
{
    uint32_t bci;
    if (!hotspot_unsigned5(&bytes, excluded, &scope->sender) ||
        !hotspot_unsigned5(&bytes, excluded, &scope->metadata) ||
        !hotspot_unsigned5(&bytes, excluded, &bci) || bci > BCI_MAX)
        return false;
    scope->bci = (uint16_t)(bci ? bci - 1 : 0); /* 0: in front of the first one */
    return true;
}

static bool signed5(struct bytes *bytes, unsigned excluded, int32_t *value)
{
    uint32_t number;
    if (!hotspot_unsigned5(bytes, excluded, &number))
        return false;
    *value = (int32_t)((number >> 1) ^ -(number & 1));
    return true;
}

struct line_place {
    int64_t bci;
    int64_t line;
};

/* False: the end, or the table is cut off there. */
static bool line_next(struct bytes *table, unsigned excluded, struct line_place *place)
{
    int32_t bcis, lines;
    if (!table->len || table->data[0] == LINE_END)
        return false;
    uint8_t byte = table->data[0];
    *table = bytes_skip(*table, 1);
    if (byte != LINE_WIDE) {
        bcis = byte >> 3;
        lines = byte & 7;
    } else if (!signed5(table, excluded, &bcis) || !signed5(table, excluded, &lines)) {
        table->len = 0;
        return false;
    }
    place->bci += bcis;
    place->line += lines;
    return true;
}

uint32_t hotspot_line_of(struct bytes table, unsigned excluded, uint16_t bci)
{
    struct line_place place = {0}, best = {-1, 0};
    bool passed = false; /* an entry behind bci: in a table that is cut off the last may lack */
    while (line_next(&table, excluded, &place)) {
        passed |= place.bci > bci;
        if (place.bci <= bci && place.bci >= best.bci)
            best = place;
    }
    if (!table.len && !passed)
        return 0;
    return best.line > 0 && best.line < INT32_MAX ? (uint32_t)best.line : 0;
}
