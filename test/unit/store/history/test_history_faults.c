/* SPDX-License-Identifier: Apache-2.0 */
/* The n-th allocation and the n-th write fail while windows close, minutes are written and blocks
 * expire: the history is what left all the same, in memory as in the file. */
#include "test/support/faults/fail_alloc.h"
#include "test/support/faults/fail_vfs.h"
#include "test/support/fixtures/history_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { N_WINDOWS = 8 };

#define T0         FIXTURE_T0
#define SECOND     FIXTURE_SECOND
#define WINDOW_NS  (25 * SECOND)
#define EXPIRES_NS (100 * SECOND) /* so that the first ones go while the last ones come */

static int put_samples(struct store *store, unsigned number)
{
    uint8_t identity[16] = {1};
    int64_t executable, stack;
    bool is_new;
    int error = stacks_executable(store_stacks(store), identity, &executable);
    struct frame frame = {STACK_FRAME_NATIVE, executable, number};
    if (!error)
        error = stacks_intern(store_stacks(store), &frame, 1, &stack, &is_new);
    if (!error)
        error = join_batch_begin(store_join(store));
    for (unsigned i = 0; i < 3 && !error; i++) {
        struct sample sample =
            fixture_sample(T0 + number * WINDOW_NS + i * SECOND,
                           (struct fixture_ids){number * (i < 2), i < 2, 0}, stack, 0);
        error = join_add_sample(store_join(store), &sample);
    }
    return error ? error : join_batch_commit(store_join(store));
}

static int put_span(struct store *store, unsigned number)
{
    struct fixture_span span;
    struct join_result result = {0};
    fixture_span(&span, number, 1, number * 25, number * 25 + 20, 0);
    int error = join_span(store_join(store), &span.span, &fixture_forwarder, &result);
    if (error >= 0)
        error = history_span(store_history(store), 0, &span.span, &result);
    fixture_span_close(&span);
    return error < 0 ? error : 0;
}

static int run_step(struct store *store, unsigned step)
{
    static const struct window_settings window = {
        .max_request_bytes = 1 << 20, .destinations = 1, .scope_version = "0"};
    unsigned number = step / 4 + 1;
    uint64_t now = T0 + (number + 1) * WINDOW_NS;
    size_t n;
    switch (step % 4) {
    case 0:
        return put_samples(store, number);
    case 1:
        return put_span(store, number);
    case 2:
        return store_window(store, &window, now, &n);
    default:
        return store_collect(store, now);
    }
}

static unsigned run(struct fixture *fixture)
{
    unsigned n_failed = 0;
    for (unsigned step = 0; step < N_WINDOWS * 4; step++) {
        int error = store_begin(fixture->store);
        if (!error) {
            error = run_step(fixture->store, step);
            if (error)
                store_fail(fixture->store, error);
            error = store_end(fixture->store);
        }
        n_failed += error != 0;
    }
    store_maintain(fixture->store);
    return n_failed;
}

static void check_now(struct fixture *fixture)
{
    const struct told_history *told = history_told(fixture);
    assert_int_equal(told->n_samples, history_count(fixture, "SELECT ifnull(sum(samples), 0) FROM "
                                                             "history_block"));
    /* Of what is kept: all that left in the last windows, and nothing twice. */
    unsigned left = history_count(fixture, "SELECT ifnull(sum(items), 0) FROM outbox"
                                           " WHERE signal = 1 AND seq > 0");
    assert_true(told->n_samples <= left);
    assert_true(told->n_samples >= 3);
    assert_true(told->summed_samples >= told->n_samples && told->summed_samples <= left);
    for (size_t i = 0; i < told->n_samples; i++)
        for (size_t k = 0; k < i; k++)
            assert_false(told->samples[i].time_unix_ns == told->samples[k].time_unix_ns);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_part"),
                     told->n_blocks * HISTORY_PARTS);
}

static void check(struct fixture *fixture)
{
    check_now(fixture);
    fixture_reopen(fixture);
    check_now(fixture);
    assert_int_equal(run(fixture), 0);
}

static void make(struct fixture *fixture)
{
    fixture_make(fixture);
    fixture->settings.history.retention_ns = EXPIRES_NS;
}

static void test_nothing_fails(void **state)
{
    struct fixture fixture;
    (void)state;
    make(&fixture);
    fixture_open(&fixture);
    assert_int_equal(run(&fixture), 0);
    assert_int_equal(history_count(&fixture, "SELECT min(seq) > 1 AND max(seq) = 8 AND count(*) = 4"
                                             " FROM history_block"),
                     1);
    assert_true(history_count(&fixture, "SELECT count(*) FROM history_minute") >= 2);
    check(&fixture);
    fixture_remove(&fixture);
}

static void test_alloc(void **state)
{
    unsigned n = 1;
    (void)state;
    for (bool hit = true; hit; n += 7) {
        struct fixture fixture;
        make(&fixture);
        fixture_open(&fixture);
        fail_alloc_at(n);
        unsigned n_failed = run(&fixture);
        hit = fail_alloc_hit();
        assert_true(n_failed <= 1);
        check(&fixture);
        fixture_remove(&fixture);
    }
    assert_true(n > 300);
}

static void fail_writes(enum fail_vfs_kind kind)
{
    unsigned n = 1;
    for (bool hit = true; hit; n += 11) {
        struct fixture fixture;
        make(&fixture);
        fixture.settings.db.vfs = FAIL_VFS_NAME;
        fixture_open(&fixture);
        fail_vfs_at(n, kind);
        unsigned n_failed = run(&fixture);
        hit = fail_vfs_hit();
        assert_true(n_failed <= 1);
        check(&fixture);
        fixture_remove(&fixture);
    }
    assert_true(n > 100);
}

static void test_write_io(void **state)
{
    (void)state;
    fail_writes(FAIL_VFS_IO);
}

static void test_write_full(void **state)
{
    (void)state;
    fail_writes(FAIL_VFS_FULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_fails),
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_write_io),
        cmocka_unit_test(test_write_full),
    };
    fail_vfs_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
