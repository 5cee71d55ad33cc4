/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker places every struct metric of the program back to back in one section and gives it
 * start and stop symbols; weak, so that a program without counters links too.
 */
#include "base/stats.h"
#include "base/buf.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

extern struct metric __start_spanprof_stats[] __attribute__((weak, visibility("hidden")));
extern struct metric __stop_spanprof_stats[] __attribute__((weak, visibility("hidden")));

static size_t stats_count(void)
{
    uintptr_t start = (uintptr_t)__start_spanprof_stats, stop = (uintptr_t)__stop_spanprof_stats;
    assert((stop - start) % sizeof(struct metric) == 0);
    return (stop - start) / sizeof(struct metric);
}

static _Atomic int64_t *value_of(struct metric *stat)
{
    return stat->shared ? stat->shared : &stat->own;
}

int stats_share(void)
{
    size_t n_stats = stats_count();
    if (!n_stats)
        return 0;
    if (__start_spanprof_stats[0].shared)
        return -EALREADY;
    void *memory = mmap(NULL, n_stats * sizeof(int64_t), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -errno;
    _Atomic int64_t *values = memory;
    for (size_t i = 0; i < n_stats; i++) {
        struct metric *stat = &__start_spanprof_stats[i];
        assert(stat->name && stat->labels && stat->help);
        atomic_store(&values[i], atomic_load(&stat->own));
        stat->shared = &values[i];
    }
    return 0;
}

void stat_add(struct metric *stat, int64_t delta)
{
    atomic_fetch_add_explicit(value_of(stat), delta, memory_order_relaxed);
}

void stat_set(struct metric *stat, int64_t value)
{
    atomic_store_explicit(value_of(stat), value, memory_order_relaxed);
}

int64_t stat_get(const struct metric *stat)
{
    return atomic_load_explicit(stat->shared ? stat->shared : &stat->own, memory_order_relaxed);
}

int64_t stats_find(const char *name, const char *labels)
{
    size_t n_stats = stats_count();
    for (size_t i = 0; i < n_stats; i++) {
        const struct metric *stat = &__start_spanprof_stats[i];
        if (!strcmp(stat->name, name) && !strcmp(stat->labels, labels))
            return stat_get(stat);
    }
    return -1;
}

static int by_name(const void *a, const void *b)
{
    const struct metric *const *left = a, *const *right = b;
    int order = strcmp((*left)->name, (*right)->name);
    return order ? order : strcmp((*left)->labels, (*right)->labels);
}

static int write_head(struct buf *out, const struct metric *stat)
{
    int outcome = buf_printf(out, "# HELP %s ", stat->name);
    for (const char *c = stat->help; !outcome && *c; c++)
        outcome = *c == '\\'   ? buf_append(out, "\\\\", 2)
                  : *c == '\n' ? buf_append(out, "\\n", 2)
                               : buf_append(out, c, 1);
    if (outcome)
        return outcome;
    return buf_printf(out, "\n# TYPE %s %s\n", stat->name,
                      stat->kind == STAT_KIND_COUNTER ? "counter" : "gauge");
}

static int write_stat(struct buf *out, const struct metric *stat)
{
    const char *open = *stat->labels ? "{" : "", *close = *stat->labels ? "}" : "";
    return buf_printf(out, "%s%s%s%s %lld\n", stat->name, open, stat->labels, close,
                      (long long)stat_get(stat));
}

/* *sorted: to be freed; NULL if there are none. */
static int sort_stats(const struct metric ***sorted, size_t *n)
{
    *n = stats_count();
    *sorted = *n ? malloc(*n * sizeof(**sorted)) : NULL;
    if (!*sorted)
        return *n ? -ENOMEM : 0;
    for (size_t i = 0; i < *n; i++)
        (*sorted)[i] = &__start_spanprof_stats[i];
    qsort(*sorted, *n, sizeof(**sorted), by_name);
    return 0;
}

int stats_each(void (*visit)(void *context, const struct metric *stat), void *context)
{
    const struct metric **sorted;
    size_t n;
    int error = sort_stats(&sorted, &n);
    for (size_t i = 0; !error && i < n; i++)
        visit(context, sorted[i]);
    free(sorted);
    return error;
}

int stats_prometheus(struct buf *out)
{
    const struct metric **sorted;
    size_t n;
    int outcome = sort_stats(&sorted, &n);
    if (outcome)
        return outcome;
    for (size_t i = 0; i < n && !outcome; i++) {
        if (!i || strcmp(sorted[i]->name, sorted[i - 1]->name))
            outcome = write_head(out, sorted[i]);
        if (!outcome)
            outcome = write_stat(out, sorted[i]);
    }
    free(sorted);
    return outcome;
}
