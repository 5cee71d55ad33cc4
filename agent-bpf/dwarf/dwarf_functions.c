/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/dwarf/dwarf_functions.h"
#include "base/clock.h"
#include <errno.h>
#include <stdlib.h>

#define LOOK_BACK    32 /* functions: parts of others may lie in between */
#define DIES_UNTIMED 4096
#define DEPTH_MAX    (1u << 16)

struct walk {
    struct dwarf_unit *unit;
    struct dwarf_cursor cursor;
    uint64_t deadline_ns;
    uint64_t dies;
    unsigned depth; /* of the entry to be read next, below where it began */
};

/* The next entry, also those of tag 0 that end a level. Not 0: the end. */
static int walk_next(struct walk *walk, struct dwarf_die *die)
{
    if (walk->cursor.at >= walk->unit->end || walk->depth > DEPTH_MAX ||
        (++walk->dies % DIES_UNTIMED == 0 && clock_monotonic_ns() > walk->deadline_ns))
        return ELF_MISSING;
    int error = dwarf_die_read(walk->unit, &walk->cursor, die);
    if (error)
        return error;
    if (!die->tag && !walk->depth)
        return ELF_MISSING;
    if (!die->tag)
        walk->depth--;
    else if (die->has_children)
        walk->depth++;
    return 0;
}

/* Over what lies below an entry with children that was just read. */
static int walk_over(struct walk *walk, const struct dwarf_die *die)
{
    unsigned depth = walk->depth - 1;
    struct dwarf_die below;
    int error = 0;
    if (die->sibling != DWARF_NONE && die->sibling > die->at && die->sibling < walk->unit->end) {
        walk->depth = depth;
        dwarf_seek(&walk->cursor, die->sibling);
        return 0;
    }
    while (!error && walk->depth > depth)
        error = walk_next(walk, &below);
    return error;
}

static bool is_type(uint16_t tag)
{
    return tag == DWARF_TAG_STRUCTURE || tag == DWARF_TAG_CLASS || tag == DWARF_TAG_UNION ||
           tag == DWARF_TAG_ENUMERATION || tag == DWARF_TAG_ARRAY ||
           tag == DWARF_TAG_SUBROUTINE_TYPE;
}

/* The table */

struct adding {
    struct dwarf_functions *functions;
    const struct dwarf_code *code;
    uint64_t die;
    int error;
};

static int functions_add_range(void *context, const struct dwarf_range *range)
{
    struct adding *adding = context;
    struct dwarf_functions *functions = adding->functions;
    if (range->start < adding->code->start || range->end > adding->code->end ||
        range->end - range->start > UINT32_MAX || adding->die > UINT32_MAX)
        return 0;
    if (functions->n == DWARF_FUNCTIONS_MAX)
        return 1;
    if (functions->n == functions->cap) {
        size_t cap = functions->cap ? functions->cap * 2 : 32;
        struct dwarf_function_place *more = realloc(functions->table, cap * sizeof(*more));
        adding->error = more ? 0 : -ENOMEM;
        if (!more)
            return 1;
        functions->table = more;
        functions->cap = cap;
    }
    functions->table[functions->n++] = (struct dwarf_function_place){
        range->start, (uint32_t)(range->end - range->start), (uint32_t)adding->die};
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct dwarf_function_place *left = a, *right = b;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    return left->die < right->die ? -1 : left->die > right->die;
}

int dwarf_functions_open(struct dwarf_functions *functions, struct dwarf_unit *unit,
                         const struct dwarf_code *code, uint64_t deadline_ns)
{
    struct walk walk = {.unit = unit, .deadline_ns = deadline_ns};
    struct adding adding = {.functions = functions, .code = code};
    struct dwarf_die die;
    int error = 0;
    *functions = (struct dwarf_functions){0};
    dwarf_unit_walk(unit, unit->first, &walk.cursor);
    while (!error) {
        error = walk_next(&walk, &die);
        if (!error && die.tag == DWARF_TAG_SUBPROGRAM) {
            adding.die = die.at - unit->at;
            dwarf_ranges_each(unit, &die, functions_add_range, &adding);
            error = adding.error;
        } else if (!error && die.has_children && is_type(die.tag) && die.sibling != DWARF_NONE) {
            error = walk_over(&walk, &die);
        }
    }
    if (error < 0) {
        dwarf_functions_close(functions);
        return error;
    }
    if (functions->n)
        qsort(functions->table, functions->n, sizeof(*functions->table), by_start);
    return 0;
}

void dwarf_functions_close(struct dwarf_functions *functions)
{
    free(functions->table);
    *functions = (struct dwarf_functions){0};
}

size_t dwarf_functions_bytes(const struct dwarf_functions *functions)
{
    return functions->cap * sizeof(*functions->table);
}

/* Chains */

static void dwarf_chain_push(struct dwarf_chain *chain, const struct dwarf_die *die)
{
    if (chain->n < DWARF_CHAIN_MAX) {
        chain->dies[chain->n++] = *die;
    } else if (!chain->cut_line) {
        chain->cut_file = die->call_file;
        chain->cut_line = die->call_line;
    }
}

/* Blocks without addresses may hold it. */
static bool may_hold(const struct dwarf_unit *unit, const struct dwarf_die *die, uint64_t address)
{
    switch (die->tag) {
    case DWARF_TAG_INLINED_SUBROUTINE:
        return dwarf_die_covers(unit, die, address);
    case DWARF_TAG_LEXICAL_BLOCK:
        return (!die->has_low && !die->has_ranges) || dwarf_die_covers(unit, die, address);
    case DWARF_TAG_SUBPROGRAM:
        return false;
    default:
        return !is_type(die->tag);
    }
}

/* The walk is behind the function's own entry. Calls nest, so the chain is complete where the entry
 * of the innermost call ends. */
static int find_inlined(struct walk *walk, uint64_t address, struct dwarf_chain *chain)
{
    struct dwarf_die die;
    unsigned depth = 1; /* of the entries below the innermost so far */
    int error = 0;
    while (!error && walk->depth >= depth) {
        error = walk_next(walk, &die);
        if (error || !die.tag)
            continue;
        bool holds = may_hold(walk->unit, &die, address);
        if (holds && die.tag == DWARF_TAG_INLINED_SUBROUTINE) {
            dwarf_chain_push(chain, &die);
            if (!die.has_children)
                break;
            depth = walk->depth;
        } else if (!holds && die.has_children) {
            error = walk_over(walk, &die);
        }
    }
    return error < 0 ? error : 0;
}

static const struct dwarf_function_place *place_of(const struct dwarf_functions *functions,
                                                   uint64_t address)
{
    size_t low = 0, high = functions->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (functions->table[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t back = 1; back <= LOOK_BACK && back <= low; back++)
        if (address - functions->table[low - back].start < functions->table[low - back].size)
            return &functions->table[low - back];
    return NULL;
}

int dwarf_functions_find(const struct dwarf_functions *functions, struct dwarf_unit *unit,
                         uint64_t address, uint64_t deadline_ns, struct dwarf_chain *chain)
{
    struct walk walk = {.unit = unit, .deadline_ns = deadline_ns};
    struct dwarf_die function = {.origin = DWARF_NONE}; /* the file may be another by now */
    const struct dwarf_function_place *place = place_of(functions, address);
    chain->n = 0;
    chain->cut_file = chain->cut_line = 0;
    if (!place)
        return 0;
    dwarf_unit_walk(unit, unit->at + place->die, &walk.cursor);
    int error = walk_next(&walk, &function);
    if (error)
        return error < 0 ? error : 0;
    dwarf_chain_push(chain, &function);
    return function.has_children ? find_inlined(&walk, address, chain) : 0;
}
