/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stats.h"
#include "base/buf.h"
#include "test/support/fail_alloc.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* Declared out of order, to be printed in order. */
STAT_COUNTER(zebras_late, "test_zebras_total", "late=\"yes\"", "Zebras seen, by time.");
STAT_GAUGE(depth, "test_depth_bytes", "", "Depth \\ of\nsomething.");
STAT_COUNTER(zebras_early, "test_zebras_total", "late=\"no\"", "Zebras seen, by time.");

static void test_before_sharing(void **state)
{
    (void)state;
    stat_add(&zebras_late, 3);
    stat_set(&depth, -7);
    assert_int_equal(stat_get(&zebras_late), 3);
    assert_int_equal(stats_find("test_zebras_total", "late=\"yes\""), 3);
    assert_int_equal(stats_find("test_depth_bytes", ""), -7);
    assert_int_equal(stats_find("test_zebras_total", ""), -1);
    assert_int_equal(stats_find("test_nothing", ""), -1);
}

static void test_page(void **state)
{
    static const char expected[] = "# HELP test_depth_bytes Depth \\\\ of\\nsomething.\n"
                                   "# TYPE test_depth_bytes gauge\n"
                                   "test_depth_bytes -7\n"
                                   "# HELP test_zebras_total Zebras seen, by time.\n"
                                   "# TYPE test_zebras_total counter\n"
                                   "test_zebras_total{late=\"no\"} 0\n"
                                   "test_zebras_total{late=\"yes\"} 3\n";
    _cleanup_buf_ struct buf page = BUF_INIT(0);
    (void)state;
    assert_int_equal(stats_prometheus(&page), 0);
    assert_int_equal(page.len, sizeof(expected) - 1);
    assert_memory_equal(page.data, expected, page.len);
    _cleanup_buf_ struct buf tight = BUF_INIT(100);
    assert_int_equal(stats_prometheus(&tight), BUF_FULL);
    for (unsigned n = 1;; n++) {
        _cleanup_buf_ struct buf again = BUF_INIT(0);
        fail_alloc_at(n);
        int outcome = stats_prometheus(&again);
        if (!fail_alloc_hit())
            break;
        assert_int_equal(outcome, -ENOMEM);
    }
}

static void *count(void *argument)
{
    for (int i = 0; i < 10000; i++)
        stat_add(&zebras_early, 1);
    return argument;
}

static void test_threads(void **state)
{
    pthread_t threads[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(stat_get(&zebras_early), 40000);
}

/* Values go over into the shared table, and a child counts into it. */
static void test_sharing(void **state)
{
    (void)state;
    assert_int_equal(stats_share(), 0);
    assert_int_equal(stats_share(), -EALREADY);
    assert_int_equal(stat_get(&zebras_late), 3);
    assert_int_equal(stat_get(&zebras_early), 40000);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        stat_add(&zebras_late, 100);
        stat_set(&depth, 12);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(stat_get(&zebras_late), 103);
    assert_int_equal(stats_find("test_depth_bytes", ""), 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_sharing),
        cmocka_unit_test(test_page),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_sharing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
