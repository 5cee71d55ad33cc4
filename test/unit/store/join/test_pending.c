/* SPDX-License-Identifier: Apache-2.0 */
/* What pending.c asserts of its counts: each is broken here, and the assertion fires. */
#include "store/join/pending.h"
#include "test/support/faults/aborts.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

struct rig {
    struct pending pending;
    struct pending_batch *batch;
    enum pending_state next;
};

static void rig_open(struct rig *rig, uint32_t count)
{
    *rig = (struct rig){.batch =
                            calloc(1, sizeof(*rig->batch) + count * sizeof(struct pending_sample))};
    assert_non_null(rig->batch);
    rig->batch->count = count;
    for (uint32_t i = 0; i < count; i++)
        rig->batch->samples[i].index = i;
}

static void change_first(void *context)
{
    struct rig *rig = context;
    pending_sample_set(&rig->pending, &rig->batch->samples[0], rig->next);
}

static void test_counts_follow_states(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, 2);
    pending_sample_set(&rig.pending, &rig.batch->samples[0], PENDING_WAITING);
    pending_sample_set(&rig.pending, &rig.batch->samples[1], PENDING_READY);
    assert_int_equal(rig.batch->n_waiting, 1);
    assert_int_equal(rig.batch->n_ready, 1);
    assert_int_equal(rig.pending.n_samples, 2);
    rig.next = PENDING_JOINED;
    assert_false(aborts(change_first, &rig));
    free(rig.batch);
}

static void test_more_than_there_are(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, 2);
    rig.next = PENDING_WAITING;
    rig.batch->n_ready = 2; /* with the one that is about to wait, three of two */
    rig.pending.n_samples = 2;
    assert_true(aborts(change_first, &rig));
    free(rig.batch);
}

static void test_fewer_than_none(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, 2);
    pending_sample_set(&rig.pending, &rig.batch->samples[0], PENDING_WAITING);
    rig.batch->n_waiting = 0;
    rig.next = PENDING_GONE;
    assert_true(aborts(change_first, &rig));
    free(rig.batch);
}

static void test_total_of_all_batches(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, 2);
    pending_sample_set(&rig.pending, &rig.batch->samples[1], PENDING_READY);
    rig.pending.n_samples = 0;
    rig.next = PENDING_READY;
    assert_true(aborts(change_first, &rig));
    free(rig.batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_follow_states),
        cmocka_unit_test(test_more_than_there_are),
        cmocka_unit_test(test_fewer_than_none),
        cmocka_unit_test(test_total_of_all_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
