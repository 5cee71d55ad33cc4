/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block has room for a limited number of rows and rules. The page is halved until its fullest
 * part fits. All blocks of a page cover the same number of bytes of code, so the tick program finds
 * the right one by a shift.
 */
#include "agent-bpf/unwind/unwind_block.h"
#include <assert.h>
#include <string.h>

#define NOT_THERE UINT16_MAX

/* The page's rules by their number in the block. */
struct numbers {
    uint16_t of[UNWIND_RULES_MAX];
    uint32_t n;
};

static void numbers_init(struct numbers *numbers)
{
    memset(numbers->of, 0xff, sizeof(numbers->of));
    numbers->n = 0;
}

static bool range_fits(const struct unwind_page *page, uint32_t low, unsigned shift)
{
    struct numbers numbers;
    uint32_t n_rows = 0, n_max = UNWIND_BLOCK_ROWS_MAX;
    numbers_init(&numbers);
    for (uint32_t i = unwind_page_row(page, page->start + low);
         i < page->n_rows && page->rows[i].low < low + (1u << shift); i++) {
        uint16_t *number = &numbers.of[page->rows[i].rule];
        if (*number == NOT_THERE)
            *number = (uint16_t)numbers.n++;
        if (++n_rows + numbers.n * sizeof(struct unwind_rule) / sizeof(struct unwind_row) > n_max)
            return false;
    }
    return true;
}

static bool all_ranges_fit(const struct unwind_page *page, unsigned shift)
{
    for (uint32_t low = 0; low < UNWIND_PAGE_BYTES; low += 1u << shift)
        if (!range_fits(page, low, shift))
            return false;
    return true;
}

unsigned unwind_block_shift(const struct unwind_page *page)
{
    unsigned shift = UNWIND_PAGE_SHIFT;
    while (shift > UNWIND_BLOCK_SHIFT_MIN && !all_ranges_fit(page, shift))
        shift--;
    return shift;
}

static struct unwind_rule *rule_slot(struct unwind_block *block, uint32_t number)
{
    return &block->rules[UNWIND_BLOCK_RULES_MAX - 1 - number];
}

void unwind_block_fill(const struct unwind_page *page, uint32_t executable, uint64_t start,
                       unsigned shift, struct unwind_block *block)
{
    struct numbers numbers;
    uint32_t low = (uint32_t)(start - page->start);
    numbers_init(&numbers);
    memset(block, 0, sizeof(*block));
    block->key = (struct unwind_block_key){executable, (uint32_t)(start >> UNWIND_BLOCK_SHIFT_MIN)};
    block->shift = shift;
    for (uint32_t i = unwind_page_row(page, page->start + low);
         i < page->n_rows && page->rows[i].low < low + (1u << shift); i++) {
        const struct unwind_row *row = &page->rows[i];
        uint16_t *number = &numbers.of[row->rule];
        if (*number == NOT_THERE) {
            *number = (uint16_t)numbers.n++;
            *rule_slot(block, *number) = page->rules[row->rule];
        }
        block->rows[block->n_rows++] =
            (struct unwind_row){.low = row->low < low ? (uint16_t)low : row->low, .rule = *number};
    }
    block->n_rules = (uint16_t)numbers.n;
    assert(block->n_rows * sizeof(*block->rows) + block->n_rules * sizeof(*block->rules) <=
           sizeof(block->rules));
}
