/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/unwind/unwind_page.h"
#include "base/hash.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct unwind_rule no_info, unknown = {.cfa = UNWIND_UNKNOWN};

static uint8_t bucket_of(const struct unwind_rule *rule)
{
    uint64_t words[2];
    memcpy(words, rule, sizeof(words));
    uint64_t mixed = hash_mix(words[0] ^ (words[1] << 7 | words[1] >> 57));
    return (uint8_t)(mixed >> 56);
}

static int add_rule(struct unwind_page *page, const struct unwind_rule *rule)
{
    if (page->n_rules == page->rules_cap) {
        uint32_t cap = page->rules_cap ? page->rules_cap * 2 : 64;
        struct unwind_rule *rules = realloc(page->rules, cap * sizeof(*rules));
        if (!rules)
            return -ENOMEM;
        page->rules = rules;
        uint16_t *next = realloc(page->next_in_bucket, cap * sizeof(*next));
        if (!next)
            return -ENOMEM;
        page->next_in_bucket = next;
        page->rules_cap = cap;
    }
    uint8_t bucket = bucket_of(rule);
    page->rules[page->n_rules] = *rule;
    page->next_in_bucket[page->n_rules] = page->buckets[bucket];
    page->buckets[bucket] = (uint16_t)++page->n_rules;
    return 0;
}

/* Its index, or -ENOMEM. Room for the unknown rule is kept: it comes second. */
static int rule_index(struct unwind_page *page, const struct unwind_rule *rule)
{
    for (uint16_t at = page->buckets[bucket_of(rule)]; at; at = page->next_in_bucket[at - 1])
        if (!memcmp(&page->rules[at - 1], rule, sizeof(*rule)))
            return at - 1;
    if (page->n_rules == UNWIND_RULES_MAX)
        return 1;
    int error = add_rule(page, rule);
    return error ? error : (int)page->n_rules - 1;
}

static int add_row(struct unwind_page *page, uint16_t low, uint16_t rule)
{
    if (page->n_rows == page->rows_cap) {
        uint32_t cap = page->rows_cap ? page->rows_cap * 2 : 1024;
        struct unwind_row *rows = realloc(page->rows, cap * sizeof(*rows));
        if (!rows)
            return -ENOMEM;
        page->rows = rows;
        page->rows_cap = cap;
    }
    page->rows[page->n_rows++] = (struct unwind_row){low, rule};
    return 0;
}

int unwind_page_init(struct unwind_page *page, uint64_t start)
{
    assert(start % UNWIND_PAGE_BYTES == 0);
    *page = (struct unwind_page){.start = start};
    int error = add_rule(page, &no_info);
    error = error ? error : add_rule(page, &unknown);
    error = error ? error : add_row(page, 0, 0);
    if (error)
        unwind_page_close(page);
    return error;
}

void unwind_page_close(struct unwind_page *page)
{
    free(page->rows);
    free(page->rules);
    free(page->next_in_bucket);
    *page = (struct unwind_page){.start = page->start};
}

int unwind_page_put(struct unwind_page *page, uint64_t address, const struct unwind_rule *rule)
{
    assert(address - page->start < UNWIND_PAGE_BYTES);
    uint16_t low = (uint16_t)(address - page->start);
    while (page->n_rows && page->rows[page->n_rows - 1].low >= low)
        page->n_rows--;
    int index = rule_index(page, rule);
    if (index < 0)
        return index;
    page->unknown += index == 1;
    if (page->n_rows && page->rows[page->n_rows - 1].rule == index)
        return 0;
    return add_row(page, low, (uint16_t)index);
}

static uint32_t row_start(const struct unwind_page *page, uint32_t i)
{
    return i < page->n_rows ? page->rows[i].low : UNWIND_PAGE_BYTES;
}

static const struct unwind_rule *row_rule(const struct unwind_page *page, uint32_t i)
{
    return &page->rules[page->rows[i].rule];
}

int unwind_page_fill(struct unwind_page *page, const struct unwind_page *other)
{
    struct unwind_page made;
    assert(page->start == other->start);
    int error = unwind_page_init(&made, page->start);
    if (error)
        return error;
    for (uint32_t i = 0, j = 0; !error && (i < page->n_rows || j < other->n_rows);) {
        uint32_t own = row_start(page, i), others = row_start(other, j);
        uint32_t low = own < others ? own : others;
        i += own == low;
        j += others == low;
        const struct unwind_rule *rule = row_rule(page, i - 1);
        if (rule->cfa == UNWIND_NO_INFO)
            rule = row_rule(other, j - 1);
        error = unwind_page_put(&made, page->start + low, rule);
    }
    made.damaged = page->damaged + other->damaged;
    unwind_page_close(error ? &made : page);
    if (!error)
        *page = made;
    return error;
}

bool unwind_page_has_gap(const struct unwind_page *page, uint32_t size)
{
    for (uint32_t i = 0; i < page->n_rows; i++)
        if (row_rule(page, i)->cfa == UNWIND_NO_INFO &&
            row_start(page, i + 1) - row_start(page, i) >= size)
            return true;
    return false;
}

uint32_t unwind_page_row(const struct unwind_page *page, uint64_t address)
{
    assert(address - page->start < UNWIND_PAGE_BYTES && page->n_rows);
    uint32_t low = (uint32_t)(address - page->start), first = 0, end = page->n_rows;
    while (end - first > 1) {
        uint32_t middle = first + (end - first) / 2;
        if (page->rows[middle].low <= low)
            first = middle;
        else
            end = middle;
    }
    return first;
}

const struct unwind_rule *unwind_page_find(const struct unwind_page *page, uint64_t address)
{
    return &page->rules[page->rows[unwind_page_row(page, address)].rule];
}
