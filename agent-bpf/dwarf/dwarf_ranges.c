/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/dwarf/dwarf_ranges.h"

enum { /* DW_RLE_* */
       RLE_END,
       RLE_BASE_INDEX,
       RLE_START_END_INDEX,
       RLE_START_INDEX_LENGTH,
       RLE_OFFSET_PAIR,
       RLE_BASE,
       RLE_START_END,
       RLE_START_LENGTH,
};

struct range_list {
    const struct dwarf_unit *unit;
    struct dwarf_cursor *cursor;
    uint64_t base;
    dwarf_range_fn *range_fn;
    void *context;
};

static int range_list_emit(const struct range_list *list, uint64_t start, uint64_t end)
{
    struct dwarf_range range = {start, end};
    return end > start ? list->range_fn(list->context, &range) : 0;
}

/* .debug_ranges: pairs, up to one of zeros. */
static int each_pair(struct range_list *list)
{
    for (int i = 0; i < DWARF_RANGES_MAX; i++) {
        uint64_t start = dwarf_fixed(list->cursor, 8), end = dwarf_fixed(list->cursor, 8);
        if (list->cursor->failed)
            return ELF_MALFORMED;
        if (!start && !end)
            return 0;
        if (start == UINT64_MAX)
            list->base = end;
        int enough =
            start == UINT64_MAX ? 0 : range_list_emit(list, list->base + start, list->base + end);
        if (enough)
            return enough;
    }
    return ELF_MALFORMED;
}

static bool range_list_indexed(const struct range_list *list, uint64_t *address)
{
    return dwarf_unit_address(list->unit, dwarf_uleb(list->cursor), address);
}

/* One entry of .debug_rnglists; start = end: it only set the base. */
static bool read_entry(struct range_list *list, uint64_t kind, struct dwarf_range *range)
{
    struct dwarf_cursor *cursor = list->cursor;
    *range = (struct dwarf_range){0, 0};
    switch (kind) {
    case RLE_BASE_INDEX:
        return range_list_indexed(list, &list->base);
    case RLE_START_END_INDEX:
        return range_list_indexed(list, &range->start) && range_list_indexed(list, &range->end);
    case RLE_START_INDEX_LENGTH:
        if (!range_list_indexed(list, &range->start))
            return false;
        range->end = range->start + dwarf_uleb(cursor);
        return true;
    case RLE_OFFSET_PAIR:
        range->start = list->base + dwarf_uleb(cursor);
        range->end = list->base + dwarf_uleb(cursor);
        return true;
    case RLE_BASE:
        list->base = dwarf_fixed(cursor, 8);
        return true;
    case RLE_START_END:
        range->start = dwarf_fixed(cursor, 8);
        range->end = dwarf_fixed(cursor, 8);
        return true;
    case RLE_START_LENGTH:
        range->start = dwarf_fixed(cursor, 8);
        range->end = range->start + dwarf_uleb(cursor);
        return true;
    default:
        return false;
    }
}

static int each_entry(struct range_list *list)
{
    for (int i = 0; i < DWARF_RANGES_MAX; i++) {
        struct dwarf_range range;
        uint64_t kind = dwarf_fixed(list->cursor, 1);
        if (kind == RLE_END && !list->cursor->failed)
            return 0;
        if (!read_entry(list, kind, &range) || list->cursor->failed)
            return ELF_MALFORMED;
        int enough = range_list_emit(list, range.start, range.end);
        if (enough)
            return enough;
    }
    return ELF_MALFORMED;
}

static bool list_place(const struct dwarf_unit *unit, const struct dwarf_die *die, uint64_t *at)
{
    *at = die->ranges;
    if (unit->version < 5) {
        *at += die->at == unit->first ? 0 : unit->range_base; /* GNU: of skeletons' entries */
        return true;
    }
    if (!die->ranges_is_index)
        return true;
    struct dwarf_cursor cursor;
    const struct dwarf_section *section = &unit->file->sections[DWARF_RNGLISTS];
    if (die->ranges > section->size / unit->offset_size)
        return false;
    dwarf_cursor_open(&cursor, section, unit->range_base + die->ranges * unit->offset_size);
    *at = unit->range_base + dwarf_fixed(&cursor, unit->offset_size);
    return !cursor.failed;
}

static int each_of_list(const struct dwarf_unit *unit, const struct dwarf_die *die,
                        dwarf_range_fn *range_fn, void *context)
{
    struct dwarf_cursor cursor;
    struct range_list list = {unit, &cursor, unit->low_pc, range_fn, context};
    uint64_t at;
    if (!list_place(unit, die, &at))
        return ELF_MALFORMED;
    dwarf_cursor_open(&cursor,
                      &unit->file->sections[unit->version < 5 ? DWARF_RANGES : DWARF_RNGLISTS], at);
    return unit->version < 5 ? each_pair(&list) : each_entry(&list);
}

int dwarf_ranges_each(const struct dwarf_unit *unit, const struct dwarf_die *die,
                      dwarf_range_fn *range_fn, void *context)
{
    if (die->has_ranges)
        return each_of_list(unit, die, range_fn, context);
    if (!die->has_low || !die->has_high)
        return ELF_MISSING;
    struct dwarf_range range = {die->low_pc, die->high_pc};
    if ((die->low_is_index && !dwarf_unit_address(unit, die->low_pc, &range.start)) ||
        (die->high_is_index && !dwarf_unit_address(unit, die->high_pc, &range.end)))
        return ELF_MALFORMED;
    if (die->high_is_size)
        range.end = range.start + die->high_pc;
    return range.end > range.start ? range_fn(context, &range) : 0;
}

struct search {
    uint64_t address;
    bool found;
};

static int ranges_compare(void *context, const struct dwarf_range *range)
{
    struct search *search = context;
    search->found = search->address >= range->start && search->address < range->end;
    return search->found;
}

bool dwarf_die_covers(const struct dwarf_unit *unit, const struct dwarf_die *die, uint64_t address)
{
    struct search search = {.address = address};
    dwarf_ranges_each(unit, die, ranges_compare, &search);
    return search.found;
}
