/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker places every struct metric of the program back to back in one section and gives it
 * start and stop symbols; weak, so that a program without counters links too.
 */
#include "base/stats.h"
#include "base/memfd.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern struct metric __start_spanprof_stats[] __attribute__((weak, visibility("hidden")));
extern struct metric __stop_spanprof_stats[] __attribute__((weak, visibility("hidden")));

static bool is_shared;
static int shared_fd = -1; /* a memfd of all values, in the order of the section; the sharer's */

static size_t metrics_count(void)
{
    uintptr_t start = (uintptr_t)__start_spanprof_stats, stop = (uintptr_t)__stop_spanprof_stats;
    assert((stop - start) % sizeof(struct metric) == 0);
    return (stop - start) / sizeof(struct metric);
}

/* ---- values ---- */

static size_t series_count(void)
{
    size_t n = 0;
    for (size_t i = 0; i < metrics_count(); i++)
        n += __start_spanprof_stats[i].n;
    return n;
}

/* From here on all values are there, with what was counted so far. */
static void stats_move(_Atomic int64_t *values)
{
    for (size_t i = 0; i < metrics_count(); i++) {
        struct metric *metric = &__start_spanprof_stats[i];
        for (unsigned k = 0; k < metric->n; k++)
            atomic_fetch_add(&values[k], atomic_load(&metric->values[k]));
        metric->values = values;
        values += metric->n;
    }
}

int stats_share(void)
{
    size_t size = series_count() * sizeof(int64_t);
    stats_assert_sound();
    if (is_shared)
        return -EALREADY;
    shared_fd = memfd_shared("spanprof-stats", size);
    return shared_fd < 0 ? shared_fd : stats_attach(shared_fd);
}

int stats_attach(int fd)
{
    size_t size = series_count() * sizeof(int64_t);
    assert(!is_shared);
    void *values = size ? memfd_map(fd, size) : NULL;
    if (size && !values)
        return -EINVAL;
    stats_move(values);
    is_shared = true;
    return 0;
}

int stats_shared_fd(void)
{
    return shared_fd;
}

static _Atomic int64_t *value_of(const struct metric *metric, unsigned value, unsigned value2)
{
    const struct stat_label *label = metric->label;
    assert(value < label[0].n && (!label[1].n || value2 < label[1].n));
    unsigned series = label[1].n ? value * label[1].n + value2 : value;
    assert(!(metric->absent & STAT_BIT(series)));
    return &metric->values[series];
}

static _Atomic int64_t *only_value(const struct metric *metric)
{
    assert(!metric->label[0].n);
    return metric->values;
}

void stat_add(struct metric *metric, int64_t delta)
{
    atomic_fetch_add_explicit(only_value(metric), delta, memory_order_relaxed);
}

void stat_set(struct metric *metric, int64_t value)
{
    atomic_store_explicit(only_value(metric), value, memory_order_relaxed);
}

void stat_add_of(struct metric *family, unsigned value, int64_t delta)
{
    assert(!family->label[1].n);
    atomic_fetch_add_explicit(value_of(family, value, 0), delta, memory_order_relaxed);
}

void stat_set_of(struct metric *family, unsigned value, int64_t to)
{
    assert(!family->label[1].n);
    atomic_store_explicit(value_of(family, value, 0), to, memory_order_relaxed);
}

int64_t stat_get_of(const struct metric *family, unsigned value)
{
    assert(!family->label[1].n);
    return atomic_load_explicit(value_of(family, value, 0), memory_order_relaxed);
}

void stat_add_of2(struct metric *family, unsigned value, unsigned value2, int64_t delta)
{
    assert(family->label[1].n);
    atomic_fetch_add_explicit(value_of(family, value, value2), delta, memory_order_relaxed);
}

void stat_add_ref(struct stat_ref ref, int64_t delta)
{
    if (ref.metric->label[0].n)
        return stat_add_of(ref.metric, ref.value, delta);
    assert(!ref.value);
    stat_add(ref.metric, delta);
}

/* ---- all of them ---- */

static void series_labels(const struct metric *metric, unsigned series, char text[STAT_TEXT_MAX])
{
    const struct stat_label *label = metric->label;
    if (!label[0].n) {
        *text = '\0';
        return;
    }
    const char *value = label[0].values[label[1].n ? series / label[1].n : series];
    const char *value2 = label[1].n ? label[1].values[series % label[1].n] : NULL;
    int length = snprintf(text, STAT_TEXT_MAX, "%s=\"%s\"", label[0].name, value);
    if (value2)
        length += snprintf(text + length, STAT_TEXT_MAX - (size_t)length, ",%s=\"%s\"",
                           label[1].name, value2);
    assert(length < STAT_TEXT_MAX);
}

static void visit_series(const struct metric *metric,
                         void (*visit)(void *context, const struct stat_series *series),
                         void *context)
{
    char labels[STAT_TEXT_MAX];
    for (unsigned i = 0; i < metric->n; i++) {
        if (metric->absent & STAT_BIT(i))
            continue;
        series_labels(metric, i, labels);
        visit(context, &(struct stat_series){.metric = metric,
                                             .labels = labels,
                                             .is_loss = metric->losses & STAT_BIT(i),
                                             .value = atomic_load_explicit(&metric->values[i],
                                                                           memory_order_relaxed)});
    }
}

static int by_name(const void *a, const void *b)
{
    const struct metric *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

int stats_each_metric(void (*visit)(void *context, const struct metric *metric), void *context)
{
    size_t n = metrics_count();
    const struct metric **sorted = n ? malloc(n * sizeof(*sorted)) : NULL;
    if (!sorted)
        return n ? -ENOMEM : 0;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &__start_spanprof_stats[i];
    qsort(sorted, n, sizeof(*sorted), by_name);
    for (size_t i = 0; i < n; i++)
        visit(context, sorted[i]);
    free(sorted);
    return 0;
}

struct series_visit {
    void (*visit)(void *context, const struct stat_series *series);
    void *context;
};

static void visit_metric(void *context, const struct metric *metric)
{
    const struct series_visit *visit = context;
    visit_series(metric, visit->visit, visit->context);
}

int stats_each(void (*visit)(void *context, const struct stat_series *series), void *context)
{
    return stats_each_metric(visit_metric, &(struct series_visit){visit, context});
}

struct search {
    const char *labels;
    int64_t value;
};

static void search_labels(void *context, const struct stat_series *series)
{
    struct search *search = context;
    if (!strcmp(series->labels, search->labels))
        search->value = series->value;
}

int64_t stats_find(const char *name, const char *labels)
{
    struct search search = {.labels = labels, .value = -1};
    for (size_t i = 0; i < metrics_count(); i++)
        if (!strcmp(__start_spanprof_stats[i].name, name))
            visit_series(&__start_spanprof_stats[i], search_labels, &search);
    return search.value;
}

/* ---- are they sound ---- */

bool stat_has_value(const struct metric *metric, unsigned which, unsigned value)
{
    unsigned n2 = metric->label[1].n ? metric->label[1].n : 1;
    for (unsigned i = 0; i < metric->n; i++)
        if (!(metric->absent & STAT_BIT(i)) && (which ? i % n2 : i / n2) == value)
            return true;
    return false;
}

static bool label_is_sound(const struct metric *metric, unsigned which)
{
    const struct stat_label *label = &metric->label[which];
    for (unsigned i = 0; i < label->n; i++) {
        if (!stat_has_value(metric, which, i))
            continue;
        if (!label->values[i] || !*label->values[i] || strpbrk(label->values[i], "\"\\\n"))
            return false;
        for (unsigned k = 0; k < i; k++)
            if (stat_has_value(metric, which, k) && !strcmp(label->values[i], label->values[k]))
                return false;
    }
    return true;
}

static bool metric_is_sound(const struct metric *metric)
{
    const struct stat_label *label = metric->label;
    unsigned n = label[0].n ? label[0].n * (label[1].n ? label[1].n : 1) : 1;
    return metric->name && metric->help && *metric->help && metric->values && metric->n == n &&
           n <= STAT_SERIES_MAX && (metric->kind == STAT_KIND_COUNTER || !metric->losses) &&
           label_is_sound(metric, 0) && label_is_sound(metric, 1);
}

bool stats_are_sound(const struct metric *metrics, size_t n, char problem[STAT_TEXT_MAX])
{
    for (size_t i = 0; i < n; i++) {
        if (!metric_is_sound(&metrics[i])) {
            snprintf(problem, STAT_TEXT_MAX, "%s: a label's value without name, or a name twice",
                     metrics[i].name ? metrics[i].name : "a metric without name");
            return false;
        }
        for (size_t k = 0; k < i; k++)
            if (!strcmp(metrics[i].name, metrics[k].name)) {
                snprintf(problem, STAT_TEXT_MAX, "%s is declared twice", metrics[i].name);
                return false;
            }
    }
    return true;
}

void stats_assert_sound(void)
{
    char problem[STAT_TEXT_MAX];
    if (stats_are_sound(__start_spanprof_stats, metrics_count(), problem))
        return;
    fprintf(stderr, "metrics: %s\n", problem);
    abort();
}
