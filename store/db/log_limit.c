/* SPDX-License-Identifier: Apache-2.0 */
#include "store/db/log_limit.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/stats.h"
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

STAT_GAUGE(log_bytes, "spanprof_store_log_bytes",
           "Length of the store's write-ahead log, as of the last commit.");
STAT_COUNTER(waits, "spanprof_store_log_waits_total",
             "Reads of the store that waited because its write-ahead log was long.");
STAT_LOSS(overtaken, "spanprof_store_log_waits_ended_total",
          "Such reads that began before the log was copied, because they had waited long enough.");

struct log_limit {
    struct list link;
    size_t refs;
    pthread_mutex_t lock;
    pthread_cond_t opened;
    unsigned n_reads;         /* that are going on */
    uint64_t closed_until_ns; /* 0 = open */
    atomic_uint_fast64_t bytes;
    char path[];
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list all = LIST_INIT(all);

static struct log_limit *log_limit_new(const char *path)
{
    size_t size = strlen(path) + 1;
    struct log_limit *limit = calloc(1, sizeof(*limit) + size);
    pthread_condattr_t attributes;
    if (!limit)
        return NULL;
    memcpy(limit->path, path, size);
    pthread_mutex_init(&limit->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&limit->opened, &attributes);
    pthread_condattr_destroy(&attributes);
    list_append(&all, &limit->link);
    return limit;
}

static struct log_limit *log_limit_find(const char *path)
{
    struct list *link, *tmp;
    list_each(link, tmp, &all)
    {
        struct log_limit *limit = container_of(link, struct log_limit, link);
        if (strcmp(limit->path, path) == 0)
            return limit;
    }
    return NULL;
}

struct log_limit *log_limit_hold(const char *path)
{
    pthread_mutex_lock(&all_lock);
    struct log_limit *limit = log_limit_find(path);
    if (!limit)
        limit = log_limit_new(path);
    if (limit)
        limit->refs++;
    pthread_mutex_unlock(&all_lock);
    return limit;
}

void log_limit_release(struct log_limit *limit)
{
    if (!limit)
        return;
    pthread_mutex_lock(&all_lock);
    assert(limit->refs);
    bool last = !--limit->refs;
    if (last)
        list_remove(&limit->link);
    pthread_mutex_unlock(&all_lock);
    if (!last)
        return;
    assert(!limit->n_reads);
    pthread_cond_destroy(&limit->opened);
    pthread_mutex_destroy(&limit->lock);
    free(limit);
}

/* ---- writer ---- */

void log_limit_set(struct log_limit *limit, uint64_t bytes)
{
    atomic_store_explicit(&limit->bytes, bytes, memory_order_relaxed);
    stat_set(&log_bytes, (int64_t)bytes);
}

static uint64_t log_limit_bytes(const struct log_limit *limit)
{
    return atomic_load_explicit(&limit->bytes, memory_order_relaxed);
}

bool log_limit_is_long(const struct log_limit *limit)
{
    return log_limit_bytes(limit) > LOG_LIMIT_SOFT_BYTES;
}

bool log_limit_close(struct log_limit *limit)
{
    pthread_mutex_lock(&limit->lock);
    limit->closed_until_ns = clock_monotonic_ns() + LOG_LIMIT_WAIT_NS;
    bool quiet = !limit->n_reads;
    pthread_mutex_unlock(&limit->lock);
    return quiet;
}

void log_limit_open(struct log_limit *limit)
{
    pthread_mutex_lock(&limit->lock);
    limit->closed_until_ns = 0;
    pthread_cond_broadcast(&limit->opened);
    pthread_mutex_unlock(&limit->lock);
}

/* ---- readers ---- */

/* The writer may close again and again: the wait has an end of its own. */
static void log_limit_wait(struct log_limit *limit)
{
    uint64_t now_ns = clock_monotonic_ns(), end_ns = now_ns + LOG_LIMIT_WAIT_NS;
    bool waited = now_ns < limit->closed_until_ns;
    while (now_ns < limit->closed_until_ns && now_ns < end_ns) {
        struct timespec until =
            clock_timespec(limit->closed_until_ns < end_ns ? limit->closed_until_ns : end_ns);
        pthread_cond_timedwait(&limit->opened, &limit->lock, &until);
        now_ns = clock_monotonic_ns();
    }
    stat_add(&waits, waited);
    stat_add(&overtaken, waited && limit->closed_until_ns);
}

void log_limit_read_begin(struct log_limit *limit)
{
    pthread_mutex_lock(&limit->lock);
    log_limit_wait(limit);
    limit->n_reads++;
    pthread_mutex_unlock(&limit->lock);
}

void log_limit_read_end(struct log_limit *limit)
{
    pthread_mutex_lock(&limit->lock);
    assert(limit->n_reads);
    limit->n_reads--;
    pthread_mutex_unlock(&limit->lock);
}

bool log_limit_is_full(const struct log_limit *limit)
{
    return log_limit_bytes(limit) > LOG_LIMIT_FULL_BYTES;
}
