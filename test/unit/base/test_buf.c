/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "test/support/faults/fail_alloc.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void test_append_and_consume(void **state)
{
    _cleanup_buf_ struct buf buf = BUF_INIT(0);
    (void)state;
    assert_int_equal(buf_append(&buf, NULL, 0), 0);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(buf_append(&buf, &(uint8_t){(uint8_t)i}, 1), 0);
    assert_int_equal(buf.len, 10000);
    buf_consume(&buf, 0);
    buf_consume(&buf, 300);
    assert_int_equal(buf.len, 9700);
    for (size_t i = 0; i < buf.len; i++)
        assert_int_equal(buf_bytes(&buf).data[i], (uint8_t)(i + 300));
    buf_consume(&buf, 1 << 20);
    assert_int_equal(buf.len, 0);
    assert_int_equal(buf_append_bytes(&buf, BYTES_LIT("x")), 0);
    buf_clear(&buf);
    assert_int_equal(buf.len, 0);
    assert_true(buf.cap > 0);
}

static void test_limit(void **state)
{
    struct buf buf = BUF_INIT(10);
    (void)state;
    assert_int_equal(buf_append(&buf, "12345678", 8), 0);
    assert_int_equal(buf_append(&buf, "abc", 3), BUF_FULL);
    assert_int_equal(buf.len, 8);
    assert_int_equal(buf_append(&buf, "ab", 2), 0);
    assert_int_equal(buf_append(&buf, "", 0), 0);
    assert_int_equal(buf_reserve(&buf, 1), BUF_FULL);
    assert_int_equal(buf_reserve(&buf, SIZE_MAX), BUF_FULL);
    assert_true(buf.cap <= 10);
    assert_memory_equal(buf.data, "12345678ab", 10);
    buf_close(&buf);
    buf_close(&buf);
    assert_int_equal(buf.limit_bytes, 10);
    struct buf unlimited = BUF_INIT(0);
    assert_int_equal(buf_reserve(&unlimited, SIZE_MAX - 1), -ENOMEM);
    buf_close(&unlimited);
}

static void test_printf(void **state)
{
    struct buf buf = BUF_INIT(0);
    (void)state;
    for (int i = 0; i < 300; i++)
        assert_int_equal(buf_printf(&buf, "%03d,", i), 0);
    assert_int_equal(buf.len, 1200);
    assert_memory_equal(buf.data, "000,001,", 8);
    assert_memory_equal(buf.data + 1192, "298,299,", 8);
    buf_close(&buf);
    struct buf tight = BUF_INIT(6);
    assert_int_equal(buf_printf(&tight, "%d", 123456), 0); /* the limit counts no NUL */
    assert_memory_equal(tight.data, "123456", 6);
    assert_int_equal(buf_printf(&tight, "%s", ""), 0);
    assert_int_equal(buf_printf(&tight, "7"), BUF_FULL);
    assert_int_equal(tight.len, 6);
    buf_close(&tight);
}

static void test_release(void **state)
{
    struct buf buf = BUF_INIT(0);
    size_t len = 0;
    (void)state;
    assert_int_equal(buf_append(&buf, "hello", 5), 0);
    uint8_t *data = buf_release(&buf, &len);
    assert_int_equal(len, 5);
    assert_memory_equal(data, "hello", 5);
    assert_null(buf.data);
    free(data);
    assert_null(buf_release(&buf, NULL));
}

static void test_no_memory(void **state)
{
    (void)state;
    for (unsigned n = 1;; n++) {
        _cleanup_buf_ struct buf buf = BUF_INIT(0);
        int outcome = 0;
        size_t len = 0;
        fail_alloc_at(n);
        for (int i = 0; i < 100 && !outcome; i++) {
            len = buf.len;
            outcome = buf_printf(&buf, "number %d\n", i);
        }
        if (!fail_alloc_hit())
            break;
        assert_int_equal(outcome, -ENOMEM);
        assert_int_equal(buf.len, len); /* nothing was appended */
    }
    _cleanup_buf_ struct buf tight = BUF_INIT(6);
    assert_int_equal(buf_reserve(&tight, 6), 0);
    fail_alloc_at(1);
    assert_int_equal(buf_printf(&tight, "%d", 123456), -ENOMEM);
    assert_true(fail_alloc_hit());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append_and_consume),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_printf),
        cmocka_unit_test(test_release),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
