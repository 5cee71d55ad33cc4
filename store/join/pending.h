/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Batches of samples that have not left yet: a row each with all its samples, another with a bit
 * for each that is still here, and in memory a slot a sample. Which state a sample is in is
 * join.c's to say; here it is kept and counted. Thread: the writer. Errors: negative errno of db.h;
 * they broke the transaction.
 */
#include "base/list.h"
#include "store/db/id_set.h"
#include "store/join/sample.h"
#include <sqlite3.h>

struct db;
struct span_total;
struct matched_span;

enum slot_state {
    SLOT_GONE,
    SLOT_WAITING, /* for its span; in the chain of its total */
    SLOT_READY,   /* leaves without a span */
    SLOT_JOINED,  /* leaves with its span, which counts it in refs */
};

struct slot {
    struct slot *next; /* of the same total */
    union {
        struct span_total *total;     /* SLOT_WAITING */
        struct matched_span *matched; /* SLOT_JOINED */
    };
    int64_t stack;
    uint32_t value_ns; /* of CPU samples; at most UINT32_MAX */
    uint32_t after_us; /* time after that of the batch */
    uint32_t index;    /* in the batch */
    uint8_t state;
    bool cpu;
};

struct batch {
    struct list link;
    int64_t seq;
    uint64_t base_unix_ns; /* the earliest sample */
    size_t bytes;          /* of row and memory */
    uint32_t count, n_waiting, n_ready;
    struct id_set processes;
    struct slot slots[];
};

struct pending {
    struct db *db;
    struct list batches; /* oldest first */
    size_t bytes;
    size_t n_samples; /* not gone */
    /* The batch being written */
    struct blob_writer body;
    struct sample previous;
    uint32_t n_written;
    uint64_t base_unix_ns;
    sqlite3_stmt *put, *put_left, *get, *remove, *remove_left, *load;
};

int pending_open(struct pending *pending, struct db *db);
void pending_close(struct pending *pending);

/* For each sample of a batch that is read; fresh: it has just been added. */
typedef int pending_index(void *context, struct batch *batch, struct slot *slot,
                          const struct sample *sample, bool fresh);

/* Forgets what is in memory, reads the rows. A damaged row is removed, counted. */
int pending_reload(struct pending *pending, pending_index *index, void *context);

void pending_begin(struct pending *pending);
int pending_add(struct pending *pending, const struct sample *sample);
int pending_commit(struct pending *pending, pending_index *index, void *context);

struct batch *slot_batch(const struct slot *slot);
uint64_t slot_time(const struct slot *slot);
/* Changes the state and the counts that hang on it. */
void slot_set(struct pending *pending, struct slot *slot, enum slot_state state);

enum { PENDING_STAYS = 1 };

/* Calls visit for each slot that is ready or joined, with its sample; the slot is gone afterwards,
 * unless it returns PENDING_STAYS. */
int pending_leave(struct pending *pending, struct batch *batch,
                  int (*visit)(void *context, struct slot *slot, const struct sample *sample),
                  void *context);
/* All slots are gone. */
int pending_remove(struct pending *pending, struct batch *batch);
