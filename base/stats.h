/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Counters and gauges, each declared once where it is counted:
 *
 *     STAT_COUNTER(lost_ring_full, "spanprof_samples_lost_total", "reason=\"ring_full\"",
 *                  "Samples lost, by reason.");
 *     stat_add(&lost_ring_full, 1);
 *
 * The declarations gather in a linker section, from which the metrics page is made. After
 * stats_share() the values lie in memory that forked children share, so that keeper, service and
 * analyst count into one table, which outlives a restart of a child.
 * Thread: any (atomics). One declaration: file scope, one name + labels pair once in the program.
 */
#include <stdatomic.h>
#include <stdint.h>

struct buf;

enum stat_kind { STAT_KIND_COUNTER, STAT_KIND_GAUGE };

struct metric {
    const char *name;   /* Prometheus name, with its unit suffix */
    const char *labels; /* `a="b",c="d"` or "" */
    const char *help;
    enum stat_kind kind;
    _Atomic int64_t own;     /* used before stats_share() */
    _Atomic int64_t *shared; /* NULL before stats_share() */
};

#define STAT_DECLARE_(variable, name_, labels_, help_, kind_)                                      \
    static struct metric variable                                                                  \
        __attribute__((section("spanprof_stats"), used, aligned(sizeof(void *)))) = {              \
            .name = (name_), .labels = (labels_), .help = (help_), .kind = (kind_)}
#define STAT_COUNTER(variable, name, labels, help)                                                 \
    STAT_DECLARE_(variable, name, labels, help, STAT_KIND_COUNTER)
#define STAT_GAUGE(variable, name, labels, help)                                                   \
    STAT_DECLARE_(variable, name, labels, help, STAT_KIND_GAUGE)

int stats_share(void); /* once, before the first fork; 0 or negative errno */
void stat_add(struct metric *stat, int64_t delta);
void stat_set(struct metric *stat, int64_t value);
int64_t stat_get(const struct metric *stat);
int64_t stats_find(const char *name, const char *labels); /* -1 if there is none such; for tests */
int stats_prometheus(struct buf *out);                    /* text format 0.0.4, sorted by name */
