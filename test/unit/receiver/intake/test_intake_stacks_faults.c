/* SPDX-License-Identifier: Apache-2.0 */
/* Promised stacks when the store is rolled back or forgets, and without memory. */
#include "test/support/faults/fail_alloc.h"
#include "test/support/fixtures/unfinished_stack.h"

/* ---- when the store forgets ---- */

static void test_rolled_back(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    int64_t before = unfinished_count("rolled_back");
    uint64_t ticket = add_unfinished(rig); /* this one is committed */
    samples_rig_roll_back(rig);
    assert_int_equal(unfinished_count("rolled_back") - before, 1);
    assert_int_equal(leave(rig, &left), 1);
    assert_cut(&left, 3, UNWIND_END_WANTED);
    uint64_t second = add_unfinished(rig);
    assert_int_not_equal(second, ticket); /* though rows come again */
    answer(rig, ticket, UNWIND_END_UNKNOWN, 0, NULL);
    assert_int_equal(leave(rig, &left), 0);
    answer_usual(rig, second);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.n_frames, 4);
}

static void test_executable_forgotten(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    int64_t before = unfinished_count("forgotten");
    uint64_t ticket = add_unfinished(rig);
    samples_rig_forget_executables(rig);
    answer_usual(rig, ticket);
    assert_int_equal(unfinished_count("forgotten") - before, 1);
    samples_rig_leave_settled(rig, NULL); /* its stack is no more */
    struct copied *copied;
    struct symbolizer_message asked;
    struct record_parts parts = unfinished(&copied);
    samples_rig_add(rig, &parts, 1); /* though the process table remembers the rows */
    free(copied);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_UNWIND_WANTED, &asked), 2); /* in vain */
    answer_usual(rig, asked.unwind_wanted.ticket - 1);
    assert_int_equal(leave(rig, &left), 0);
    answer_usual(rig, asked.unwind_wanted.ticket);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.n_frames, 4);
}

/* ---- without memory ---- */

/* As jobs of the writer are: what fails is rolled back. */
static int add_in_batch(struct samples_rig *rig, const struct record_header *record)
{
    struct store *store = rig->fixture.store;
    int error = store_begin(store);
    if (error)
        return error;
    error = join_batch_begin(store_join(store));
    error =
        error ? error : intake_samples_add(rig->samples, record, (int64_t)(FIXTURE_T0 - RECORD_T0));
    error = error ? error : join_batch_commit(store_join(store));
    intake_samples_want_names(rig->samples);
    if (error)
        store_fail(store, error);
    return store_end(store);
}

static int answer_in_batch(struct samples_rig *rig, uint64_t ticket)
{
    struct store *store = rig->fixture.store;
    struct record_frame frames[] = {record_frame_native(APP + 0x301, 1),
                                    record_frame_native(APP + 0x401, 1)};
    int error = store_begin(store);
    if (error)
        return error;
    error = intake_samples_answer(
        rig->samples,
        &(struct symbolizer_message){.kind = SYMBOLIZER_UNWOUND,
                                     .unwound = {.ticket = ticket, .n = 2, .frames = frames}});
    if (error)
        store_fail(store, error);
    return store_end(store);
}

static bool run_with(struct samples_rig *rig, unsigned nth_fails)
{
    static struct record_made made;
    struct samples_rig_left left;
    struct copied *copied;
    struct record_parts parts = unfinished(&copied);
    const struct record_header *record = record_make(&made, &parts);
    fail_alloc_at(nth_fails);
    int not_added = add_in_batch(rig, record);
    if (not_added)
        intake_samples_forget(rig->samples);
    int not_answered = answer_in_batch(rig, 1);
    if (not_answered)
        intake_samples_forget(rig->samples);
    bool hit = fail_alloc_hit();
    free(copied);
    assert_int_equal(intake_samples_expire(rig->samples, RECORD_T0 + QUESTIONS_FRAMES_NS), 0);
    assert_int_equal(counted("spanprof_stacks_unfinished", "what=\"frames\""), 0);
    assert_int_equal(leave(rig, &left), not_added ? 0 : 1);
    if (!not_added)
        assert_true(left.n_frames == 4); /* whole, or two, that of pc, and the mark */
    return hit;
}

static void test_no_memory(void **state)
{
    unsigned n = 1;
    (void)state;
    for (bool hit = true; hit; n++) {
        void *rig;
        samples_rig_setup(&rig);
        hit = run_with(rig, n);
        samples_rig_teardown(&rig);
    }
    assert_in_range(n, 20, 500);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, samples_rig_setup, samples_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_rolled_back),
        TEST(test_executable_forgotten),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
