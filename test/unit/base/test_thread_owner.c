/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions of threads: what passes, and that the rest ends the process. */
#include "base/loop.h"
#include "base/thread_owner.h"
#include "base/worker.h"
#include "test/support/faults/aborts.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

struct thing {
    struct thread_owner owner;
    struct loop *loop;
    struct worker *worker;
};

static void *claim_main(void *context)
{
    struct thing *thing = context;
    CLAIM_THREAD(&thing->owner);
    return NULL;
}

static void *use_main(void *context)
{
    struct thing *thing = context;
    OWNER_THREAD(&thing->owner);
    return NULL;
}

static void *loop_main(void *context)
{
    struct thing *thing = context;
    LOOP_THREAD(thing->loop);
    return NULL;
}

static void on_another_thread(void *(*run)(void *), void *context)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, context), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void claim_elsewhere(void *context)
{
    on_another_thread(claim_main, context);
}

static void use_elsewhere(void *context)
{
    on_another_thread(use_main, context);
}

static void loop_elsewhere(void *context)
{
    on_another_thread(loop_main, context);
}

static void worker_elsewhere(void *context)
{
    struct thing *thing = context;
    WORKER_THREAD(thing->worker);
}

static void test_owner(void **state)
{
    struct thing thing = {0};
    (void)state;
    assert_true(thread_owner_is_current(&thing.owner));
    use_elsewhere(&thing); /* anyone may look while no thread has claimed it */
    assert_true(thread_owner_claim(&thing.owner));
    CLAIM_THREAD(&thing.owner);
    OWNER_THREAD(&thing.owner);
    assert_true(aborts(use_elsewhere, &thing));
    assert_true(aborts(claim_elsewhere, &thing));
    thread_owner_release(&thing.owner);
    assert_false(aborts(use_elsewhere, &thing));
    assert_false(aborts(claim_elsewhere, &thing));
}

/* It stays claimed when its thread ends, until it is released. */
static void test_ended_owner(void **state)
{
    struct thing thing = {0};
    (void)state;
    claim_elsewhere(&thing);
    assert_false(thread_owner_is_current(&thing.owner));
    thread_owner_release(&thing.owner);
    assert_true(thread_owner_claim(&thing.owner));
    assert_true(thread_owner_is_current(&thing.owner));
}

static void test_loop(void **state)
{
    struct thing thing = {0};
    (void)state;
    assert_int_equal(loop_open(&thing.loop), 0);
    LOOP_THREAD(thing.loop);
    assert_true(aborts(loop_elsewhere, &thing));
    loop_close(thing.loop);
}

struct check {
    struct job job;
    struct thing *thing;
    bool done;
};

static int check_run(struct job *job)
{
    struct check *check = container_of(job, struct check, job);
    WORKER_THREAD(check->thing->worker);
    assert_false(loop_is_current(check->thing->loop));
    return 0;
}

static void check_done(struct job *job, int error)
{
    struct check *check = container_of(job, struct check, job);
    LOOP_THREAD(check->thing->loop);
    assert_int_equal(error, 0);
    check->done = true;
}

static void test_worker(void **state)
{
    struct thing thing = {0};
    struct check check = {.job = {.run = check_run, .done = check_done}, .thing = &thing};
    const struct worker_ops ops = {.name = "threads", .queue_limit = 1, .batch_limit = 1};
    (void)state;
    assert_int_equal(loop_open(&thing.loop), 0);
    assert_int_equal(worker_open(&thing.worker, thing.loop, &ops), 0);
    assert_int_equal(worker_submit(thing.worker, &check.job), 0);
    while (!check.done)
        assert_int_equal(loop_once(thing.loop, 1000), 0);
    assert_true(aborts(worker_elsewhere, &thing));
    worker_close(thing.worker);
    loop_close(thing.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_owner),
        cmocka_unit_test(test_ended_owner),
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
