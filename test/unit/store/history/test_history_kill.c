/* SPDX-License-Identifier: Apache-2.0 */
/* kill -9 at any moment: the history is the samples that left, exactly, each with its span. */
#include "test/support/fixtures/history_fixture.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define ROUNDS    15
#define STEPS_MAX (3 * (TOLD_MAX / 3 / ROUNDS - 1)) /* of a round, which makes as many samples */

static int put_samples(struct store *store, unsigned number)
{
    uint8_t identity[16] = {1};
    int64_t executable, stack;
    bool is_new;
    int error = stacks_executable(store_stacks(store), identity, &executable);
    struct frame frame = {STACK_FRAME_NATIVE, executable, number % 10};
    if (!error)
        error = stacks_intern(store_stacks(store), &frame, 1, &stack, &is_new);
    if (!error)
        error = join_batch_begin(store_join(store));
    for (unsigned i = 0; i < 3 && !error; i++) {
        struct sample sample = fixture_sample(FIXTURE_T0 + number * FIXTURE_SECOND + i,
                                              (struct fixture_ids){number, 1, 0}, stack, 0);
        error = join_add_sample(store_join(store), &sample);
    }
    return error ? error : join_batch_commit(store_join(store));
}

static int put_span(struct store *store, unsigned number)
{
    struct fixture_span span;
    struct join_result result = {0};
    fixture_span(&span, number, 1, number, number + 1, 0);
    int error = join_span(store_join(store), &span.span, &fixture_forwarder, &result);
    if (error >= 0)
        error = history_span(store_history(store), 0, &span.span, &result);
    fixture_span_close(&span);
    return error;
}

static int run(struct store *store, unsigned step)
{
    static const struct window_settings window = {
        .max_request_bytes = 1 << 20, .destinations = 1, .scope_version = "0"};
    unsigned number = step / 3 + 1;
    size_t n;
    if (step % 3 == 0)
        return put_samples(store, number);
    if (step % 3 == 1)
        return put_span(store, number);
    if (number % 4)
        return 0;
    return store_window(store, &window, FIXTURE_T0 + number * FIXTURE_SECOND, &n);
}

static _Atomic unsigned *n_done; /* steps of the child */

static void work_until_killed(struct fixture *fixture, unsigned first)
{
    if (store_open(&fixture->settings, &fixture->store))
        _exit(1);
    for (unsigned step = first; step < first + STEPS_MAX; step++) {
        if (store_begin(fixture->store) || run(fixture->store, step) < 0 ||
            store_end(fixture->store))
            _exit(2);
        atomic_fetch_add(n_done, 1);
        if (step % 20 == 0)
            store_maintain(fixture->store);
    }
    pause();
}

static uint64_t exported(struct fixture *fixture)
{
    sqlite3_stmt *row;
    struct db *db = store_db(fixture->store);
    assert_int_equal(
        db_prepare(db, "SELECT ifnull(sum(items), 0) FROM outbox WHERE signal = 1 AND seq > 0",
                   &row),
        0);
    assert_int_equal(db_step(db, row), 1);
    uint64_t n = (uint64_t)sqlite3_column_int64(row, 0);
    db_unprepare(db, &row);
    return n;
}

static bool has_span(const struct told_history *told, const struct history_context *context)
{
    for (size_t i = 0; i < told->n_spans; i++)
        if (!memcmp(told->spans[i].row.trace_id, context->trace_id, 16) &&
            !memcmp(told->spans[i].row.span_id, context->span_id, 8))
            return true;
    return false;
}

static unsigned check(struct fixture *fixture)
{
    const struct told_history *told = history_told(fixture);
    unsigned n_matched = 0;
    assert_int_equal(told->n_samples, exported(fixture));
    assert_int_equal(told->summed_samples, told->n_samples);
    for (size_t i = 0; i < told->n_samples; i++) {
        if (!told->samples[i].context.matched)
            continue;
        n_matched++;
        assert_true(has_span(told, &told->samples[i].context));
    }
    return n_matched;
}

/* Somewhere in the steps that follow. */
static void kill_after(struct fixture *fixture, unsigned first, unsigned n_steps)
{
    int status;
    atomic_store(n_done, 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child)
        work_until_killed(fixture, first);
    while (atomic_load(n_done) < n_steps && !waitpid(child, &status, WNOHANG))
        usleep(100 + n_steps * 37 % 400);
    if (!kill(child, SIGKILL))
        waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int set_up(void **state)
{
    static struct fixture fixture;
    n_done = mmap(NULL, sizeof(*n_done), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(n_done, MAP_FAILED);
    fixture_make(&fixture);
    *state = &fixture;
    return 0;
}

static void test_kill(void **state)
{
    struct fixture *fixture = *state;
    unsigned n_matched = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        kill_after(fixture, round * 3000, 10 + round * 40);
        fixture_open(fixture);
        n_matched = check(fixture);
        fixture_close(fixture);
    }
    assert_true(n_matched > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kill, set_up, fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
