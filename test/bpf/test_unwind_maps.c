/* SPDX-License-Identifier: Apache-2.0 */
/* The loader of unwind tables on real maps of the kernel: what is there, what makes room for what,
 * and that nothing is left behind. */
#include "agent-bpf/unwind/unwind_maps.h"
#include "base/fair_share.h"
#include "bpf_test.h"
#include "test/support/fixtures/unwind_block_find.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define N_BLOCKS 32

static struct unwind_maps maps;
static struct unwind_loader *loader;

static int make_map(const char *name, uint32_t key_size, uint32_t value_size, uint32_t n)
{
    LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
    int fd = bpf_map_create(BPF_MAP_TYPE_HASH, name, key_size, value_size, n, &options);
    assert_true(fd >= 0);
    return fd;
}

static int open_all(void **state)
{
    (void)state;
    maps = (struct unwind_maps){
        .executables = make_map("executables", sizeof(struct unwind_file),
                                sizeof(struct unwind_executable), 4),
        .pages = make_map("pages", sizeof(struct unwind_page_key), sizeof(struct unwind_page_entry),
                          N_BLOCKS),
        .blocks = make_map("blocks", sizeof(struct unwind_block_key), sizeof(struct unwind_block),
                           N_BLOCKS),
        .n_blocks = N_BLOCKS,
    };
    return unwind_loader_open(&maps, &loader);
}

static int close_all(void **state)
{
    (void)state;
    unwind_loader_close(loader);
    close(maps.executables);
    close(maps.pages);
    close(maps.blocks);
    return 0;
}

static size_t entries(int fd)
{
    union {
        struct unwind_file file;
        uint8_t bytes[32];
    } key, next;
    size_t n = 0;
    for (const void *at = NULL; !bpf_map_get_next_key(fd, at, &next); at = &key, n++)
        key = next;
    return n;
}

/* A page whose rows are `step` bytes apart, with a rule of its own each. */
static int put_of(uint64_t tenant, uint32_t executable, uint64_t number, uint64_t step)
{
    struct unwind_page page;
    assert_int_equal(unwind_page_init(&page, number * UNWIND_PAGE_BYTES), 0);
    for (uint64_t at = 0; at < UNWIND_PAGE_BYTES; at += step) {
        struct unwind_rule rule = {.cfa = UNWIND_REGISTER,
                                   .cfa_offset = (int32_t)(at % UNWIND_RULES_MAX)};
        assert_int_equal(unwind_page_put(&page, page.start + at, &rule), 0);
    }
    int error = unwind_loader_put_page(loader, executable, &page, tenant);
    unwind_page_close(&page);
    return error;
}

static int put(uint32_t executable, uint64_t number, uint64_t step)
{
    return put_of(1, executable, number, step);
}

static void set_used(uint32_t executable, uint32_t number, uint32_t used_s)
{
    struct unwind_page_key key = {executable, number};
    struct unwind_page_entry entry;
    assert_int_equal(bpf_map_lookup_elem(maps.pages, &key, &entry), 0);
    entry.used_s = used_s;
    assert_int_equal(bpf_map_update_elem(maps.pages, &key, &entry, BPF_ANY), 0);
}

static bool there(uint32_t executable, uint64_t number)
{
    struct unwind_page_key key = {executable, (uint32_t)number};
    struct unwind_page_entry entry;
    bool loaded = unwind_loader_has_page(loader, executable, number * UNWIND_PAGE_BYTES);
    assert_int_equal(!bpf_map_lookup_elem(maps.pages, &key, &entry), loaded);
    return loaded;
}

static void pages_are_there(void **state)
{
    (void)state;
    uint32_t id = unwind_loader_id(loader);
    assert_int_not_equal(unwind_loader_id(loader), id);
    assert_int_equal(put(id, 3, UNWIND_PAGE_BYTES), 0);
    assert_int_equal(put(id, 3, UNWIND_PAGE_BYTES), 0); /* it is there already */
    assert_int_equal(put(id, 9, 64), 0);                /* 1024 rows: several blocks */
    assert_true(there(id, 3) && there(id, 9) && !there(id, 4));
    struct unwind_loader_counts counts = unwind_loader_counts(loader);
    assert_int_equal(counts.pages, 2);
    assert_int_equal(counts.blocks, entries(maps.blocks));
    assert_true(counts.blocks > 2);

    struct unwind_page_key page_key = {id, 9};
    struct unwind_page_entry entry;
    assert_int_equal(bpf_map_lookup_elem(maps.pages, &page_key, &entry), 0);
    for (uint64_t at = 9 * UNWIND_PAGE_BYTES; at < 10 * UNWIND_PAGE_BYTES; at += 64) {
        struct unwind_block_key key = {
            id, (uint32_t)(at >> entry.block_shift << entry.block_shift >> UNWIND_BLOCK_SHIFT_MIN)};
        struct unwind_block block;
        assert_int_equal(bpf_map_lookup_elem(maps.blocks, &key, &block), 0);
        assert_memory_equal(&block.key, &key, sizeof(key));
        const struct unwind_rule *rule = unwind_block_find(&block, at);
        assert_non_null(rule);
        assert_int_equal(rule->cfa_offset, at % UNWIND_PAGE_BYTES % UNWIND_RULES_MAX);
    }
    unwind_loader_forget(loader, id);
    assert_int_equal(entries(maps.pages) + entries(maps.blocks), 0);
    assert_int_equal(unwind_loader_counts(loader).blocks, 0);
}

static void the_longest_unused_makes_room(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        assert_int_equal(put(7, i, UNWIND_PAGE_BYTES), 0);
        set_used(7, i, 1000 + (i + 16) % N_BLOCKS);
    }
    assert_int_equal(put(8, 0, UNWIND_PAGE_BYTES), 0);
    assert_true(there(8, 0));
    for (uint32_t i = 0; i < N_BLOCKS; i++) /* an eighth, and one: 16 to 20 are the oldest */
        assert_int_equal(there(7, i), i < 16 || i > 20);
    assert_int_equal(unwind_loader_counts(loader).evicted, 5);
}

/* A tenant that has code without end run evicts its own, though that of another was used before;
 * what was unused for a minute goes, of any tenant. */
static void a_flood_evicts_its_own(void **state)
{
    enum { HONEST = 1, FLOODER = 2, N_HONEST = 4 };
    const uint32_t now_s = (uint32_t)(clock_monotonic_ns() / NS_PER_SEC);
    (void)state;
    for (uint32_t i = 0; i < N_HONEST; i++) {
        assert_int_equal(put_of(HONEST, 7, i, UNWIND_PAGE_BYTES), 0);
        set_used(7, i, now_s - FAIR_IDLE_S / 2);
    }
    for (uint32_t i = 0; i < 10 * N_BLOCKS; i++)
        assert_int_equal(put_of(FLOODER, 8, i, UNWIND_PAGE_BYTES), 0);
    for (uint32_t i = 0; i < N_HONEST; i++)
        assert_true(there(7, i));
    assert_true(there(8, 10 * N_BLOCKS - 1));
    if (now_s > 2 * FAIR_IDLE_S)
        set_used(7, 0, now_s - 2 * FAIR_IDLE_S);
    for (uint32_t i = 0; i < N_BLOCKS; i++)
        assert_int_equal(put_of(FLOODER, 9, i, UNWIND_PAGE_BYTES), 0);
    assert_int_equal(there(7, 0), now_s <= 2 * FAIR_IDLE_S);
    assert_true(there(7, 1));
}

static void a_page_too_large_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(put(7, 0, UNWIND_PAGE_BYTES), 0);
    assert_int_equal(put(7, 1, 2), -E2BIG); /* 256 blocks and more */
    assert_false(there(7, 1));
    assert_int_equal(unwind_loader_counts(loader).blocks, entries(maps.blocks));
    assert_int_equal(put(7, 2, UNWIND_PAGE_BYTES), 0);
    struct unwind_page page;
    assert_int_equal(unwind_page_init(&page, UNWIND_ADDRESS_MAX), 0);
    assert_int_equal(unwind_loader_put_page(loader, 7, &page, 1), -ERANGE);
    unwind_page_close(&page);
}

static void files_and_a_new_loader(void **state)
{
    (void)state;
    const struct unwind_executable executable = {.id = 5, .how = UNWIND_BY_ROWS};
    struct unwind_file file = {.inode = 1};
    for (; file.inode <= 4; file.inode++)
        assert_int_equal(unwind_loader_put_file(loader, &file, &executable), 0);
    assert_int_equal(unwind_loader_put_file(loader, &file, &executable), -E2BIG);
    file.inode = 2;
    unwind_loader_remove_file(loader, &file);
    assert_int_equal(entries(maps.executables), 3);
    assert_int_equal(put(5, 0, UNWIND_PAGE_BYTES), 0);
    unwind_loader_close(loader);
    assert_int_equal(unwind_loader_open(&maps, &loader), 0); /* as after the symbolizer's death */
    assert_int_equal(entries(maps.executables) + entries(maps.pages) + entries(maps.blocks), 0);
}

int main(void)
{
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
#define T(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
    const struct CMUnitTest tests[] = {
        T(pages_are_there),        T(the_longest_unused_makes_room),
        T(a_flood_evicts_its_own), T(a_page_too_large_leaves_nothing),
        T(files_and_a_new_loader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
