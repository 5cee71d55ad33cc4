/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memfd.h"
#include "base/fd.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/mman.h>

static void test_sealed(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    _cleanup_fd_ int fd = memfd_sealed("test", BYTES_LIT("contents"));
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(ftruncate(fd, 1), -1);
    assert_true(mmap(NULL, 8, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    assert_int_equal(memfd_read(fd, 8, &out), 0);
    assert_int_equal(memfd_read(fd, 8, &out), 0);
    assert_true(bytes_is(buf_bytes(&out), "contentscontents"));
    assert_int_equal(memfd_read(fd, 7, &out), -EFBIG);
}

static void test_empty(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    _cleanup_fd_ int fd = memfd_sealed("test", BYTES_LIT(""));
    assert_int_equal(memfd_read(fd, 0, &out), 0);
    assert_int_equal(out.len, 0);
}

/* What its maker can still change is not read. */
static void test_not_sealed(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    _cleanup_fd_ int shared = memfd_shared("test", 100),
                     file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(memfd_read(shared, 1000, &out), -EINVAL);
    assert_int_equal(memfd_read(file, SIZE_MAX, &out), -EINVAL);
    assert_int_equal(memfd_read(-1, 1000, &out), -EINVAL);
    assert_int_equal(out.len, 0);
}

static void test_shared(void **state)
{
    (void)state;
    _cleanup_fd_ int fd = memfd_shared("test", 100);
    assert_null(memfd_map(fd, 99));
    char *a = memfd_map(fd, 100), *b = memfd_map(fd, 100);
    assert_non_null(a);
    assert_non_null(b);
    a[99] = 'x';
    assert_int_equal(b[99], 'x');
    assert_int_equal(ftruncate(fd, 0), -1); /* nobody can take it from under the others */
    munmap(a, 100);
    munmap(b, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_not_sealed),
        cmocka_unit_test(test_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
