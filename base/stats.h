/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Counters and gauges, each declared once where it is counted:
 *
 *     STAT_COUNTER(lost_ring_full, "spanprof_samples_lost_total", "reason=\"ring_full\"",
 *                  "Samples lost, by reason.");
 *     stat_add(&lost_ring_full, 1);
 *
 * A loss is a counter, too: of something that was there and is missing now, or comes late or poorer
 * than it could. The Status page shows those that are not 0.
 *
 * The declarations gather in a linker section, from which the metrics page is made. After
 * stats_share() the values lie in memory that forked children share, so that keeper, service and
 * analyst count into one table, which outlives a restart of a child.
 * Thread: any (atomics). One declaration: file scope, one name + labels pair once in the program.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct buf;

enum stat_kind { STAT_KIND_COUNTER, STAT_KIND_GAUGE };

struct metric {
    const char *name;   /* Prometheus name, with its unit suffix */
    const char *labels; /* `a="b",c="d"` or "" */
    const char *help;
    enum stat_kind kind;
    bool is_loss;
    _Atomic int64_t own;     /* used before stats_share() */
    _Atomic int64_t *shared; /* NULL before stats_share() */
};

#define STAT_DECLARE_(variable, name_, labels_, help_, kind_, loss_)                               \
    static struct metric variable __attribute__((section("spanprof_stats"), used,                  \
                                                 aligned(sizeof(void *)))) = {.name = (name_),     \
                                                                              .labels = (labels_), \
                                                                              .help = (help_),     \
                                                                              .kind = (kind_),     \
                                                                              .is_loss = (loss_)}
#define STAT_COUNTER(variable, name, labels, help)                                                 \
    STAT_DECLARE_(variable, name, labels, help, STAT_KIND_COUNTER, false)
#define STAT_LOSS(variable, name, labels, help)                                                    \
    STAT_DECLARE_(variable, name, labels, help, STAT_KIND_COUNTER, true)
#define STAT_GAUGE(variable, name, labels, help)                                                   \
    STAT_DECLARE_(variable, name, labels, help, STAT_KIND_GAUGE, false)

int stats_share(void); /* once, before the first fork; 0 or negative errno */
void stat_add(struct metric *stat, int64_t delta);
void stat_set(struct metric *stat, int64_t value);
int64_t stat_get(const struct metric *stat);
int64_t stats_find(const char *name, const char *labels); /* -1 if there is none such; for tests */
/* Each one, sorted by name and labels; 0 or -ENOMEM. */
int stats_each(void (*visit)(void *context, const struct metric *stat), void *context);
int stats_prometheus(struct buf *out); /* text format 0.0.4, sorted by name */
