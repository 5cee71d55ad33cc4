/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A thread that takes all queued jobs as one batch: begin, each run, end; then each done on the
 * loop. For the writer that is BEGIN ... COMMIT: group commit without a timer. Thread: open, submit
 * and close on the loop; begin, run and end on the worker; done on the loop. If begin fails, its
 * error is that of every job of the batch; none runs, and end is not called. Limit: queue_limit
 * jobs, then WORKER_FULL. Each submitted job gets done() exactly once, also at close.
 */
#include "base/loop.h"

enum { WORKER_FULL = 1, WORKER_REPEATS = 4 };

struct job {
    struct list link; /* the worker's while submitted */
    /* 0 or negative errno: a failure of this job that leaves the batch whole. A failure that breaks
     * the batch (disk full) is remembered by the owner of begin/end, which then fails end(). */
    int (*run)(struct job *job);
    void (*done)(struct job *job, int error); /* run's error, else end's (whole batch), else 0 */
    bool repeatable; /* run may be called again when end has failed, see worker_ops.end */
    int error;
    bool is_out; /* private: it has failed, whatever becomes of its batch */
};

struct worker_ops {
    const char *name; /* thread name, at most 15 characters */
    size_t queue_limit;
    size_t batch_limit; /* jobs a batch */
    /* Other work of this node goes first: after a batch that had to wait for a CPU the thread rests
     * as worker_rest_ns() says. (Nice would do less: in the shipped unit its call is refused, and
     * between cgroups it has no effect.) */
    bool in_background;
    int (*begin)(void *context);
    /* Negative: nothing of the batch remains. If a job failed, the first one that did fails alone:
     * the others run again without it, as far as they are repeatable, at most WORKER_REPEATS times.
     * Else every job of the batch fails with this error. */
    int (*end)(void *context);
    void *context;
};

struct worker;

/* How long a worker in the background rests after a batch that took cpu_ns of the elapsed wall_ns.
 * Nothing if it did not wait: then no one else needs the CPU. At most WORKER_RESTS * cpu_ns: a
 * stranger whose requests cost much gets a tenth of a CPU that others need, too. */
enum { WORKER_RESTS = 9 };
uint64_t worker_rest_ns(uint64_t cpu_ns, uint64_t wall_ns);

/* begin and end may be NULL; ops is copied. 0 or negative errno. */
int worker_open(struct worker **worker, struct loop *loop, const struct worker_ops *ops);
int worker_submit(struct worker *worker, struct job *job); /* 0, WORKER_FULL */
/* The same, but a worker that waits is not woken: the job runs with the next that is submitted, or
 * after worker_wake(), whichever comes first. For jobs whose result is not waited for. */
int worker_submit_later(struct worker *worker, struct job *job);
void worker_wake(struct worker *worker);
size_t worker_queued(const struct worker *worker); /* submitted, done() still to come */
/* Not from within done(), where no further job is taken then: submit answers WORKER_FULL.
 * Runs what is queued, joins the thread, delivers the outstanding done()s, frees. NULL is fine. */
void worker_close(struct worker *worker);
bool worker_is_current(const struct worker *worker); /* true on the worker's own thread */

/* First line of a function that runs on the worker only: aborts on any other thread, in every
 * build. The cost is one comparison. Without a worker: base/thread_owner.h. */
#define WORKER_THREAD(worker) assert(worker_is_current(worker))
