/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a destination has, or will never get, is marked in the outbox by the writer. Marks are of
 * single requests, so they may come in any order; one that is lost means a request sent again.
 * Private to exporter/. Thread: loop. Embedded.
 */
#include "exporter/exporter.h"

struct sender_acks {
    const struct exporter_settings *settings;
    void (*done)(struct sender_acks *marks); /* after each */
    size_t n;                                /* not done yet */
    bool lost;                               /* one was, and its requests wait again; the owner's */
    /* private */
    struct list waiting; /* they found the writer's queue full */
    struct list at_writer;
    struct timer again;
};

void sender_acks_init(struct sender_acks *marks, const struct exporter_settings *settings,
                      void (*done)(struct sender_acks *marks));
/* later: they may wait some 20 ms for a transaction that the writer has to make anyway. */
void sender_acks_put(struct sender_acks *marks, const int64_t *seqs, size_t n, bool later);
void sender_acks_close(
    struct sender_acks *marks); /* those at the writer are written all the same */
