/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "test/support/faults/fail_alloc.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct entry {
    uint32_t other;
    uint64_t key;
    bool seen;
};

enum { N_ENTRIES = 20000 };

static void test_empty(void **state)
{
    struct map map;
    size_t cursor = 0;
    uint64_t key = 1;
    (void)state;
    MAP_INIT(&map, struct entry, key);
    assert_null(map_get(&map, &key));
    assert_null(map_remove(&map, &key));
    assert_null(map_next(&map, &cursor));
    map_close(&map);
    map_close(&map);
}

static void test_replace(void **state)
{
    struct map map;
    struct entry first = {.key = 5}, second = {.key = 5};
    void *old = &map;
    (void)state;
    MAP_INIT(&map, struct entry, key);
    assert_int_equal(map_put(&map, &first, &old), 0);
    assert_null(old);
    assert_int_equal(map_put(&map, &second, &old), 0);
    assert_ptr_equal(old, &first);
    assert_int_equal(map.count, 1);
    assert_ptr_equal(map_get(&map, &first.key), &second);
    assert_int_equal(map_put(&map, &first, NULL), 0);
    assert_ptr_equal(map_remove(&map, &second.key), &first);
    assert_int_equal(map.count, 0);
    map_close(&map);
}

/* Against a plain array, with random puts and removals. */
static void test_random(void **state)
{
    static struct entry entries[N_ENTRIES];
    static bool there[N_ENTRIES];
    struct map map;
    size_t count = 0;
    (void)state;
    srand(42);
    MAP_INIT(&map, struct entry, key);
    for (size_t i = 0; i < N_ENTRIES; i++)
        entries[i].key = i * 4096;
    for (int step = 0; step < 300000; step++) {
        size_t i = (size_t)rand() % N_ENTRIES;
        if (rand() % 2) {
            assert_int_equal(map_put(&map, &entries[i], NULL), 0);
            count += !there[i];
            there[i] = true;
        } else {
            assert_ptr_equal(map_remove(&map, &entries[i].key), there[i] ? &entries[i] : NULL);
            count -= there[i];
            there[i] = false;
        }
        assert_int_equal(map.count, count);
    }
    for (size_t i = 0; i < N_ENTRIES; i++)
        assert_ptr_equal(map_get(&map, &entries[i].key), there[i] ? &entries[i] : NULL);
    map_close(&map);
}

static void test_walk(void **state)
{
    static struct entry entries[1000];
    struct map map;
    struct entry *entry;
    (void)state;
    MAP_INIT(&map, struct entry, key);
    for (size_t i = 0; i < 1000; i++) {
        entries[i].key = i;
        assert_int_equal(map_put(&map, &entries[i], NULL), 0);
    }
    for (size_t i = 0; (entry = map_next(&map, &i));) {
        assert_false(entry->seen);
        entry->seen = true;
        if (entry->key % 3)
            assert_ptr_equal(map_remove(&map, &entry->key), entry);
    }
    for (size_t i = 0; i < 1000; i++)
        assert_true(entries[i].seen);
    assert_int_equal(map.count, 334);
    for (size_t i = 0; (entry = map_next(&map, &i));)
        assert_ptr_equal(map_remove(&map, &entry->key), entry); /* also the last one */
    assert_int_equal(map.count, 0);
    map_close(&map);
}

/* Many that come and go hold no memory, whether or not one is left. */
static void test_memory(void **state)
{
    static struct entry entries[N_ENTRIES];
    struct entry stays = {.key = UINT64_MAX};
    struct map map;
    (void)state;
    MAP_INIT(&map, struct entry, key);
    for (size_t i = 0; i < N_ENTRIES; i++) {
        entries[i].key = i;
        assert_int_equal(map_put(&map, &entries[i], NULL), 0);
    }
    for (size_t i = 0; i < N_ENTRIES; i++)
        map_remove(&map, &i);
    assert_int_equal(map.cap, 0);
    assert_int_equal(map_put(&map, &stays, NULL), 0);
    for (size_t i = 0; i < N_ENTRIES; i++) {
        assert_int_equal(map_put(&map, &entries[i], NULL), 0);
        assert_ptr_equal(map_remove(&map, &entries[i].key), &entries[i]);
    }
    assert_true(map.cap <= 64);
    map_close(&map);
}

static void test_keys_of_any_length(void **state)
{
    struct {
        char pad[3];
        char key[21];
    } a = {.key = "twenty-one characters"}, b = {.key = "twenty-one characterS"};
    struct map map;
    (void)state;
    map_init(&map, 3, 21);
    assert_int_equal(map_put(&map, &a, NULL), 0);
    assert_int_equal(map_put(&map, &b, NULL), 0);
    assert_ptr_equal(map_get(&map, a.key), &a);
    assert_ptr_equal(map_get(&map, b.key), &b);
    map_close(&map);
    struct map other;
    map_init(&other, 3, 21);
    assert_memory_not_equal(map.seed, other.seed, sizeof(map.seed));
}

static void test_no_memory(void **state)
{
    static struct entry entries[100];
    struct map map;
    (void)state;
    for (unsigned n = 1;; n++) {
        int error = 0;
        size_t count = 0;
        MAP_INIT(&map, struct entry, key);
        fail_alloc_at(n);
        for (size_t i = 0; i < 100 && !error; i++) {
            entries[i].key = i;
            error = map_put(&map, &entries[i], NULL);
            count += !error;
        }
        bool hit = fail_alloc_hit();
        assert_int_equal(error, hit ? -ENOMEM : 0);
        assert_int_equal(map.count, count);
        for (size_t i = 0; i < count; i++)
            assert_ptr_equal(map_get(&map, &entries[i].key), &entries[i]);
        map_close(&map);
        if (!hit)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),     cmocka_unit_test(test_replace),
        cmocka_unit_test(test_random),    cmocka_unit_test(test_walk),
        cmocka_unit_test(test_memory),    cmocka_unit_test(test_keys_of_any_length),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
