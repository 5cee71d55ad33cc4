/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a rollback, the memory of the modules is ahead of the database. Instead of undoing single
 * changes, all modules reload: transactions fail rarely, and the amount to read is bounded. Until a
 * reload succeeds, the store is out of service (`sick`), accepts nothing, and each begin tries to
 * reload.
 */
#include "store/store.h"
#include "base/log.h"
#include "base/stats.h"
#include "store/db/id_set.h"
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define WINDOW_WAITS_NS (60 * UINT64_C(1000000000))
#define REFUSED_MAX     3 /* transactions in a row that fail at a refused statement */

STAT_COUNTER(reloads, "spanprof_store_reloads_total",
             "Times that all memory was read again from the database.");

struct store {
    struct db *db;
    struct stacks *stacks;
    struct processes *processes;
    struct join *join;
    struct outbox *outbox;
    struct pending_profiles *pending;
    struct history *history;
    struct store_settings settings;
    atomic_int health;
    unsigned n_refused;          /* transactions in a row that failed at a refused statement */
    int sick;                    /* why memory differs from the database; 0 = it does not */
    uint64_t full_since_unix_ns; /* since when no window finds room in the outbox; 0 = the last one
                                    did */
    atomic_uint_fast64_t generation;
};

static int open_modules(struct store *store)
{
    const struct store_settings *settings = &store->settings;
    int error = stacks_open(store->db, &store->stacks);
    if (!error)
        error = processes_open(store->db, &store->processes);
    if (!error)
        error =
            join_open(store->db, store->stacks, store->processes, &settings->join, &store->join);
    if (!error)
        error = outbox_open(store->db,
                            &(struct outbox_settings){.names = settings->destinations,
                                                      .other_names = settings->other_names,
                                                      .n = settings->n_destinations,
                                                      .policy = settings->when_full,
                                                      .gone_after_ns = settings->gone_after_ns},
                            &store->outbox);
    if (!error)
        error = pending_profiles_open(store->db, store->outbox, &settings->pending_profiles,
                                      &store->pending);
    if (!error)
        error = history_open(store->db, store->stacks, store->processes, &settings->history,
                             &store->history);
    return error;
}

static void close_modules(struct store *store)
{
    history_close(store->history);
    pending_profiles_close(store->pending);
    outbox_close(store->outbox);
    join_close(store->join);
    processes_close(store->processes);
    stacks_close(store->stacks);
    store->history = NULL;
    store->pending = NULL;
    store->outbox = NULL;
    store->join = NULL;
    store->processes = NULL;
    store->stacks = NULL;
}

/* Replaces the corrupt file. The requests in it are lost and, as far as they are known, counted. */
static int store_renew(struct store *store)
{
    outbox_file_lost(store->outbox);
    return db_renew(store->db);
}

/* A database may open without error and turn out to be corrupt when its rows are read. */
static int open_or_renew(struct store *store)
{
    int error = open_modules(store);
    if (error != -EUCLEAN && error != -EBADMSG) /* no request is at fault here */
        return error;
    if (store->outbox)
        outbox_file_lost(store->outbox);
    close_modules(store);
    error = db_renew(store->db);
    return error ? error : open_modules(store);
}

int store_open(const struct store_settings *settings, struct store **result)
{
    struct store *store = calloc(1, sizeof(*store));
    if (!store)
        return -ENOMEM;
    store->settings = *settings;
    store->generation = 1;
    int error = db_open_writer(&settings->db, &store->db);
    if (!error)
        error = open_or_renew(store);
    if (error) {
        store_close(store);
        return error;
    }
    db_release_thread(store->db); /* the writer thread owns it next */
    *result = store;
    return 0;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    if (store->db)
        db_release_thread(store->db); /* the writer has ended */
    close_modules(store);
    db_close(store->db);
    free(store);
}

struct db *store_db(struct store *store)
{
    return store->db;
}

struct stacks *store_stacks(struct store *store)
{
    return store->stacks;
}

struct processes *store_processes(struct store *store)
{
    return store->processes;
}

struct join *store_join(struct store *store)
{
    return store->join;
}

struct outbox *store_outbox(struct store *store)
{
    return store->outbox;
}

struct pending_profiles *store_pending_profiles(struct store *store)
{
    return store->pending;
}

struct history *store_history(struct store *store)
{
    return store->history;
}

uint64_t store_generation(const struct store *store)
{
    return atomic_load(&store->generation);
}

int store_health(const struct store *store)
{
    return atomic_load_explicit(&store->health, memory_order_relaxed);
}

static void note_health(struct store *store, int error)
{
    if (!error && !outbox_has_room(store->outbox))
        error = -ENOSPC;
    atomic_store_explicit(&store->health, error, memory_order_relaxed);
}

static int reload_modules(struct store *store)
{
    int error = stacks_reload(store->stacks);
    if (!error)
        error = processes_reload(store->processes);
    if (!error)
        error = join_reload(store->join);
    if (!error)
        error = outbox_reload(store->outbox);
    if (!error)
        error = pending_profiles_reload(store->pending);
    if (!error)
        error = history_reload(store->history);
    return error;
}

static int store_reload(struct store *store)
{
    if (store->sick == -ENOSPC && db_rowids_spent(store->db))
        store->sick = -EUCLEAN;
    int error = store->sick == -EUCLEAN ? store_renew(store) : 0;
    if (!error)
        error = reload_modules(store);
    bool corrupt = error == -EUCLEAN || error == -EBADMSG; /* no request is at fault here */
    if (corrupt && store->sick != -EUCLEAN) {
        error = store_renew(store);
        if (!error)
            error = reload_modules(store);
    }
    stat_add(&reloads, 1);
    if (error)
        log_error("store", "the store is out of service: %s", strerror(-error));
    return error;
}

/* A refused statement means damage if a check of its table finds some, or if no transaction
 * succeeds any more. */
static bool refusal_is_damage(struct store *store)
{
    bool damaged = ++store->n_refused >= REFUSED_MAX || db_table_is_damaged(store->db);
    if (damaged)
        store->n_refused = 0;
    return damaged;
}

/* Rolls back the transaction and reloads memory. */
static void store_recover(struct store *store, int error)
{
    store->sick = error == -EBADMSG && refusal_is_damage(store) ? -EUCLEAN : error;
    outbox_rolled_back(store->outbox);
    atomic_fetch_add(&store->generation, 1);
    int sick = store_reload(store);
    store->sick = sick;
}

int store_begin(void *context)
{
    struct store *store = context;
    WRITER_THREAD(store->db);
    if (store->sick)
        store_recover(store, store->sick);
    int error = store->sick;
    if (error) {
        note_health(store, error);
        return error;
    }
    error = db_begin(store->db);
    outbox_leave(store->outbox, history_room_to_leave(store->history));
    if (error == -EUCLEAN)
        store_recover(store, error); /* no job of this batch has run */
    if (error)
        note_health(store, error);
    return error;
}

void store_fail(struct store *store, int error)
{
    WRITER_THREAD(store->db);
    db_fail(store->db, error);
}

/* A request whose statement was refused has failed alone; the others may meet the same damage. */
static void store_committed(struct store *store)
{
    outbox_committed(store->outbox);
    store->n_refused = 0;
    if (db_has_refused(store->db) && db_table_is_damaged(store->db))
        store_recover(store, -EUCLEAN);
}

int store_end(void *context)
{
    struct store *store = context;
    WRITER_THREAD(store->db);
    int error = join_flush(store->join);
    if (!error)
        error = pending_profiles_flush(store->pending);
    if (!error)
        error = outbox_flush(store->outbox);
    if (error)
        db_fail(store->db, error);
    error = db_commit(store->db);
    if (error)
        store_recover(store, error);
    else
        store_committed(store);
    note_health(store, store->sick);
    return error;
}

/* Samples wait for room in the outbox; after a while they go to the history alone, so that queries
 * on this node see them. */
static bool store_unsent(const struct store *store, const struct window_settings *settings,
                         uint64_t now_unix_ns)
{
    return history_is_enabled(store->history) && store->full_since_unix_ns &&
           now_unix_ns >= store->full_since_unix_ns + WINDOW_WAITS_NS &&
           !outbox_has_room_for(store->outbox, settings->max_request_bytes);
}

static void note_window(struct store *store, int outcome, uint64_t now_unix_ns)
{
    bool full = outcome == -ENOSPC || outcome == -EAGAIN;
    if (!full)
        store->full_since_unix_ns = 0;
    else if (!store->full_since_unix_ns || now_unix_ns < store->full_since_unix_ns)
        store->full_since_unix_ns = now_unix_ns;
}

int store_prepare(struct store *store)
{
    WRITER_THREAD(store->db);
    int outcome = history_is_enabled(store->history) ? history_name_spans(store->history) : 0;
    return outcome == HISTORY_MORE ? STORE_MORE : outcome;
}

int store_window(struct store *store, const struct window_settings *settings, uint64_t now_unix_ns,
                 size_t *n_samples)
{
    WRITER_THREAD(store->db);
    struct window_settings with_history = *settings;
    with_history.history = store->history;
    with_history.unsent = store_unsent(store, settings, now_unix_ns);
    const struct window_store parts = {.join = store->join,
                                       .stacks = store->stacks,
                                       .processes = store->processes,
                                       .outbox = store->outbox};
    int outcome = window_close(&parts, &with_history, now_unix_ns, n_samples);
    if (!with_history.unsent)
        note_window(store, outcome, now_unix_ns);
    if (outcome < 0)
        return outcome;
    int error = history_flush(store->history, now_unix_ns);
    return error ? error : outcome;
}

static int begin_sweep(struct store *store, uint64_t now_unix_ns)
{
    struct id_set stacks = {0}, processes = {0};
    int error = join_references(store->join, &stacks, &processes);
    if (!error)
        error = history_references(store->history, &stacks);
    id_set_seal(&stacks);
    id_set_seal(&processes);
    if (!error)
        error = stacks_collect_begin(store->stacks, now_unix_ns, &stacks);
    if (!error)
        error = processes_collect_begin(store->processes, &processes);
    id_set_close(&stacks);
    id_set_close(&processes);
    return error;
}

int store_collect(struct store *store, uint64_t now_unix_ns)
{
    WRITER_THREAD(store->db);
    int error = history_expire(store->history, now_unix_ns);
    if (!error && stacks_collect_due(store->stacks, now_unix_ns))
        error = begin_sweep(store, now_unix_ns);
    if (!error)
        error = stacks_collect(store->stacks);
    if (!error)
        error = processes_collect(store->processes);
    if (!error)
        error = outbox_collect(store->outbox, now_unix_ns);
    pending_profiles_expire(store->pending, now_unix_ns);
    return error;
}

int store_maintain(struct store *store)
{
    WRITER_THREAD(store->db);
    int error = store->sick ? 0 : db_maintain(store->db);
    if (error == -EUCLEAN)
        store_recover(store, error);
    return error;
}
