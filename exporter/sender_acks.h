/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Acknowledgements: the writer marks in the outbox what a destination has, or will never get. They
 * are of single requests, so their order does not matter; a lost one means that a request is sent
 * again.
 * Private to exporter/. Thread: loop. Embedded.
 */
#include "exporter/exporter.h"

struct sender_acks {
    const struct exporter_settings *settings;
    void (*done)(struct sender_acks *acks); /* after each */
    size_t n;                               /* not marked yet */
    bool lost; /* a mark failed: its requests are in the outbox again; the owner clears it */
    /* private */
    struct list waiting; /* for room in the writer's queue */
    struct list at_writer;
    struct timer again;
};

void sender_acks_init(struct sender_acks *acks, const struct exporter_settings *settings,
                      void (*done)(struct sender_acks *acks));
/* later: they may wait some 20 ms for a transaction that the writer makes anyway. */
void sender_acks_put(struct sender_acks *acks, const int64_t *seqs, size_t n, bool later);
void sender_acks_close(struct sender_acks *acks); /* those at the writer are written all the same */
