/* SPDX-License-Identifier: Apache-2.0 */
/* A class file of javac's, with branches, a switch, handlers and constants of two places: patched,
 * cut anywhere, and damaged anywhere. That a JVM takes the result, with its verifier on, is seen by
 * test/peers/test_publish_java.py. */
#include "context/java/class_patch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { FILE_MAX = 4096, GETFIELD = 0xb4, INVOKESTATIC = 0xb8, INSERTED = 8 };

static uint8_t sample[FILE_MAX];
static size_t sample_size;

static const struct class_patch wanted = {
    .field = "runContinuation",
    .field_type = "Ljava/lang/Runnable;",
    .hooks = "Hook",
    .methods = {{"mount", "mounting"}, {"unmount", "unmounting"}}};

static int sample_read(void **state)
{
    FILE *file = fopen(SPANPROF_SOURCE_DIR "/test/captured/java/Sample.class", "rb");
    (void)state;
    if (!file)
        return -1;
    sample_size = fread(sample, 1, sizeof(sample), file);
    fclose(file);
    return sample_size && sample_size < sizeof(sample) ? 0 : -1;
}

/* In memory of its own size, so that a sanitizer sees what is read outside. */
static uint8_t *patched(const struct class_patch *patch, const uint8_t *file, size_t size,
                        size_t *new_size)
{
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, file, size);
    uint8_t *result = class_patch(patch, copy, size, new_size);
    free(copy);
    return result;
}

static unsigned calls(const uint8_t *file, size_t size)
{
    unsigned n = 0;
    for (size_t at = 0; at + INSERTED <= size; at++)
        n += file[at] == 0x2a && file[at + 1] == GETFIELD && file[at + 4] == INVOKESTATIC &&
             file[at + 7] == 0;
    return n;
}

static void test_patched(void **state)
{
    size_t once_size = 0, twice_size = 0;
    (void)state;
    assert_int_equal(calls(sample, sample_size), 0);
    uint8_t *once = patched(&wanted, sample, sample_size, &once_size);
    assert_non_null(once);
    assert_int_equal(calls(once, once_size), CLASS_PATCH_METHODS);
    uint8_t *twice = patched(&wanted, once, once_size, &twice_size);
    assert_non_null(twice);
    assert_int_equal(calls(twice, twice_size), 2 * CLASS_PATCH_METHODS);
    assert_int_equal(twice_size - once_size, strlen("Hook") + strlen("(Ljava/lang/Runnable;)V") +
                                                 strlen("mounting") + strlen("unmounting") + 4 * 3 +
                                                 3 + CLASS_PATCH_METHODS * (10 + INSERTED));
    free(once);
    free(twice);
}

static void test_not_there(void **state)
{
    struct class_patch other[] = {wanted, wanted, wanted};
    size_t size;
    (void)state;
    other[0].field = "n";
    other[1].field_type = "Ljava/lang/Thread;";
    other[2].methods[1].method = "dismount";
    for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++)
        assert_null(patched(&other[i], sample, sample_size, &size));
}

static void test_cut(void **state)
{
    size_t size;
    (void)state;
    for (size_t n = 0; n < sample_size; n++)
        assert_null(patched(&wanted, sample, n, &size));
}

static void test_damaged(void **state)
{
    static const uint8_t values[] = {0, 1, 2, 0x3f, 0x40, 0x7f, 0x80, 0xfb, 0xff};
    (void)state;
    for (size_t at = 0; at < sample_size; at++)
        for (size_t i = 0; i < sizeof(values); i++) {
            uint8_t damaged[FILE_MAX];
            size_t size = 0;
            memcpy(damaged, sample, sample_size);
            damaged[at] = values[i];
            uint8_t *result = patched(&wanted, damaged, sample_size, &size);
            assert_true(!result || size > sample_size - FILE_MAX / 4);
            free(result);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patched),
        cmocka_unit_test(test_not_there),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, sample_read, NULL);
}
