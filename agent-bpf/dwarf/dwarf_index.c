/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/dwarf/dwarf_index.h"
#include "agent-bpf/dwarf/dwarf_ranges.h"
#include "base/clock.h"
#include <errno.h>
#include <stdlib.h>

#define LOOK_BACK     32 /* ranges that begin before an address, for one that covers it */
#define GAP_BYTES     64 /* between ranges of a unit that become one */
#define UNITS_UNTIMED 64

static int add_unit(struct dwarf_units *units, uint64_t at)
{
    if (units->n == units->cap) {
        size_t cap = units->cap ? units->cap * 2 : 64;
        uint64_t *more = realloc(units->at, cap * sizeof(*more));
        if (!more)
            return -ENOMEM;
        units->at = more;
        units->cap = cap;
    }
    units->at[units->n++] = at;
    return 0;
}

/* The next unit and its end; false: that was the last that can be found. */
static bool next_unit(struct dwarf_units *units, const struct dwarf_file *file, uint64_t *at)
{
    uint64_t end;
    units->complete |= units->next >= file->sections[DWARF_INFO].size ||
                       units->n >= DWARF_UNITS_MAX || dwarf_unit_end(file, units->next, &end);
    if (units->complete)
        return false;
    *at = units->next;
    units->next = end;
    return true;
}

int dwarf_units_read(struct dwarf_units *units, const struct dwarf_file *file, uint64_t deadline_ns)
{
    uint64_t at;
    int error = 0;
    while (!error && next_unit(units, file, &at)) {
        error = add_unit(units, at);
        if (units->n % UNITS_UNTIMED == 0 && clock_monotonic_ns() > deadline_ns)
            break;
    }
    return error;
}

void dwarf_units_close(struct dwarf_units *units)
{
    free(units->at);
    *units = (struct dwarf_units){0};
}

uint64_t dwarf_units_at(const struct dwarf_units *units, uint64_t position)
{
    size_t low = 0, high = units->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (units->at[middle] <= position)
            low = middle + 1;
        else
            high = middle;
    }
    return low && position < units->next ? units->at[low - 1] : DWARF_NONE;
}

/* Ranges */

struct adding {
    struct dwarf_index *index;
    const struct dwarf_code *code;
    int error;
};

static bool joins_last(const struct dwarf_index *index, const struct dwarf_range *range,
                       uint32_t unit)
{
    if (!index->n)
        return false;
    const struct dwarf_covered *last = &index->covered[index->n - 1];
    uint64_t last_end = last->start + last->size;
    return last->unit == unit && range->start >= last_end && range->start - last_end <= GAP_BYTES &&
           range->end - last->start <= UINT32_MAX;
}

static int add_range(void *context, const struct dwarf_range *range)
{
    struct adding *adding = context;
    struct dwarf_index *index = adding->index;
    uint32_t unit = (uint32_t)(index->units.n - 1);
    if (range->start < adding->code->start || range->end > adding->code->end ||
        range->end - range->start > UINT32_MAX)
        return 0;
    if (joins_last(index, range, unit)) {
        struct dwarf_covered *last = &index->covered[index->n - 1];
        last->size = (uint32_t)(range->end - last->start);
        return 0;
    }
    if (index->n == DWARF_COVERED_MAX)
        return 1;
    if (index->n == index->cap) {
        size_t cap = index->cap ? index->cap * 2 : 64;
        struct dwarf_covered *more = realloc(index->covered, cap * sizeof(*more));
        adding->error = more ? 0 : -ENOMEM;
        if (!more)
            return 1;
        index->covered = more;
        index->cap = cap;
    }
    index->covered[index->n++] =
        (struct dwarf_covered){range->start, (uint32_t)(range->end - range->start), unit};
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct dwarf_covered *left = a, *right = b;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    return left->size > right->size ? -1 : left->size < right->size;
}

static int add_ranges_of(struct dwarf_index *index, const struct dwarf_file *file,
                         const struct dwarf_code *code, uint64_t at)
{
    struct dwarf_die own;
    struct adding adding = {index, code, 0};
    int error = dwarf_unit_open(&index->unit, file, at, &own);
    if (error)
        return error < 0 ? error : 0;
    dwarf_ranges_each(&index->unit, &own, add_range, &adding);
    return adding.error;
}

int dwarf_index_build(struct dwarf_index *index, const struct dwarf_file *file,
                      const struct dwarf_code *code, uint64_t deadline_ns)
{
    uint64_t at;
    size_t before = index->n;
    int error = 0;
    while (!error && next_unit(&index->units, file, &at)) {
        error = add_unit(&index->units, at);
        error = error ? error : add_ranges_of(index, file, code, at);
        if (index->units.n % UNITS_UNTIMED == 0 && clock_monotonic_ns() > deadline_ns)
            break;
    }
    if (index->n > before)
        qsort(index->covered, index->n, sizeof(*index->covered), by_start);
    if (index->units.complete)
        dwarf_unit_close(&index->unit);
    return error;
}

void dwarf_index_close(struct dwarf_index *index)
{
    dwarf_units_close(&index->units);
    dwarf_unit_close(&index->unit);
    free(index->covered);
    *index = (struct dwarf_index){0};
}

size_t dwarf_index_bytes(const struct dwarf_index *index)
{
    return index->units.cap * sizeof(*index->units.at) + index->cap * sizeof(*index->covered) +
           dwarf_unit_bytes(&index->unit);
}

static bool index_has(const uint32_t *units, size_t n, uint32_t unit)
{
    for (size_t i = 0; i < n; i++)
        if (units[i] == unit)
            return true;
    return false;
}

size_t dwarf_index_find(const struct dwarf_index *index, uint64_t address, uint32_t *units,
                        size_t max)
{
    size_t low = 0, high = index->n, n = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->covered[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t back = 1; back <= LOOK_BACK && back <= low && n < max; back++) {
        const struct dwarf_covered *covered = &index->covered[low - back];
        if (address - covered->start < covered->size && !index_has(units, n, covered->unit))
            units[n++] = covered->unit;
    }
    return n;
}
