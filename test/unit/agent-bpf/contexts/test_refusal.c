/* SPDX-License-Identifier: Apache-2.0 */
/* What a publisher says by a mapping's name, and what nobody may say by one. */
#include "agent-bpf/contexts/refusal.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define LINE   "7f0000000000-7f0000001000 r--s 00000000 fe:01 17 "
#define LIBC   "7f0000002000-7f0000003000 r-xp 00000000 fe:01 18 /usr/lib/libc.so.6\n"
#define FOLDER "/usr/lib/spanprof/publishers/python/spanprof_otel/"

/* Behind its last byte nothing may be read. */
static enum publisher_state found_in(const char *maps, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, maps, size);
    enum publisher_state found = refusal_find(BYTES(copy, size));
    free(copy);
    return found;
}

static void test_words(void **state)
{
    static const struct {
        const char *maps;
        enum publisher_state found;
    } cases[] = {
        {LINE FOLDER "spanprof-refused-no_library\n", PUBLISHER_NO_LIBRARY},
        {LIBC LINE FOLDER "spanprof-refused-unknown_version\n" LIBC, PUBLISHER_VERSION},
        {LINE FOLDER "spanprof-refused-taken (deleted)\n", PUBLISHER_TAKEN},
        {LINE "/spanprof-refused-failed", PUBLISHER_FAILED},
        {LINE "/memfd:spanprof-refused-taken (deleted)\n", PUBLISHER_TAKEN},
        {LINE "spanprof-refused-taken\n", PUBLISHER_NONE},
        {"spanprof-refused-taken\n", PUBLISHER_NONE},
        {LINE "/spanprof-refused-nonsense\n" LINE "/spanprof-refused-failed\n", PUBLISHER_FAILED},
        {LIBC, PUBLISHER_NONE},
        {"", PUBLISHER_NONE},
        {LINE "/spanprof-refused-", PUBLISHER_NONE},
        {LINE "/spanprof-refused-\n", PUBLISHER_NONE},
        {LINE "/spanprof-refused-active\n", PUBLISHER_NONE}, /* a state, and no refusal */
        {LINE "/spanprof-refused-taken2\n", PUBLISHER_NONE},
        {LINE "/spanprof-refused-take\n", PUBLISHER_NONE},
        {LINE "/spanprof-refused-taken/x\n", PUBLISHER_NONE},
        {LINE "/not-spanprof-refused-taken\n", PUBLISHER_NONE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(found_in(cases[i].maps, strlen(cases[i].maps)), cases[i].found);
}

static void test_cut(void **state)
{
    static const char maps[] = LIBC LINE FOLDER "spanprof-refused-no_library\n";
    (void)state;
    for (size_t size = 0; size < sizeof(maps) - 2; size++)
        assert_int_equal(found_in(maps, size), PUBLISHER_NONE);
}

/* Megabytes of beginnings take one pass. */
static void test_many(void **state)
{
    static const char one[] = "/spanprof-refused-x";
    size_t n = 500000, size = n * (sizeof(one) - 1);
    char *maps = malloc(size);
    (void)state;
    assert_non_null(maps);
    for (size_t i = 0; i < n; i++)
        memcpy(maps + i * (sizeof(one) - 1), one, sizeof(one) - 1);
    assert_int_equal(found_in(maps, size), PUBLISHER_NONE);
    free(maps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
