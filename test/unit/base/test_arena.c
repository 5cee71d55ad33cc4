/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "test/support/faults/fail_alloc.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void test_alignment_and_contents(void **state)
{
    struct arena arena;
    uint8_t *parts[500];
    (void)state;
    arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < 500; i++) {
        parts[i] = arena_alloc(&arena, i);
        assert_non_null(parts[i]);
        assert_int_equal((uintptr_t)parts[i] % 16, 0);
        memset(parts[i], (int)i, i);
    }
    for (size_t i = 0; i < 500; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_equal(parts[i][k], (uint8_t)i);
    arena_close(&arena);
    arena_close(&arena);
    assert_int_equal(arena.used_bytes, 0);
}

static void test_limit(void **state)
{
    struct arena arena;
    (void)state;
    arena_init(&arena, 10000);
    size_t n = 0;
    while (arena_alloc(&arena, 96))
        n++;
    assert_in_range(n, 10000 / 96 - 2, 10000 / 96);
    assert_true(arena.used_bytes <= 10000);
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_null(arena_alloc(&arena, SIZE_MAX - 4));
    arena_close(&arena);
    arena_init(&arena, 0);
    assert_null(arena_alloc(&arena, 0));
    arena_close(&arena);
    arena_init(&arena, 4096);
    assert_non_null(arena_alloc(&arena, 4096)); /* all of the limit is usable */
    assert_null(arena_alloc(&arena, 1));
    arena_close(&arena);
}

static void test_large_keeps_room(void **state)
{
    struct arena arena;
    (void)state;
    arena_init(&arena, 8 << 20);
    char *before = arena_alloc(&arena, 16);
    assert_non_null(arena_alloc(&arena, 1 << 20));
    char *after = arena_alloc(&arena, 16);
    assert_ptr_equal(after, before + 16); /* the first block goes on behind the large one */
    arena_close(&arena);
}

static void test_reset(void **state)
{
    struct arena arena;
    (void)state;
    arena_init(&arena, 100 * 1024);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 50; i++)
            assert_non_null(arena_alloc(&arena, 1000));
        arena_reset(&arena);
        assert_true(arena.used_bytes > 0 && arena.used_bytes <= 64 * 1024);
    }
    /* The block kept does not count against what one large thing may have. */
    assert_non_null(arena_alloc(&arena, 100 * 1024));
    arena_reset(&arena);
    arena_close(&arena);
    arena_init(&arena, 16 << 20);
    assert_non_null(arena_alloc(&arena, 8 << 20));
    arena_reset(&arena);
    assert_int_equal(arena.used_bytes, 0); /* one large request does not stay */
    arena_reset(&arena);
    arena_close(&arena);
}

static void test_copies(void **state)
{
    struct arena arena;
    (void)state;
    arena_init(&arena, 1 << 20);
    assert_memory_equal(arena_dup(&arena, "abc", 3), "abc", 3);
    assert_non_null(arena_dup(&arena, NULL, 0));
    memset(arena_alloc(&arena, 1000), 0xff, 1000);
    arena_reset(&arena);
    static const uint8_t zero[1000];
    assert_memory_equal(arena_zalloc(&arena, 1000), zero, 1000);
    arena_close(&arena);
    arena_init(&arena, 16);
    assert_null(arena_alloc(&arena, 17));
    assert_null(arena_dup(&arena, zero, 17));
    assert_null(arena_zalloc(&arena, 17));
    arena_close(&arena);
}

static void test_no_memory(void **state)
{
    struct arena arena;
    (void)state;
    arena_init(&arena, 1 << 20);
    fail_alloc_at(1);
    assert_null(arena_alloc(&arena, 10));
    assert_true(fail_alloc_hit());
    assert_int_equal(arena.used_bytes, 0);
    assert_non_null(arena_alloc(&arena, 10));
    arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alignment_and_contents),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_large_keeps_room),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
