/* SPDX-License-Identifier: Apache-2.0 */
/* Pages cut into blocks: the same rule at each address, of real files and of the densest there can
 * be. */
#include "agent-bpf/unwind/eh_frame.h"
#include "test/support/fixtures/unwind_block_find.h"
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after those: */
#include <cmocka.h>

struct sums {
    uint64_t pages, blocks, rows;
};

static void check_address(const struct unwind_page *page, const struct unwind_block *block,
                          uint64_t address)
{
    const struct unwind_rule *found = unwind_block_find(block, address);
    assert_non_null(found);
    assert_memory_equal(found, unwind_page_find(page, address), sizeof(*found));
}

static void check_block(const struct unwind_page *page, uint64_t start, unsigned shift)
{
    struct unwind_block block;
    unwind_block_fill(page, 7, start, shift, &block);
    assert_int_equal(block.key.executable, 7);
    assert_int_equal(block.key.start, start >> UNWIND_BLOCK_SHIFT_MIN);
    assert_int_equal(block.shift, shift);
    assert_int_equal(block.rows[0].low, start - page->start);
    check_address(page, &block, start);
    check_address(page, &block, start + (1u << shift) - 1);
    for (uint32_t i = 0; i < page->n_rows; i++) {
        uint64_t address = page->start + page->rows[i].low;
        if (address < start || address - start >= 1u << shift)
            continue;
        check_address(page, &block, address);
        if (address > start)
            check_address(page, &block, address - 1);
    }
}

static unsigned check_page(const struct unwind_page *page, struct sums *sums)
{
    unsigned shift = unwind_block_shift(page);
    assert_in_range(shift, UNWIND_BLOCK_SHIFT_MIN, UNWIND_PAGE_SHIFT);
    for (uint64_t at = 0; at < UNWIND_PAGE_BYTES; at += 1u << shift)
        check_block(page, page->start + at, shift);
    sums->pages++;
    sums->blocks += UNWIND_PAGE_BYTES >> shift;
    sums->rows += page->n_rows;
    return shift;
}

static void check_file(const char *path, struct sums *sums)
{
    struct elf elf;
    struct eh_frame *frame = NULL;
    uint64_t at = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(elf_open(fd, &elf), 0);
    assert_int_equal(eh_frame_open(&elf, &frame), 0);
    while (!eh_frame_next(frame, at, &at)) {
        struct unwind_page page;
        assert_int_equal(eh_frame_page(frame, at, &page), 0);
        check_page(&page, sums);
        at = page.start + UNWIND_PAGE_BYTES;
        unwind_page_close(&page);
    }
    eh_frame_close(frame);
    close(fd);
}

static void real_files(void **state)
{
    static const char *const patterns[] = {"/usr/lib/*/libc.so.6", "/usr/lib/*/libcrypto.so.3",
                                           "/usr/lib/*/libstdc++.so.6", "/proc/self/exe"};
    struct sums sums = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
        glob_t found;
        if (glob(patterns[i], 0, NULL, &found))
            continue;
        check_file(found.gl_pathv[0], &sums);
        globfree(&found);
    }
    assert_true(sums.pages > 20);
    printf("FIGURE unwind_bytes_per_row_loaded %.1f bytes\n",
           4096.0 * (double)sums.blocks / (double)sums.rows);
}

static struct unwind_rule numbered(uint32_t number)
{
    return (struct unwind_rule){.cfa = UNWIND_REGISTER, .cfa_offset = (int32_t)number};
}

/* A row at each step of addresses, each of another rule, as far as there may be so many. */
static unsigned dense(uint64_t step, uint32_t n_rules)
{
    struct unwind_page page;
    struct sums sums = {0};
    uint32_t number = 0;
    assert_int_equal(unwind_page_init(&page, 16 * UNWIND_PAGE_BYTES), 0);
    for (uint64_t at = 0; at < UNWIND_PAGE_BYTES; at += step) {
        struct unwind_rule rule = numbered(number++ % n_rules);
        assert_int_equal(unwind_page_put(&page, page.start + at, &rule), 0);
    }
    unsigned shift = check_page(&page, &sums);
    unwind_page_close(&page);
    return shift;
}

static void dense_pages(void **state)
{
    (void)state;
    assert_int_equal(dense(UNWIND_PAGE_BYTES, 1), UNWIND_PAGE_SHIFT);
    assert_int_equal(dense(1, UNWIND_RULES_MAX - 2), 7); /* 198 rows of 20 bytes fit: 128 */
    assert_int_equal(dense(1, 2), 9);                    /* 984 rows of 4 bytes: 512 */
    assert_true(dense(16, 300) > 9);
}

static void nonsense_gives_nothing(void **state)
{
    (void)state;
    struct unwind_block block = {.n_rows = 1};
    block.rows[0].rule = 9;
    assert_null(unwind_block_find(&block, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_files),
        cmocka_unit_test(dense_pages),
        cmocka_unit_test(nonsense_gives_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
