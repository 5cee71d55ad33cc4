/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One page of rows and rules (unwind_rows.h) in memory, made from left to right.
 * Thread: the owner's. The page owns its arrays. Limits: UNWIND_ROWS_MAX, UNWIND_RULES_MAX.
 */
#include "agent-bpf/unwind_rows.h"
#include <stdbool.h>
#include <stdint.h>

struct unwind_page {
    uint64_t start; /* ELF address, a multiple of UNWIND_PAGE_BYTES */
    struct unwind_row *rows;
    struct unwind_rule *rules;
    uint32_t n_rows;
    uint32_t n_rules;
    uint32_t rows_cap;
    uint32_t rules_cap;
    uint32_t unknown; /* rows whose rule cannot be expressed */
    uint32_t damaged; /* descriptions that were malformed or beyond a limit */
    uint16_t buckets[256];
    uint16_t *next_in_bucket; /* of each rule; index + 1, 0 = end */
};

/* Begins with one row: no information. 0 or -ENOMEM. */
int unwind_page_init(struct unwind_page *page, uint64_t start);
void unwind_page_close(struct unwind_page *page); /* may be called twice */

/* The rule holds from `address` (within the page) to the next row that is put. Rows at and above
 * `address` are removed first. Equal neighbours become one. 0 or -ENOMEM. */
int unwind_page_put(struct unwind_page *page, uint64_t address, const struct unwind_rule *rule);

/* Fills the gaps of `page` from `other`, a page of the same addresses. 0, or -ENOMEM: `page` is
 * unchanged. */
int unwind_page_fill(struct unwind_page *page, const struct unwind_page *other);
/* It has no rule for `size` or more addresses in a row. */
bool unwind_page_has_gap(const struct unwind_page *page, uint32_t size);

/* Index of the row that holds at an address within the page. */
uint32_t unwind_page_row(const struct unwind_page *page, uint64_t address);

/* The rule of an address within the page. Borrowed. */
const struct unwind_rule *unwind_page_find(const struct unwind_page *page, uint64_t address);
