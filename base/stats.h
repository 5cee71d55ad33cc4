/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Counters and gauges. Each is declared once, where it is counted; a family has one series for each
 * value of an enum, whose names are its label's values:
 *
 *     static const char *const result_names[] = {[JOIN_JOINED] = "joined", [JOIN_LATE] = "late"};
 *     STAT_COUNTERS(samples, "spanprof_join_samples_total", "Samples by how they were joined.",
 *                   STAT_LABEL("result", result_names, JOIN_RESULTS));
 *     STAT_GAUGE(waiting, "spanprof_join_pending_samples", "Samples that wait for their span.");
 *
 *     stat_add_of(&samples, JOIN_LATE, n);
 *     stat_set(&waiting, n_waiting);
 *
 * A loss is a counter, too: of something that was there and is missing now, or comes late or poorer
 * than it could. The Status page shows those that are not 0. STAT_LOSSES declares a family of
 * losses; a family that only has some among its series names them behind its label:
 * `.losses = STAT_BIT(JOIN_EVICTED) | STAT_BIT(JOIN_DROPPED)`. Values of the enum that are never
 * counted, and need no name, are named by `.absent` in the same way.
 *
 * The declarations gather in a linker section. The metrics page and docs/metrics.md (`./dev docs`)
 * are made from it. After stats_share() the values lie in a memfd: all processes of spanprof, which
 * are executions of one program, count into one table, which outlives a restart of a child.
 *
 * Thread: any (atomics). A declaration stands at file scope; a name occurs in one declaration.
 * Errors: a wrong index, and a name that is declared twice, are assertions.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

enum stat_kind { STAT_KIND_COUNTER, STAT_KIND_GAUGE };

#define STAT_LABELS_MAX 2  /* of one family */
#define STAT_SERIES_MAX 64 /* of one family: bits of losses */
#define STAT_TEXT_MAX   128

struct stat_label {
    const char *name;
    const char *const *values; /* n of them */
    unsigned n;
};

struct metric {
    const char *name; /* Prometheus name, with its unit suffix */
    const char *help;
    const char *file; /* that declares it */
    enum stat_kind kind;
    unsigned n;                               /* series */
    struct stat_label label[STAT_LABELS_MAX]; /* the series of values i, k is i * label[1].n + k */
    uint64_t losses;                          /* a bit for each series that counts a loss */
    uint64_t absent;         /* a bit for each that there is not, such as of an enum's "none" */
    _Atomic int64_t *values; /* shared memory after stats_share() */
};

#define STAT_BIT(index) (UINT64_C(1) << (index))

/* The names of an enum's values: as many as the enum has. */
#define STAT_COUNT_(names, count)                                                                  \
    ((count) + 0 * sizeof(struct {                                                                 \
                   _Static_assert(sizeof(names) / sizeof((names)[0]) == (count),                   \
                                  #names " has " #count);                                          \
                   char none;                                                                      \
               }))
#define STAT_SERIES_(count)                                                                        \
    .n = (count), .values = (_Atomic int64_t[(count)])                                             \
    {                                                                                              \
        0                                                                                          \
    }
#define STAT_LABEL(label_, names, count)                                                           \
    .label = {{(label_), (names), STAT_COUNT_(names, count)}}, STAT_SERIES_(count)
#define STAT_LABELS(label_, names, count, label2, names2, count2)                                  \
    .label = {{(label_), (names), STAT_COUNT_(names, count)},                                      \
              {(label2), (names2), STAT_COUNT_(names2, count2)}},                                  \
    STAT_SERIES_((count) * (count2))

#define STAT_DECLARE_(variable, kind_, name_, help_, ...)                                          \
    static struct metric variable                                                                  \
        __attribute__((section("spanprof_stats"), used, aligned(sizeof(void *)))) = {              \
            .kind = (kind_), .name = (name_), .help = (help_), .file = __FILE__, __VA_ARGS__}

/* Without labels */
#define STAT_COUNTER(variable, name, help)                                                         \
    STAT_DECLARE_(variable, STAT_KIND_COUNTER, name, help, STAT_SERIES_(1))
#define STAT_LOSS(variable, name, help)                                                            \
    STAT_DECLARE_(variable, STAT_KIND_COUNTER, name, help, .losses = UINT64_MAX, STAT_SERIES_(1))
#define STAT_GAUGE(variable, name, help)                                                           \
    STAT_DECLARE_(variable, STAT_KIND_GAUGE, name, help, STAT_SERIES_(1))

/* Families: STAT_LABEL or STAT_LABELS comes behind the help */
#define STAT_COUNTERS(variable, name, help, ...)                                                   \
    STAT_DECLARE_(variable, STAT_KIND_COUNTER, name, help, __VA_ARGS__)
#define STAT_LOSSES(variable, name, help, ...)                                                     \
    STAT_DECLARE_(variable, STAT_KIND_COUNTER, name, help, .losses = UINT64_MAX, __VA_ARGS__)
#define STAT_GAUGES(variable, name, help, ...)                                                     \
    STAT_DECLARE_(variable, STAT_KIND_GAUGE, name, help, __VA_ARGS__)

void stat_add(struct metric *metric, int64_t delta);
void stat_set(struct metric *metric, int64_t value);

/* The same of a family with one label. */
void stat_add_of(struct metric *family, unsigned value, int64_t delta);
void stat_set_of(struct metric *family, unsigned value, int64_t value_now);
int64_t stat_get_of(const struct metric *family, unsigned value);

/* And of one with two. */
void stat_add_of2(struct metric *family, unsigned value, unsigned value2, int64_t delta);

/* One series, for a module that counts in its owner's metric: {&family, value}, or {&metric}. */
struct stat_ref {
    struct metric *metric;
    unsigned value;
};
void stat_add_ref(struct stat_ref ref, int64_t delta);

/* Once, before children are started: values lie in shared memory from here on. 0 or negative errno.
 */
int stats_share(void);
/* In a child, once: counts into the table that its parent shares. The descriptor may be closed
 * then. 0 or negative errno
 * (-EINVAL: the table of another program). */
int stats_attach(int fd);
int stats_shared_fd(void); /* what stats_share() made, to be passed on; -1: none */

struct stat_series { /* borrowed, for the call */
    const struct metric *metric;
    const char *labels; /* `a="b",c="d"` or "" */
    bool is_loss;
    int64_t value;
};

/* Sorted by name, the series of a family in the order of their values; 0 or -ENOMEM. */
int stats_each(void (*visit)(void *context, const struct stat_series *series), void *context);
int stats_each_metric(void (*visit)(void *context, const struct metric *metric), void *context);
int64_t stats_find(const char *name, const char *labels); /* -1 if there is none such */

/* Both: 0, or a negative errno or BUF_FULL of base/buf.h. */
int stats_prometheus(struct buf *out); /* text format 0.0.4 */
int stats_markdown(struct buf *out);   /* docs/metrics.md */

/* Is each of them sound, and no name declared twice? If not, what is wrong is in problem. */
bool stats_are_sound(const struct metric *metrics, size_t n, char problem[STAT_TEXT_MAX]);
/* Has any series this value of the label? */
bool stat_has_value(const struct metric *metric, unsigned label, unsigned value);
void stats_assert_sound(void); /* all of the program's */
