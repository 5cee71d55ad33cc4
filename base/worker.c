/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs go from the queue to a batch, from the batch to the finished list, and from there, by one
 * post for all that are finished, to done(). The loop counts the jobs: a job counts until done() is
 * called, so the limit also bounds jobs that are finished but not yet delivered.
 */
#include "base/worker.h"
#include "base/clock.h"
#include "base/stats.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

STAT_COUNTER(repeated, "spanprof_worker_batches_repeated_total",
             "Transactions that ran again without the job that had broken them.");

struct worker {
    struct loop *loop;
    struct worker_ops ops;
    pthread_t thread;
    size_t n_jobs; /* the loop's: submitted, done() not called yet */
    struct post post;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t wake;
    struct list queue;
    struct list finished;
    bool posted;
    bool closing;
};

static _Thread_local const struct worker *current_worker;

static struct job *job_of(struct list *link)
{
    return container_of(link, struct job, link);
}

/* Waits for work; false when closing and nothing is left. */
static bool take_batch(struct worker *worker, struct list *batch)
{
    pthread_mutex_lock(&worker->lock);
    while (list_empty(&worker->queue) && !worker->closing)
        pthread_cond_wait(&worker->wake, &worker->lock);
    for (size_t i = 0; i < worker->ops.batch_limit && !list_empty(&worker->queue); i++)
        list_append(batch, list_pop(&worker->queue));
    pthread_mutex_unlock(&worker->lock);
    return !list_empty(batch);
}

/* The error of begin or end; *broken: it is end's. */
static int batch_try(struct worker *worker, struct list *batch, bool *broken)
{
    struct list *link, *tmp;
    int failed = worker->ops.begin ? worker->ops.begin(worker->ops.context) : 0;
    bool begun = !failed;
    list_each(link, tmp, batch)
    {
        struct job *job = job_of(link);
        if (!job->is_out)
            job->error = begun ? job->run(job) : failed;
    }
    if (begun && worker->ops.end)
        failed = worker->ops.end(worker->ops.context);
    *broken = begun && failed;
    return failed;
}

/* Takes out what cannot run again, and the first job that failed: it broke the batch. True: it is
 * found, and others are left. */
static bool batch_take_out(struct list *batch, int failed)
{
    struct list *link, *tmp;
    bool found = false, left = false;
    list_each(link, tmp, batch)
    {
        struct job *job = job_of(link);
        bool breaks = !found && !job->is_out && job->error;
        found |= breaks;
        if (breaks || !job->repeatable) {
            job->error = job->error ? job->error : failed;
            job->is_out = true;
        }
        left |= !job->is_out;
    }
    return found && left;
}

static void run_batch(struct worker *worker, struct list *batch)
{
    struct list *link, *tmp;
    bool broken;
    int failed = batch_try(worker, batch, &broken);
    for (int i = 0; i < WORKER_REPEATS && broken && batch_take_out(batch, failed); i++) {
        stat_add(&repeated, 1);
        failed = batch_try(worker, batch, &broken);
    }
    list_each(link, tmp, batch)
    {
        struct job *job = job_of(link);
        if (!job->error)
            job->error = failed;
    }
}

/* The loop is woken after the lock is released, so it does not wait for it. */
static void finish_batch(struct worker *worker, struct list *batch)
{
    struct list *link;
    pthread_mutex_lock(&worker->lock);
    while ((link = list_pop(batch)))
        list_append(&worker->finished, link);
    bool post = !worker->posted && !worker->closing;
    worker->posted |= post;
    pthread_mutex_unlock(&worker->lock);
    if (post)
        loop_post(worker->loop, &worker->post);
}

uint64_t worker_rest_ns(uint64_t cpu_ns, uint64_t wall_ns)
{
    uint64_t waited_ns = wall_ns > cpu_ns ? wall_ns - cpu_ns : 0;
    uint64_t contended_ns = 4 * waited_ns; /* rests fully if it waited a quarter of its time */
    return WORKER_RESTS * (contended_ns < cpu_ns ? contended_ns : cpu_ns);
}

/* Returns how long to rest. */
static uint64_t run_batch_in_background(struct worker *worker, struct list *batch)
{
    uint64_t since_ns = clock_monotonic_ns(), cpu_since_ns = clock_thread_ns();
    run_batch(worker, batch);
    return worker_rest_ns(clock_thread_ns() - cpu_since_ns, clock_monotonic_ns() - since_ns);
}

/* Submitted jobs wait; closing does not. */
static void worker_rest(struct worker *worker, uint64_t rest_ns)
{
    struct timespec until = clock_timespec(clock_monotonic_ns() + rest_ns);
    pthread_mutex_lock(&worker->lock);
    while (!worker->closing &&
           pthread_cond_timedwait(&worker->wake, &worker->lock, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&worker->lock);
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct list batch;
    current_worker = worker;
    if (worker->ops.name) /* a sandbox lets a thread name itself alone */
        pthread_setname_np(pthread_self(), worker->ops.name);
    list_init(&batch);
    while (take_batch(worker, &batch)) {
        uint64_t rest_ns = 0;
        if (worker->ops.in_background)
            rest_ns = run_batch_in_background(worker, &batch);
        else
            run_batch(worker, &batch);
        finish_batch(worker, &batch);
        if (rest_ns)
            worker_rest(worker, rest_ns);
    }
    return NULL;
}

static void worker_deliver(struct worker *worker)
{
    struct list finished, *link;
    list_init(&finished);
    pthread_mutex_lock(&worker->lock);
    worker->posted = false;
    while ((link = list_pop(&worker->finished)))
        list_append(&finished, link);
    pthread_mutex_unlock(&worker->lock);
    while ((link = list_pop(&finished))) {
        struct job *job = job_of(link);
        worker->n_jobs--;
        job->done(job, job->error);
    }
}

static void deliver_post(struct post *post)
{
    worker_deliver(container_of(post, struct worker, post));
}

/* Signals are the loop's: a thread that took one would interrupt a commit for nothing. */
static int start_thread(struct worker *worker)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&worker->thread, NULL, worker_main, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

static void worker_free(struct worker *worker)
{
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

int worker_open(struct worker **result, struct loop *loop, const struct worker_ops *ops)
{
    LOOP_THREAD(loop);
    pthread_condattr_t monotonic;
    assert(ops->queue_limit && ops->batch_limit);
    struct worker *worker = calloc(1, sizeof(*worker));
    if (!worker)
        return -ENOMEM;
    worker->loop = loop;
    worker->ops = *ops;
    worker->post.call = deliver_post;
    list_init(&worker->queue);
    list_init(&worker->finished);
    pthread_mutex_init(&worker->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&worker->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int error = start_thread(worker);
    if (error) {
        worker_free(worker);
        return error;
    }
    *result = worker;
    return 0;
}

int worker_submit_later(struct worker *worker, struct job *job)
{
    LOOP_THREAD(worker->loop);
    assert(job->run && job->done);
    if (worker->n_jobs >= worker->ops.queue_limit)
        return WORKER_FULL;
    pthread_mutex_lock(&worker->lock);
    bool closing = worker->closing;
    if (!closing) {
        job->error = 0;
        job->is_out = false;
        list_append(&worker->queue, &job->link);
    }
    pthread_mutex_unlock(&worker->lock);
    worker->n_jobs += !closing;
    return closing ? WORKER_FULL : 0;
}

void worker_wake(struct worker *worker)
{
    pthread_cond_signal(&worker->wake);
}

int worker_submit(struct worker *worker, struct job *job)
{
    int outcome = worker_submit_later(worker, job);
    if (!outcome)
        worker_wake(worker);
    return outcome;
}

size_t worker_queued(const struct worker *worker)
{
    LOOP_THREAD(worker->loop);
    return worker->n_jobs;
}

void worker_close(struct worker *worker)
{
    if (!worker)
        return;
    LOOP_THREAD(worker->loop);
    pthread_mutex_lock(&worker->lock);
    worker->closing = true;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
    loop_unpost(worker->loop, &worker->post);
    worker_deliver(worker);
    assert(!worker->n_jobs);
    worker_free(worker);
}

bool worker_is_current(const struct worker *worker)
{
    return worker == current_worker;
}
