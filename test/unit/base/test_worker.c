/* SPDX-License-Identifier: Apache-2.0 */
#include "base/worker.h"
#include "base/clock.h"
#include "test/support/faults/fail_alloc.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* The owner of a batch, as the store's writer is one. */
struct owner {
    struct worker *worker;
    int n_begun, n_ended;
    int begin_error, end_error;
    int n_in_batch, largest_batch;
    bool breaks, broken; /* end fails if a job of the batch has failed */
    sem_t begun;         /* the first batch has begun, if gated */
    sem_t gate;          /* the first batch waits for it, if gated */
    bool gated;
    char name[16];
    sigset_t mask;
};

struct task {
    struct job job;
    struct owner *owner;
    int run_error;
    int n_run, n_done;
    int told;
    int order; /* of run */
};

static struct loop *loop;

static int owner_begin(void *context)
{
    struct owner *owner = context;
    assert_true(worker_is_current(owner->worker));
    owner->n_begun++;
    owner->n_in_batch = 0;
    owner->broken = false;
    if (owner->gated && owner->n_begun == 1) {
        sem_post(&owner->begun);
        sem_wait(&owner->gate);
    }
    pthread_getname_np(pthread_self(), owner->name, sizeof(owner->name));
    pthread_sigmask(SIG_SETMASK, NULL, &owner->mask);
    return owner->begin_error;
}

static int owner_end(void *context)
{
    struct owner *owner = context;
    owner->n_ended++;
    if (owner->n_in_batch > owner->largest_batch)
        owner->largest_batch = owner->n_in_batch;
    return owner->breaks && owner->broken ? -ECANCELED : owner->end_error;
}

static _Atomic int next_order;

static int task_run(struct job *job)
{
    struct task *task = container_of(job, struct task, job);
    assert_true(worker_is_current(task->owner->worker));
    task->n_run++;
    task->order = next_order++;
    task->owner->n_in_batch++;
    task->owner->broken |= task->run_error != 0;
    return task->run_error;
}

static void task_done(struct job *job, int error)
{
    struct task *task = container_of(job, struct task, job);
    LOOP_THREAD(loop);
    assert_false(worker_is_current(task->owner->worker));
    task->n_done++;
    task->told = error;
}

static void owner_open(struct owner *owner, size_t queue_limit, size_t batch_limit)
{
    struct worker_ops ops = {.name = "test worker",
                             .queue_limit = queue_limit,
                             .batch_limit = batch_limit,
                             .begin = owner_begin,
                             .end = owner_end,
                             .context = owner};
    if (!loop)
        assert_int_equal(loop_open(&loop), 0);
    sem_init(&owner->begun, 0, 0);
    sem_init(&owner->gate, 0, 0);
    assert_int_equal(worker_open(&owner->worker, loop, &ops), 0);
}

static void task_init(struct task *task, struct owner *owner, int run_error)
{
    *task = (struct task){.job = {.run = task_run, .done = task_done},
                          .owner = owner,
                          .run_error = run_error,
                          .told = 12345};
}

static void wait_until_idle(struct owner *owner)
{
    while (worker_queued(owner->worker))
        assert_int_equal(loop_once(loop, 1000), 0);
}

/* What piles up while a batch runs becomes the next one, up to the batch's limit. */
static void test_batches(void **state)
{
    struct owner owner = {.gated = true};
    struct task tasks[100];
    (void)state;
    owner_open(&owner, 1000, 40);
    for (int i = 0; i < 100; i++) {
        task_init(&tasks[i], &owner, 0);
        assert_int_equal(worker_submit(owner.worker, &tasks[i].job), 0);
    }
    assert_int_equal(worker_queued(owner.worker), 100);
    sem_post(&owner.gate);
    wait_until_idle(&owner);
    worker_close(owner.worker);
    assert_in_range(owner.n_begun, 3, 4);
    assert_int_equal(owner.n_ended, owner.n_begun);
    assert_int_equal(owner.largest_batch, 40);
    assert_string_equal(owner.name, "test worker");
    assert_true(sigismember(&owner.mask, SIGTERM));
    for (int i = 0; i < 100; i++) {
        assert_int_equal(tasks[i].n_run, 1);
        assert_int_equal(tasks[i].n_done, 1);
        assert_int_equal(tasks[i].told, 0);
        if (i)
            assert_true(tasks[i].order > tasks[i - 1].order);
    }
}

static void test_errors(void **state)
{
    struct owner owner = {.gated = true};
    struct task tasks[3];
    (void)state;
    owner_open(&owner, 10, 10);
    for (int i = 0; i < 3; i++) {
        task_init(&tasks[i], &owner, i == 1 ? -EBADMSG : 0);
        assert_int_equal(worker_submit(owner.worker, &tasks[i].job), 0);
    }
    sem_post(&owner.gate);
    wait_until_idle(&owner);
    assert_int_equal(tasks[0].told, 0); /* one that fails leaves the others whole */
    assert_int_equal(tasks[1].told, -EBADMSG);
    assert_int_equal(tasks[2].told, 0);
    owner.end_error = -ENOSPC;
    for (int i = 0; i < 3; i++)
        assert_int_equal(worker_submit(owner.worker, &tasks[i].job), 0);
    wait_until_idle(&owner);
    assert_int_equal(tasks[0].told, -ENOSPC);
    assert_int_equal(tasks[1].told, -EBADMSG);
    assert_int_equal(tasks[2].told, -ENOSPC);
    int n_ended = owner.n_ended;
    owner.begin_error = -EIO;
    for (int i = 0; i < 3; i++)
        assert_int_equal(worker_submit(owner.worker, &tasks[i].job), 0);
    wait_until_idle(&owner);
    worker_close(owner.worker);
    assert_int_equal(owner.n_ended, n_ended);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tasks[i].told, -EIO);
        assert_int_equal(tasks[i].n_run, 2);
        assert_int_equal(tasks[i].n_done, 3);
    }
}

/* The jobs that break a batch fail alone; so do those that cannot run again. */
static void test_repeated(void **state)
{
    struct owner owner = {.gated = true, .breaks = true};
    struct task tasks[8];
    (void)state;
    owner_open(&owner, 10, 10);
    for (int i = 0; i < 8; i++) {
        task_init(&tasks[i], &owner, i == 2 || i == 5 ? -EBADMSG : 0);
        tasks[i].job.repeatable = i != 3;
        assert_int_equal(worker_submit(owner.worker, &tasks[i].job), 0);
    }
    sem_post(&owner.gate);
    wait_until_idle(&owner);
    assert_int_equal(owner.n_begun, owner.n_ended);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(tasks[i].n_done, 1);
        assert_int_equal(tasks[i].told, i == 2 || i == 5 ? -EBADMSG : i == 3 ? -ECANCELED : 0);
    }
    worker_close(owner.worker);
}

/* All break it: the number of repeats is limited. They come while another batch runs, so they are
 * one batch. */
static void test_repeats_are_limited(void **state)
{
    struct owner owner = {.gated = true, .breaks = true};
    struct task first, tasks[10];
    (void)state;
    owner_open(&owner, 11, 10);
    task_init(&first, &owner, 0);
    assert_int_equal(worker_submit(owner.worker, &first.job), 0);
    sem_wait(&owner.begun);
    for (int i = 0; i < 10; i++) {
        task_init(&tasks[i], &owner, -EBADMSG);
        tasks[i].job.repeatable = true;
        assert_int_equal(worker_submit(owner.worker, &tasks[i].job), 0);
    }
    sem_post(&owner.gate);
    wait_until_idle(&owner);
    assert_int_equal(owner.n_begun, 2 + WORKER_REPEATS);
    assert_int_equal(first.told, 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(tasks[i].told, -EBADMSG);
    worker_close(owner.worker);
}

static void test_limit(void **state)
{
    struct owner owner = {.gated = true};
    struct task tasks[6];
    (void)state;
    owner_open(&owner, 5, 2);
    for (int i = 0; i < 6; i++) {
        task_init(&tasks[i], &owner, 0);
        assert_int_equal(worker_submit(owner.worker, &tasks[i].job), i < 5 ? 0 : WORKER_FULL);
    }
    sem_post(&owner.gate);
    wait_until_idle(&owner);
    assert_int_equal(tasks[5].n_run + tasks[5].n_done, 0);
    assert_int_equal(worker_submit(owner.worker, &tasks[5].job), 0);
    wait_until_idle(&owner);
    assert_int_equal(tasks[5].n_done, 1);
    worker_close(owner.worker);
}

/* A job that is submitted again from its own done(), and is refused once the worker closes. */
struct again {
    struct task task;
    int n_left, refused;
};

static void again_done(struct job *job, int error)
{
    struct again *again = container_of(job, struct again, task.job);
    task_done(job, error);
    if (again->n_left-- > 0)
        again->refused = worker_submit(again->task.owner->worker, job);
}

static void test_again_from_done(void **state)
{
    struct owner owner = {0};
    struct again again = {.n_left = 100};
    (void)state;
    owner_open(&owner, 1, 1);
    task_init(&again.task, &owner, 0);
    again.task.job.done = again_done;
    assert_int_equal(worker_submit(owner.worker, &again.task.job), 0);
    wait_until_idle(&owner);
    assert_int_equal(again.task.n_run, 101);
    again.n_left = 1 << 30;
    assert_int_equal(worker_submit(owner.worker, &again.task.job), 0);
    worker_close(owner.worker);
    assert_int_equal(again.task.n_run, 102);
    assert_int_equal(again.task.n_done, 102);
    assert_int_equal(again.refused, WORKER_FULL);
}

/* Closing runs what is queued and tells of it, without the loop turning; also of what was finished.
 */
static void test_close_delivers(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct owner owner = {0};
        struct task tasks[20];
        owner_open(&owner, 100, 3);
        for (int i = 0; i < 20; i++) {
            task_init(&tasks[i], &owner, 0);
            assert_int_equal(worker_submit(owner.worker, &tasks[i].job), 0);
        }
        if (round % 2)
            loop_once(loop, 0);
        worker_close(owner.worker);
        for (int i = 0; i < 20; i++)
            assert_int_equal(tasks[i].n_done, 1);
        assert_int_equal(loop_once(loop, 0), 0); /* no post is left behind */
    }
    worker_close(NULL);
}

/* It wakes nobody: it runs with the next one, when the worker is woken, or at the end. */
static void test_later(void **state)
{
    struct owner owner = {0};
    struct task tasks[5];
    (void)state;
    owner_open(&owner, 100, 40);
    for (int i = 0; i < 5; i++)
        task_init(&tasks[i], &owner, 0);
    assert_int_equal(worker_submit(owner.worker, &tasks[0].job), 0);
    wait_until_idle(&owner);
    usleep(100000); /* now it waits */
    assert_int_equal(worker_submit_later(owner.worker, &tasks[1].job), 0);
    usleep(100000);
    assert_int_equal(loop_once(loop, 0), 0);
    assert_int_equal(tasks[1].n_done, 0);
    assert_int_equal(worker_submit(owner.worker, &tasks[2].job), 0);
    wait_until_idle(&owner);
    assert_int_equal(owner.n_begun, 2);
    assert_true(tasks[1].order < tasks[2].order);
    usleep(100000);
    assert_int_equal(worker_submit_later(owner.worker, &tasks[3].job), 0);
    worker_wake(owner.worker);
    wait_until_idle(&owner);
    assert_int_equal(worker_submit_later(owner.worker, &tasks[4].job), 0);
    worker_close(owner.worker);
    for (int i = 0; i < 5; i++)
        assert_int_equal(tasks[i].n_done, 1);
}

static void test_without_begin_and_end(void **state)
{
    struct owner owner = {0};
    struct task task;
    struct worker_ops ops = {.queue_limit = 1, .batch_limit = 1};
    (void)state;
    fail_alloc_at(1);
    assert_int_equal(worker_open(&owner.worker, loop, &ops), -ENOMEM);
    assert_true(fail_alloc_hit());
    assert_int_equal(worker_open(&owner.worker, loop, &ops), 0);
    task_init(&task, &owner, -EPERM);
    assert_int_equal(worker_submit(owner.worker, &task.job), 0);
    worker_close(owner.worker);
    assert_int_equal(task.told, -EPERM);
}

static int teardown(void **state)
{
    (void)state;
    loop_close(loop);
    return 0;
}

static void test_rest(void **state)
{
    (void)state;
    assert_int_equal(worker_rest_ns(1000, 1000), 0); /* it had a CPU for itself */
    assert_int_equal(worker_rest_ns(1000, 900), 0);  /* the clocks differ a little */
    assert_int_equal(worker_rest_ns(1000, 1010), WORKER_RESTS * 40);
    assert_int_equal(worker_rest_ns(1000, 1250), WORKER_RESTS * 1000);
    assert_int_equal(worker_rest_ns(1000, 9000), WORKER_RESTS * 1000);
}

struct spinner {
    struct job job;
    uint64_t began_ns, ended_ns;
};

static int spinner_run(struct job *job)
{
    struct spinner *spinner = container_of(job, struct spinner, job);
    uint64_t until_ns = clock_thread_ns() + 20 * NS_PER_MS;
    spinner->began_ns = clock_monotonic_ns();
    while (clock_thread_ns() < until_ns)
        ;
    usleep(20000); /* as if it waited for a CPU */
    spinner->ended_ns = clock_monotonic_ns();
    return 0;
}

static void spinner_done(struct job *job, int error)
{
    (void)job;
    assert_int_equal(error, 0);
}

/* The second batch comes after a rest; closing ends the rest. */
static void test_in_background(void **state)
{
    struct worker_ops ops = {
        .name = "background", .queue_limit = 2, .batch_limit = 1, .in_background = true};
    struct spinner spinners[2];
    struct worker *worker;
    (void)state;
    if (!loop)
        assert_int_equal(loop_open(&loop), 0);
    assert_int_equal(worker_open(&worker, loop, &ops), 0);
    for (int i = 0; i < 2; i++) {
        spinners[i].job = (struct job){.run = spinner_run, .done = spinner_done};
        assert_int_equal(worker_submit(worker, &spinners[i].job), 0);
    }
    while (worker_queued(worker))
        assert_int_equal(loop_once(loop, 1000), 0);
    uint64_t rest_ns = WORKER_RESTS * 20 * NS_PER_MS;
    assert_true(spinners[1].began_ns >= spinners[0].ended_ns + rest_ns);
    worker_close(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_repeated),
        cmocka_unit_test(test_repeats_are_limited),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_again_from_done),
        cmocka_unit_test(test_close_delivers),
        cmocka_unit_test(test_later),
        cmocka_unit_test(test_without_begin_and_end),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_in_background),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
