/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cgroup.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static struct bytes path_of(const char *text)
{
    return cgroup_path_of_text(BYTES_STR(text));
}

static void test_path_of_text(void **state)
{
    (void)state;
    assert_true(bytes_is(path_of("0::/system.slice/a.service\n"), "/system.slice/a.service"));
    assert_true(bytes_is(path_of("4:memory:/x\n0::/user.slice\n"), "/user.slice"));
    assert_true(bytes_is(path_of("0::/"), "/"));
    assert_int_equal(path_of("4:memory:/x\n10::/y\n").len, 0);
    assert_int_equal(path_of("\n\n").len, 0);
    assert_int_equal(path_of("").len, 0);
}

static void test_id_of_path(void **state)
{
    char top[] = "/tmp/test_cgroup.XXXXXX", path[64];
    struct stat status;
    (void)state;
    assert_non_null(mkdtemp(top));
    snprintf(path, sizeof(path), "%s/a.slice", top);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(cgroup_id_of_path(top, BYTES_STR("/a.slice")), status.st_ino);
    assert_int_equal(cgroup_id_of_path(top, BYTES_STR("/b.slice")), 0);
    assert_int_equal(cgroup_id_of_path(top, BYTES_STR("a.slice")), 0);
    assert_int_equal(cgroup_id_of_path(top, BYTES_STR("")), 0);
    assert_int_equal(cgroup_id_of_path(path, BYTES_STR("/..")), 0);
    assert_int_equal(cgroup_id_of_path(path, BYTES("/\0x", 3)), 0);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(top), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_of_text),
        cmocka_unit_test(test_id_of_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
