/* SPDX-License-Identifier: Apache-2.0 */
/* What is used stays, what is not goes, and the bound holds whatever is put. */
#include "agent-bpf/runtimes/runtime_cache.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define BYTES_MAX (64u << 10)

static struct runtime_cache_key key_of(uint64_t n)
{
    return (struct runtime_cache_key){.words = {n, 2, 3, 4}, .program = 7, .runtime = 1};
}

static void put_of(struct runtime_cache *cache, uint64_t tenant, uint64_t n, size_t size)
{
    uint8_t *value = malloc(size + 1);
    const struct runtime_cache_key key = key_of(n);
    memset(value, (int)n, size + 1);
    runtime_cache_put(cache, tenant, &key, BYTES(value, size));
    free(value);
}

static void put(struct runtime_cache *cache, uint64_t n, size_t size)
{
    put_of(cache, 1, n, size);
}

static bool has(struct runtime_cache *cache, uint64_t n, size_t size)
{
    const struct runtime_cache_key key = key_of(n);
    struct bytes value;
    if (!runtime_cache_get(cache, &key, &value))
        return false;
    assert_int_equal(value.len, size);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(value.data[i], (uint8_t)n);
    return true;
}

static void test_least_recently_used(void **state)
{
    struct runtime_cache *cache;
    (void)state;
    assert_int_equal(runtime_cache_open(BYTES_MAX, &cache), 0);
    put(cache, 0, 1000);
    unsigned there = 0;
    for (uint64_t n = 1; n <= 1000; n++) {
        put(cache, n, 1000);
        assert_true(has(cache, 0, 1000) && has(cache, n, 1000));
    }
    for (uint64_t n = 1; n <= 1000; n++)
        there += has(cache, n, 1000);
    assert_in_range(there, 40, BYTES_MAX / 1000); /* four fifths of it */
    assert_true(has(cache, 1000, 1000) && !has(cache, 1, 1000));
    runtime_cache_close(cache);
}

static void test_replaced_and_too_large(void **state)
{
    struct runtime_cache *cache;
    struct runtime_cache_key key = key_of(5);
    struct bytes value;
    (void)state;
    assert_int_equal(runtime_cache_open(BYTES_MAX, &cache), 0);
    for (size_t size = 0; size < 300; size++)
        put(cache, 5, size);
    assert_true(has(cache, 5, 299));
    put(cache, 6, BYTES_MAX / 4);
    assert_false(has(cache, 6, BYTES_MAX / 4));
    key.kind = 1;
    assert_false(runtime_cache_get(cache, &key, &value));
    runtime_cache_put(NULL, 1, &key, BYTES_LIT("x"));
    runtime_cache_close(cache);
    runtime_cache_close(NULL);
}

/* One that puts without end drops its own, not what another has, however long ago that was. */
static void test_tenants(void **state)
{
    struct runtime_cache *cache;
    unsigned others = 0;
    (void)state;
    assert_int_equal(runtime_cache_open(BYTES_MAX, &cache), 0);
    for (uint64_t n = 0; n < 200; n++)
        put_of(cache, 1, n, 1000);
    for (uint64_t n = 1000; n < 1008; n++)
        put_of(cache, 2, n, 1000);
    for (uint64_t n = 2000; n < 4000; n++)
        put_of(cache, 1, n, 1000);
    for (uint64_t n = 1000; n < 1008; n++)
        others += has(cache, n, 1000);
    assert_int_equal(others, 8);
    put_of(cache, 3, 5000, 1000);
    assert_true(has(cache, 5000, 1000) && has(cache, 3999, 1000));
    runtime_cache_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_recently_used),
        cmocka_unit_test(test_replaced_and_too_large),
        cmocka_unit_test(test_tenants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
