/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The join: samples wait for their span, spans find their samples. docs/design/join.md. Writer
 * thread only, inside the writer's transaction. After a rolled-back transaction call join_reload():
 * it restores memory from the database.
 *
 * Limits: max_pending_bytes (above it the oldest samples leave the join early, with their Link; far
 * above it, when no sample can leave, the oldest are dropped), max_span_totals_bytes and
 * max_recent_bytes (shared fairly by cgroups, each of which gives up its own oldest),
 * max_recent_spans; each with a counter. Errors: negative errno of db.h; the
 * transaction has failed.
 */
#include "base/peer.h"
#include "proto/otlp/otlp_spans.h"
#include "store/join/sample.h"

struct db;
struct stacks;
struct processes;
struct join;
struct id_set;

struct join_settings {
    uint64_t wait_ns;            /* after this a sample leaves the join without its span */
    uint64_t span_totals_ttl_ns; /* after this without a new sample a total is forgotten */
    size_t max_pending_bytes;
    size_t max_span_totals_bytes;
    size_t max_recent_spans;
    size_t max_recent_bytes;
    size_t top_stacks;                  /* ids put on a span, at most JOIN_TOP_STACKS_MAX */
    const char *const *span_attributes; /* keys copied from span to its samples; NULL-terminated;
                                           NULL = none. Must outlive the join. */
};

int join_open(struct db *db, struct stacks *stacks, struct processes *processes,
              const struct join_settings *settings, struct join **join);
void join_close(struct join *join); /* NULL is fine */
int join_reload(struct join *join);
/* Writes the changes of the transaction. Call it before each commit. */
int join_flush(struct join *join);

/* Batches of samples, one blob row per batch: begin, add ..., commit, all in one transaction. An
 * empty batch writes no row. */
int join_batch_begin(struct join *join);
int join_add_sample(struct join *join, const struct sample *sample);
int join_batch_commit(struct join *join);

#define JOIN_TOP_STACKS_MAX 16

struct join_result {
    uint64_t cpu_ns;  /* of all CPU samples of the span so far */
    uint64_t samples; /* number of those CPU samples */
    uint32_t pid;     /* of the process that made the span; 0: not known */
    /* A process with samples of the span, but without evidence that it made the span; 0: none. Also
     * set without a match. */
    uint32_t unproven_pid;
    size_t n_stacks;
    /* Public ids, most samples first; without stacks whose frames are open. */
    uint8_t stack_ids[JOIN_TOP_STACKS_MAX][16];
};

enum { JOIN_NO_SAMPLES = 0, JOIN_MATCHED = 1 };

/* sender: the peer that the span came from. JOIN_MATCHED: the span has CPU samples, and *result
 * describes them. Waiting samples of the span are settled. */
int join_span(struct join *join, const struct otlp_span *span, const struct peer *sender,
              struct join_result *result);

/* What a joined sample takes from its span. */
struct join_span_facts {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t parent_id[8]; /* zero = none */
    uint32_t kind;        /* enum otlp_span_kind */
    bool local_root, error;
    uint32_t pid; /* of the process that made it */
    uint64_t start_unix_ns, end_unix_ns;
    struct bytes name;
    struct bytes attributes; /* those of settings.span_attributes, each framed as Span field 9 */
    struct bytes resource;   /* equal resources of a call to join_leave() have equal pointers */
};

/* A settled sample that leaves the join. span: NULL if the sample was not joined. Return 0 or
 * negative errno. */
typedef int join_visit(void *context, const struct sample *sample,
                       const struct join_span_facts *span);

enum { JOIN_LEAVE_MORE = 1 };

/* Passes each settled sample to visit once and forgets it. A sample with an unfinished stack stays
 * until the stack is finished, unless its room is needed. Also forgets expired totals. Waiting
 * times and ages are measured up to now_unix_ns. JOIN_LEAVE_MORE: *n_samples have left, which is
 * max_samples or the end of the batch that passes it, and others may be settled; call again in
 * another transaction. */
int join_leave(struct join *join, uint64_t now_unix_ns, size_t max_samples, join_visit *visit,
               void *context, size_t *n_samples);

size_t join_pending_samples(const struct join *join);
/* Adds the stacks and processes that pending samples and totals refer to. */
int join_references(const struct join *join, struct id_set *stacks, struct id_set *processes);
