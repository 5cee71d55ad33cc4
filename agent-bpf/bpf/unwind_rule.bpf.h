/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/* The rule of a frame (unwind_rows.h): looked up by the ELF address of its code. */
#include "agent-bpf/bpf/unwind_mapping.bpf.h"

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* resized before loading, as blocks */
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct unwind_page_key);
    __type(value, struct unwind_page_entry);
} pages SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct unwind_block_key);
    __type(value, struct unwind_block);
} blocks SEC(".maps");

#define RULE_SEARCH_STEPS 11 /* 2^10 > UNWIND_BLOCK_ROWS_MAX */

/* The index of its rule; a number beyond all if the block makes no sense. */
static __always_inline __u32 rule_index(const struct unwind_block *block, __u32 low)
{
    __u32 first = 0, end = block->n_rows;
    for (int i = 0; i < RULE_SEARCH_STEPS && end - first > 1; i++) {
        __u32 middle = (first + end) / 2;
        if (middle >= UNWIND_BLOCK_ROWS_MAX)
            return ~0u;
        if (block->rows[middle].low <= low)
            first = middle;
        else
            end = middle;
    }
    return first < UNWIND_BLOCK_ROWS_MAX ? block->rows[first].rule : ~0u;
}

static __always_inline bool rule_copy(struct unwind_rule *rule, const struct unwind_block *block,
                                      __u32 index)
{
    if (index >= UNWIND_BLOCK_RULES_MAX)
        return false;
    *rule = block->rules[UNWIND_BLOCK_RULES_MAX - 1 - index];
    return true;
}

/* To walk->rule; false: it is not loaded. */
__noinline int rule_load(struct build *build, __u32 executable, __u64 address)
{
    if (!build)
        return false;
    struct walk *walk = &build->walk;
    struct unwind_page_key page_key = {executable, (__u32)(address >> UNWIND_PAGE_SHIFT)};
    struct unwind_page_entry *page = bpf_map_lookup_elem(&pages, &page_key);
    if (!page)
        return false;
    if (page->used_s != walk->now_s)
        page->used_s = walk->now_s;
    __u32 shift = *(volatile __u32 *)&page->block_shift & 31;
    __u64 start = address & ~((1ULL << shift) - 1);
    struct unwind_block_key key = {executable, (__u32)(start >> UNWIND_BLOCK_SHIFT_MIN)};
    const struct unwind_block *block = bpf_map_lookup_elem(&blocks, &key);
    if (!block)
        return false;
    __u32 low = address & (UNWIND_PAGE_BYTES - 1);
    if (!rule_copy(&walk->rule, block, rule_index(block, low)))
        walk->rule.cfa = UNWIND_UNKNOWN;
    /* The page, or the block, was thrown out and its memory used again while it was read. By the
     * shift of another page the block in front of the right one may be found. */
    return *(volatile __u32 *)&block->key.executable == key.executable &&
           *(volatile __u32 *)&block->key.start == key.start &&
           *(volatile __u32 *)&block->shift == shift;
}

/* Of the code that walk->mapping holds. */
static __always_inline bool rule_find(struct build *build, __u64 address)
{
    struct walk *walk = &build->walk;
    const struct walk_mapping *mapping = &walk->mappings[walk->mapping % WALK_MAPPINGS];
    __u64 elf_address = address + mapping->bias;
    if (mapping->how == UNWIND_BY_ROWS && elf_address < UNWIND_ADDRESS_MAX)
        return rule_load(build, mapping->executable, elf_address);
    if (!mapping->how)
        return false;
    __builtin_memset(&walk->rule, 0, sizeof(walk->rule)); /* UNWIND_NO_INFO */
    return true;
}
