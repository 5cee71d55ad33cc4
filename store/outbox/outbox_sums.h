/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Sums of waiting requests per signal, and the last assigned seq. One row per signal, written once
 * per transaction: a start need not count requests, and no seq is assigned twice. Private to the
 * outbox. Errors: negative errno of db.h.
 */
#include "proto/otlp/otlp_service.h"
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

struct db;

struct outbox_sum {
    int64_t items, bytes, requests;
};

struct outbox_sums {
    struct db *db;
    struct outbox_sum of[SIGNAL_COUNT];
    struct outbox_sum committed[SIGNAL_COUNT];
    bool changed[SIGNAL_COUNT];
    int64_t last_seq;
    sqlite3_stmt *get, *newest, *put;
};

int outbox_sums_prepare(struct db *db, struct outbox_sums *sums);
void outbox_sums_unprepare(struct outbox_sums *sums);
int outbox_sums_load(struct outbox_sums *sums);
/* Changes memory and gauges; outbox_sums_flush() writes the sums before the commit. */
void outbox_sums_add(struct outbox_sums *sums, enum signal signal, const struct outbox_sum *more);
void outbox_sums_remove(struct outbox_sums *sums, enum signal signal,
                        const struct outbox_sum *less);
int outbox_sums_flush(struct outbox_sums *sums);
void outbox_sums_committed(struct outbox_sums *sums);
/* Any thread: reads the gauge. */
int64_t outbox_sums_requests(enum signal signal);
