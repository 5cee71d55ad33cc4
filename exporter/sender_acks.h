/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Acknowledgements: the writer marks requests in the outbox as done for a destination: delivered or
 * given up. Each ack names its requests, so the order of acks does not matter. If an ack is lost,
 * its requests are sent again. Private to exporter/. Thread: loop. Embedded.
 */
#include "exporter/exporter.h"

struct sender_acks {
    const struct exporter_settings *settings;
    void (*done)(struct sender_acks *acks); /* called after each ack */
    size_t n;                               /* acks not marked yet */
    bool lost; /* a mark failed: its requests are in the outbox again; the owner clears it */
    /* private */
    struct list waiting; /* for room in the writer's queue */
    struct list at_writer;
    struct timer again;
};

void sender_acks_init(struct sender_acks *acks, const struct exporter_settings *settings,
                      void (*done)(struct sender_acks *acks));
/* later: the ack may wait about 20 ms, to share a transaction that the writer makes anyway. */
void sender_acks_put(struct sender_acks *acks, const int64_t *seqs, size_t n, bool later);
void sender_acks_close(struct sender_acks *acks); /* acks already at the writer are still written */
