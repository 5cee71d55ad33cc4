/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Batches of pending samples. A batch is one row with all its samples, one row with a bit per
 * sample that is still pending, and in memory one struct pending_sample per sample. join.c decides
 * the state of a sample; this module stores and counts the states. Thread: the writer. Errors:
 * negative errno of db.h; the transaction has failed.
 */
#include "base/list.h"
#include "store/db/id_set.h"
#include "store/join/sample.h"
#include <sqlite3.h>

struct db;
struct span_total;
struct matched_span;

enum pending_state {
    PENDING_GONE,
    PENDING_WAITING, /* waits for its span, in the chain of its total */
    PENDING_READY,   /* leaves the join without a span */
    PENDING_JOINED,  /* leaves with its span, whose refs counts it */
};

struct pending_sample {
    struct pending_sample *next; /* the next of the same total */
    union {
        struct span_total *total;     /* PENDING_WAITING */
        struct matched_span *matched; /* PENDING_JOINED */
    };
    int64_t stack;
    uint32_t value_ns; /* of CPU samples; at most UINT32_MAX */
    uint32_t after_us; /* sample time - base_unix_ns */
    uint32_t index;    /* in the batch */
    uint8_t state;
    bool cpu;
};

struct pending_batch {
    struct list link;
    int64_t seq;
    uint64_t base_unix_ns; /* the earliest sample */
    size_t bytes;          /* of row plus memory */
    uint32_t count, n_waiting, n_ready;
    struct id_set processes;
    struct pending_sample samples[];
};

struct pending {
    struct db *db;
    struct list batches; /* oldest first */
    size_t bytes;
    size_t n_samples; /* that are not PENDING_GONE */
    /* The batch being written */
    struct blob_writer body;
    struct sample previous;
    uint32_t n_written;
    uint64_t base_unix_ns;
    sqlite3_stmt *put, *put_left, *get, *remove, *remove_left, *load;
};

int pending_open(struct pending *pending, struct db *db);
void pending_close(struct pending *pending);

/* Called for each sample of a batch; fresh: the batch was just added, not loaded from the
 * database. */
typedef int pending_index(void *context, struct pending_batch *batch, struct pending_sample *entry,
                          const struct sample *sample, bool fresh);

/* Drops the memory and reads the rows. A damaged row is removed and counted. */
int pending_reload(struct pending *pending, pending_index *index, void *context);

void pending_begin(struct pending *pending);
int pending_add(struct pending *pending, const struct sample *sample);
int pending_commit(struct pending *pending, pending_index *index, void *context);

struct pending_batch *pending_sample_batch(const struct pending_sample *entry);
uint64_t pending_sample_time(const struct pending_sample *entry);
/* Changes the state, and the counts of the states. */
void pending_sample_set(struct pending *pending, struct pending_sample *entry,
                        enum pending_state state);

enum { PENDING_STAYS = 1 };

/* Calls visit for each ready or joined sample, with its contents. It becomes PENDING_GONE unless
 * visit returns PENDING_STAYS. */
int pending_leave(struct pending *pending, struct pending_batch *batch,
                  int (*visit)(void *context, struct pending_sample *entry,
                               const struct sample *sample),
                  void *context);
/* Removes the batch; all its samples must be PENDING_GONE. */
int pending_remove(struct pending *pending, struct pending_batch *batch);
