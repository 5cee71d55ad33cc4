/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a destination has, or will never get, is marked in the outbox by the writer. Marks are of
 * single requests, so they may come in any order; one that is lost means a request sent again.
 * Private to exporter/. Thread: loop. Embedded.
 */
#include "exporter/exporter.h"

struct lane_marks {
    const struct exporter_settings *settings;
    void (*done)(struct lane_marks *marks); /* after each */
    size_t n;                               /* not done yet */
    bool lost;                              /* one was, and its requests wait again; the owner's */
    /* private */
    struct list waiting; /* they found the writer's queue full */
    struct list at_writer;
    struct timer again;
};

void lane_marks_init(struct lane_marks *marks, const struct exporter_settings *settings,
                     void (*done)(struct lane_marks *marks));
/* later: they may wait some 20 ms for a transaction that the writer has to make anyway. */
void lane_marks_put(struct lane_marks *marks, const int64_t *seqs, size_t n, bool later);
void lane_marks_close(struct lane_marks *marks); /* those at the writer are written all the same */
