/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The writer's store: database, dictionary, processes, join and outbox, their common transaction,
 * and recovery when a transaction fails.
 *
 * Thread: the writer, except where noted. store_begin() and store_end() are the worker's begin and
 * end. A transaction that fails is rolled back, and all modules reload their memory from the
 * database. A corrupt database is renamed and replaced by an empty one. Both increment
 * store_generation(): rowids held by callers (executables, processes, stacks) are invalid then. The
 * modules' addresses stay the same as long as the store is open.
 */
#include "store/db/db.h"
#include "store/pending_profiles/pending_profiles.h"
#include "store/history/history.h"
#include "store/join/join.h"
#include "store/outbox/outbox.h"
#include "store/stacks/processes.h"
#include "store/stacks/stacks.h"
#include "store/window/window.h"

struct store;

struct store_settings {
    struct db_settings db;
    struct join_settings join;
    struct pending_profiles_settings pending_profiles;
    struct history_settings history;
    const char *const *destinations; /* component ids of exporters, see outbox_settings */
    const char *const *other_names;  /* see outbox_settings; may be NULL */
    size_t n_destinations;
    uint64_t gone_after_ns; /* how long requests for removed destinations are kept */
    enum outbox_policy when_full;
};

/* Any thread, before the writer runs. -EACCES, -EBUSY, -ENOTSUP: see db.h; each is logged as a
 * sentence for the user. */
int store_open(const struct store_settings *settings, struct store **store);
void store_close(struct store *store); /* NULL is fine */

struct db *store_db(struct store *store);
struct stacks *store_stacks(struct store *store);
struct processes *store_processes(struct store *store);
struct join *store_join(struct store *store);
struct pending_profiles *store_pending_profiles(struct store *store);
struct history *store_history(struct store *store);
struct outbox *store_outbox(struct store *store); /* address: any thread */

/* context is the struct store. If begin returns a negative errno, no job of the batch may run. */
int store_begin(void *context);
int store_end(void *context);
/* A job reports that the batch cannot be committed; store_end() then fails with the first reported
 * error. */
void store_fail(struct store *store, int error);
uint64_t store_generation(const struct store *store); /* any thread */
/* Any thread; as of the last batch: 0; -ENOSPC: new data is refused because there is no room; any
 * other errno: why the store is out of service. */
int store_health(const struct store *store);

/* Within a transaction, before store_window() and store_collect(): does a bounded step of their
 * work. STORE_MORE: call again, in another transaction. */
enum { STORE_MORE = 1 };
int store_prepare(struct store *store);
/* Within a transaction; outcomes as of window_close(). */
int store_window(struct store *store, const struct window_settings *settings, uint64_t now_unix_ns,
                 size_t *n_samples);
/* Within a transaction, about once a second: removes rows that nothing refers to, a bounded
 * step. */
int store_collect(struct store *store, uint64_t now_unix_ns);
/* Outside of a transaction, when idle: checkpoint and vacuum, a bounded step. */
int store_maintain(struct store *store);
