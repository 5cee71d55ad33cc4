/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry of a page is written last and removed first: a page is visible while it has one. A
 * block may be reused while a tick reads it; the tick notices by the block's key
 * (unwind_rule.bpf.h).
 */
#include "agent-bpf/unwind/unwind_maps.h"
#include "agent-bpf/unwind/unwind_block.h"
#include "base/clock.h"
#include "base/fair_share.h"
#include "base/map.h"
#include <assert.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>

#define EVICTED_SHARE                                                                              \
    8 /* an eighth of the pages at once: finding the oldest takes a system call per page */

struct loaded_page {
    struct unwind_page_key key;
    unsigned shift;
    uint32_t used_s; /* of its entry, as read by the last eviction */
    uint64_t tenant;
};

struct unwind_loader {
    struct unwind_maps maps;
    struct map pages;
    struct fair_share share; /* blocks of pages */
    uint32_t next_id;
    uint64_t n_blocks;
    uint64_t n_evicted;
};

/* Removes what an earlier process loaded: its executable numbers are unknown here. */
static void empty_map(int fd, size_t key_size)
{
    union {
        struct unwind_file file;
        struct unwind_page_key page;
        struct unwind_block_key block;
    } key;
    assert(key_size <= sizeof(key));
    while (!bpf_map_get_next_key(fd, NULL, &key) && !bpf_map_delete_elem(fd, &key))
        ;
}

int unwind_loader_open(const struct unwind_maps *maps, struct unwind_loader **out)
{
    struct unwind_loader *loader = calloc(1, sizeof(*loader));
    if (!loader)
        return -ENOMEM;
    int error = fair_share_init(&loader->share, maps->n_blocks);
    if (error) {
        free(loader);
        return error;
    }
    loader->maps = *maps;
    loader->next_id = (uint32_t)clock_monotonic_ns(); /* a tick may still read an earlier one */
    MAP_INIT(&loader->pages, struct loaded_page, key);
    empty_map(maps->executables, sizeof(struct unwind_file));
    empty_map(maps->pages, sizeof(struct unwind_page_key));
    empty_map(maps->blocks, sizeof(struct unwind_block_key));
    *out = loader;
    return 0;
}

void unwind_loader_close(struct unwind_loader *loader)
{
    if (!loader)
        return;
    struct loaded_page *page;
    for (size_t i = 0; (page = map_next(&loader->pages, &i));)
        free(page);
    map_close(&loader->pages);
    free(loader);
}

uint32_t unwind_loader_id(struct unwind_loader *loader)
{
    return loader->next_id++;
}

int unwind_loader_put_file(struct unwind_loader *loader, const struct unwind_file *file,
                           const struct unwind_executable *executable)
{
    return bpf_map_update_elem(loader->maps.executables, file, executable, BPF_ANY);
}

void unwind_loader_remove_file(struct unwind_loader *loader, const struct unwind_file *file)
{
    bpf_map_delete_elem(loader->maps.executables, file);
}

static uint32_t blocks_of(unsigned shift)
{
    return UNWIND_PAGE_BYTES >> shift;
}

static struct unwind_block_key block_key(const struct unwind_page_key *page, unsigned shift,
                                         uint32_t i)
{
    uint64_t start = ((uint64_t)page->page << UNWIND_PAGE_SHIFT) + ((uint64_t)i << shift);
    return (struct unwind_block_key){page->executable, (uint32_t)(start >> UNWIND_BLOCK_SHIFT_MIN)};
}

static void unwind_loader_remove_blocks(struct unwind_loader *loader,
                                        const struct unwind_page_key *page, unsigned shift,
                                        uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct unwind_block_key key = block_key(page, shift, i);
        bpf_map_delete_elem(loader->maps.blocks, &key);
    }
    assert(loader->n_blocks >= n);
    loader->n_blocks -= n;
}

static void unwind_loader_remove_page(struct unwind_loader *loader, struct loaded_page *page)
{
    bpf_map_delete_elem(loader->maps.pages, &page->key);
    unwind_loader_remove_blocks(loader, &page->key, page->shift, blocks_of(page->shift));
    fair_share_give(&loader->share, page->tenant, blocks_of(page->shift));
    map_remove(&loader->pages, &page->key);
    free(page);
}

static int older_first(const void *a, const void *b)
{
    const struct loaded_page *left = *(struct loaded_page *const *)a;
    const struct loaded_page *right = *(struct loaded_page *const *)b;
    return left->used_s < right->used_s ? -1 : left->used_s > right->used_s;
}

static void loaded_page_read_use(const struct unwind_loader *loader, struct loaded_page *page)
{
    struct unwind_page_entry entry;
    if (!bpf_map_lookup_elem(loader->maps.pages, &page->key, &entry))
        page->used_s = entry.used_s;
}

/* Those that may go: of the tenant that has most, and what is idle. */
static size_t find_candidates(const struct unwind_loader *loader, struct loaded_page **pages)
{
    unsigned largest = fair_share_largest(&loader->share);
    uint32_t now_s = (uint32_t)(clock_monotonic_ns() / NS_PER_SEC);
    struct loaded_page *page;
    size_t n = 0;
    for (size_t i = 0; (page = map_next(&loader->pages, &i));) {
        loaded_page_read_use(loader, page);
        bool is_idle = (int32_t)(now_s - page->used_s) > FAIR_IDLE_S; /* a tick may be ahead */
        if (is_idle || fair_share_index(&loader->share, page->tenant) == largest)
            pages[n++] = page;
    }
    return n;
}

/* False: there is nothing to evict. */
static bool unwind_loader_evict(struct unwind_loader *loader)
{
    size_t n_all = loader->pages.count;
    struct loaded_page **pages = calloc(n_all ? n_all : 1, sizeof(struct loaded_page *));
    if (!n_all || !pages) {
        free(pages);
        return false;
    }
    size_t n = find_candidates(loader, pages);
    qsort(pages, n, sizeof(struct loaded_page *), older_first);
    for (size_t i = 0; i <= n / EVICTED_SHARE && i < n; i++) {
        unwind_loader_remove_page(loader, pages[i]);
        loader->n_evicted++;
    }
    free(pages);
    return true;
}

static int unwind_loader_put_block(struct unwind_loader *loader, const struct unwind_block *block)
{
    int error;
    do
        error = bpf_map_update_elem(loader->maps.blocks, &block->key, block, BPF_ANY);
    while (error == -E2BIG && unwind_loader_evict(loader));
    loader->n_blocks += !error;
    return error;
}

static int unwind_loader_put_blocks(struct unwind_loader *loader, const struct unwind_page_key *key,
                                    const struct unwind_page *page, unsigned shift)
{
    struct unwind_block block;
    for (uint32_t i = 0; i < blocks_of(shift); i++) {
        unwind_block_fill(page, key->executable, page->start + ((uint64_t)i << shift), shift,
                          &block);
        int error = unwind_loader_put_block(loader, &block);
        if (error) {
            unwind_loader_remove_blocks(loader, key, shift, i);
            return error;
        }
    }
    return 0;
}

static int unwind_loader_put_entry(struct unwind_loader *loader, struct loaded_page *page)
{
    struct unwind_page_entry entry = {.used_s = (uint32_t)(clock_monotonic_ns() / NS_PER_SEC),
                                      .block_shift = page->shift};
    int error = map_put(&loader->pages, page, NULL);
    if (error)
        return error;
    error = bpf_map_update_elem(loader->maps.pages, &page->key, &entry, BPF_ANY);
    if (error)
        map_remove(&loader->pages, &page->key);
    else
        fair_share_take(&loader->share, page->tenant, blocks_of(page->shift));
    return error;
}

static struct unwind_page_key page_key(uint32_t executable, uint64_t address)
{
    return (struct unwind_page_key){executable, (uint32_t)(address >> UNWIND_PAGE_SHIFT)};
}

bool unwind_loader_has_page(const struct unwind_loader *loader, uint32_t executable,
                            uint64_t address)
{
    struct unwind_page_key key = page_key(executable, address);
    return map_get(&loader->pages, &key);
}

int unwind_loader_put_page(struct unwind_loader *loader, uint32_t executable,
                           const struct unwind_page *page, uint64_t tenant)
{
    if (page->start >= UNWIND_ADDRESS_MAX)
        return -ERANGE;
    if (unwind_loader_has_page(loader, executable, page->start))
        return 0;
    struct loaded_page *loaded = calloc(1, sizeof(*loaded));
    if (!loaded)
        return -ENOMEM;
    loaded->key = page_key(executable, page->start);
    loaded->shift = unwind_block_shift(page);
    loaded->tenant = tenant;
    int error = unwind_loader_put_blocks(loader, &loaded->key, page, loaded->shift);
    if (error) {
        free(loaded);
        return error;
    }
    error = unwind_loader_put_entry(loader, loaded);
    if (error) {
        unwind_loader_remove_blocks(loader, &loaded->key, loaded->shift, blocks_of(loaded->shift));
        free(loaded);
    }
    return error;
}

void unwind_loader_forget(struct unwind_loader *loader, uint32_t executable)
{
    struct loaded_page *page;
    for (size_t i = 0; (page = map_next(&loader->pages, &i));)
        if (page->key.executable == executable)
            unwind_loader_remove_page(loader, page);
}

struct unwind_loader_counts unwind_loader_counts(const struct unwind_loader *loader)
{
    return (struct unwind_loader_counts){
        .pages = loader->pages.count, .blocks = loader->n_blocks, .evicted = loader->n_evicted};
}
