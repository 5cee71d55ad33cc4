/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

enum { LIMIT = 64, RESERVE = 8 };

static void test_reserve(void **state)
{
    struct rlimit before, few;
    int fds[LIMIT], n = 0;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){.rlim_cur = LIMIT, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    do {
        fds[n] = dup(STDERR_FILENO);
        assert_true(fds[n] >= 0);
        assert_int_equal(files_are_short(fds[n]), fds[n] >= LIMIT - RESERVE);
    } while (!files_are_short(fds[n++]));
    files_raise_limit();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(few.rlim_cur, before.rlim_max);
    assert_false(before.rlim_max > 1024 && files_are_short(fds[n - 1]));
    while (n)
        close(fds[--n]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reserve)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
