/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A search tree of two levels: blocks of ranges in the order of their addresses, and the table of
 * blocks, each from an address on. An older range goes as a whole, however little of it is
 * overwritten: the function that it was is there no more.
 */
#include "agent-bpf/symbols/perf_map.h"
#include "agent-bpf/function_name.h"
#include "base/stats.h"
#include <stdlib.h>

#define BLOCK_RANGES    128
#define MALLOC_OVERHEAD 16 /* of a name: what malloc() keeps, and rounds up */

static const char *const loss_names[] = {[PERF_MAP_LINE_MALFORMED] = "malformed",
                                         [PERF_MAP_LINE_NO_MEMORY] = "memory",
                                         [PERF_MAP_LINE_TOO_LONG] = "too_long"};
STAT_LOSSES(left_out, "spanprof_perf_map_lines_left_out_total",
            "Lines of perf maps that are ignored.",
            STAT_LABEL("reason", loss_names, PERF_MAP_LINE_LOSSES));

void perf_map_count_left_out(enum perf_map_line_loss reason)
{
    stat_add_of(&left_out, reason, 1);
}

struct block { /* not empty, unless it is the only one */
    size_t n;
    struct perf_map_range ranges[BLOCK_RANGES];
};

struct perf_map_branch {
    uint64_t from; /* ranges that start here or above, up to the next branch; of the first: any */
    struct block *block;
};

struct place {
    size_t branch;
    size_t at; /* in its block */
};

/* ---- places ---- */

/* Behind the last range that starts at the address or below. */
static struct place place_behind(const struct perf_map *map, uint64_t address)
{
    size_t low = 0, high = map->n_branches;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (map->branches[middle].from <= address)
            low = middle;
        else
            high = middle;
    }
    struct place place = {.branch = low};
    const struct block *block = map->branches[low].block;
    for (size_t end = block->n; place.at < end;) {
        size_t middle = place.at + (end - place.at) / 2;
        if (block->ranges[middle].start <= address)
            place.at = middle + 1;
        else
            end = middle;
    }
    return place;
}

/* The last range that starts at the address or below. */
static bool place_below(const struct perf_map *map, uint64_t address, struct place *place)
{
    if (!map->n)
        return false;
    *place = place_behind(map, address);
    if (!place->at) {
        if (!place->branch)
            return false;
        place->at = map->branches[--place->branch].block->n;
    }
    place->at--;
    return true;
}

static struct perf_map_range *range_at(const struct perf_map *map, struct place place)
{
    return &map->branches[place.branch].block->ranges[place.at];
}

/* ---- blocks ---- */

static bool take_memory(struct perf_map *map, size_t size)
{
    if (size > map->bytes_max - map->bytes)
        return false;
    map->bytes += size;
    return true;
}

static bool more_branches(struct perf_map *map)
{
    size_t cap = map->cap ? 2 * map->cap : 4;
    if (map->n_branches < map->cap)
        return true;
    if (!take_memory(map, (cap - map->cap) * sizeof(*map->branches)))
        return false;
    struct perf_map_branch *branches = realloc(map->branches, cap * sizeof(*branches));
    if (!branches) {
        map->bytes -= (cap - map->cap) * sizeof(*branches);
        return false;
    }
    map->branches = branches;
    map->cap = cap;
    return true;
}

/* An empty one, to be filled by the caller. */
static struct block *add_block(struct perf_map *map, size_t at, uint64_t from)
{
    if (!more_branches(map) || !take_memory(map, sizeof(struct block)))
        return NULL;
    struct block *block = malloc(sizeof(*block));
    if (!block) {
        map->bytes -= sizeof(*block);
        return NULL;
    }
    block->n = 0;
    struct perf_map_branch *branch = &map->branches[at];
    memmove(branch + 1, branch, (map->n_branches++ - at) * sizeof(*branch));
    *branch = (struct perf_map_branch){from, block};
    return block;
}

static void remove_block(struct perf_map *map, size_t at)
{
    struct perf_map_branch *branch = &map->branches[at];
    free(branch->block);
    map->bytes -= sizeof(struct block);
    memmove(branch, branch + 1, (--map->n_branches - at) * sizeof(*branch));
}

/* The upper half of a full one becomes its own. */
static bool perf_map_split(struct perf_map *map, struct place *place)
{
    struct block *full = map->branches[place->branch].block;
    const size_t half = BLOCK_RANGES / 2;
    struct block *upper = add_block(map, place->branch + 1, full->ranges[half].start);
    if (!upper)
        return false;
    full->n = half;
    upper->n = BLOCK_RANGES - half;
    memcpy(upper->ranges, full->ranges + half, upper->n * sizeof(*upper->ranges));
    if (place->at > half) {
        place->branch++;
        place->at -= half;
    }
    return true;
}

/* ---- ranges ---- */

static void remove_range(struct perf_map *map, struct place place)
{
    struct block *block = map->branches[place.branch].block;
    struct perf_map_range *range = &block->ranges[place.at];
    map->bytes -= strlen(range->name) + 1 + MALLOC_OVERHEAD;
    map->n--;
    free((char *)range->name);
    memmove(range, range + 1, (--block->n - place.at) * sizeof(*range));
    if (!block->n)
        remove_block(map, place.branch);
}

static void remove_overlapped(struct perf_map *map, const struct perf_map_range *by)
{
    struct place place;
    while (place_below(map, by->last, &place) && range_at(map, place)->last >= by->start)
        remove_range(map, place);
}

/* Room for one more there. */
static bool find_room(struct perf_map *map, uint64_t start, struct place *place)
{
    if (!map->n_branches && !add_block(map, 0, 0))
        return false;
    *place = place_behind(map, start);
    return map->branches[place->branch].block->n < BLOCK_RANGES || perf_map_split(map, place);
}

static char *keep_name(struct perf_map *map, struct bytes name)
{
    char text[FUNCTION_NAME_MAX];
    size_t size = bytes_sanitize(name, text, sizeof(text)) + 1;
    if (!take_memory(map, size + MALLOC_OVERHEAD))
        return NULL;
    char *kept = malloc(size);
    if (kept)
        memcpy(kept, text, size);
    else
        map->bytes -= size + MALLOC_OVERHEAD;
    return kept;
}

static bool perf_map_insert(struct perf_map *map, const struct perf_map_range *extent,
                            struct bytes name)
{
    struct place place;
    if (!find_room(map, extent->start, &place))
        return false;
    struct block *block = map->branches[place.branch].block;
    char *kept = keep_name(map, name);
    if (!kept)
        return false;
    struct perf_map_range *range = &block->ranges[place.at];
    memmove(range + 1, range, (block->n++ - place.at) * sizeof(*range));
    *range = (struct perf_map_range){extent->start, extent->last, kept};
    map->n++;
    return true;
}

void perf_map_init(struct perf_map *map, size_t bytes_max)
{
    *map = (struct perf_map){.bytes_max = bytes_max};
}

void perf_map_close(struct perf_map *map)
{
    for (size_t i = 0; i < map->n_branches; i++) {
        struct block *block = map->branches[i].block;
        for (size_t k = 0; k < block->n; k++)
            free((char *)block->ranges[k].name);
        free(block);
    }
    free(map->branches);
    perf_map_init(map, map->bytes_max);
}

/* ---- lines ---- */

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct bytes map_trimmed(struct bytes text)
{
    while (text.len && is_blank(*text.data))
        text.data++, text.len--;
    while (text.len && is_blank(text.data[text.len - 1]))
        text.len--;
    return text;
}

static unsigned digit_of(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0' + 0u;
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10u : 16;
}

/* A number and the blank behind it. */
static bool take_number(struct bytes *line, uint64_t *number)
{
    struct bytes text = map_trimmed(*line);
    if (text.len > 2 && text.data[0] == '0' && (text.data[1] | 0x20) == 'x')
        text = BYTES(text.data + 2, text.len - 2);
    size_t n = 0;
    unsigned digit;
    *number = 0;
    for (; n < text.len && n <= 16 && (digit = digit_of(text.data[n])) < 16; n++)
        *number = *number << 4 | digit;
    if (!n || n > 16 || n == text.len || !is_blank(text.data[n]))
        return false;
    *line = BYTES(text.data + n, text.len - n);
    return true;
}

static void take_line(struct perf_map *map, struct bytes line)
{
    struct perf_map_range extent;
    uint64_t size;
    if (!take_number(&line, &extent.start) || !take_number(&line, &size) || !size ||
        __builtin_add_overflow(extent.start, size - 1, &extent.last) ||
        !(line = map_trimmed(line)).len) {
        perf_map_count_left_out(PERF_MAP_LINE_MALFORMED);
        return;
    }
    remove_overlapped(map, &extent);
    if (!perf_map_insert(map, &extent, line))
        perf_map_count_left_out(PERF_MAP_LINE_NO_MEMORY);
}

size_t perf_map_add(struct perf_map *map, struct bytes text)
{
    size_t at = 0;
    const uint8_t *end;
    while (at < text.len && (end = memchr(text.data + at, '\n', text.len - at))) {
        size_t next = (size_t)(end - text.data);
        take_line(map, BYTES(text.data + at, next - at));
        at = next + 1;
    }
    return at;
}

/* The last address before the next range. */
static uint64_t end_of_gap(const struct perf_map *map, struct place next)
{
    if (next.at >= map->branches[next.branch].block->n)
        next = (struct place){.branch = next.branch + 1};
    return next.branch < map->n_branches ? range_at(map, next)->start - 1 : UINT64_MAX;
}

struct perf_map_range perf_map_find(const struct perf_map *map, uint64_t address)
{
    struct perf_map_range gap = {.last = UINT64_MAX};
    struct place below, next = {0};
    if (!map->n)
        return gap;
    if (place_below(map, address, &below)) {
        const struct perf_map_range *range = range_at(map, below);
        if (range->last >= address)
            return *range;
        gap.start = range->last + 1;
        next = (struct place){below.branch, below.at + 1};
    }
    gap.last = end_of_gap(map, next);
    return gap;
}
