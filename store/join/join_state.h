/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What join.c (samples and spans meet) and join_leave.c (samples leave) share; nobody else includes
 * it. */
#include "base/stats.h"
#include "store/join/join.h"
#include "store/join/matched_span.h"
#include "store/join/pending.h"
#include "store/join/span_totals.h"

/* Why a sample left the waiting room, or never entered it. */
enum join_reason {
    JOIN_JOINED,     /* its span came */
    JOIN_LATE,       /* its span had come before */
    JOIN_NO_CONTEXT, /* no span was running */
    JOIN_UNSAMPLED,  /* the context says that its span is not recorded */
    JOIN_NOT_OWNER,  /* the span is another process's */
    JOIN_TIMEOUT,    /* its span did not come */
    JOIN_EVICTED,    /* room was needed */
    JOIN_DROPPED,    /* not even exported */
    JOIN_REASONS,
};

struct join {
    struct db *db;
    struct stacks *stacks;
    struct processes *processes;
    struct join_settings settings;
    struct pending pending;
    struct span_totals totals;
    struct matched_spans spans;
};

void join_count(enum join_reason reason, int64_t n);
/* A waiting slot leaves the chain of its total. */
void join_unchain(struct slot *slot);
/* A slot in no chain is settled with a span, or without. */
void join_settle(struct join *join, struct slot *slot, struct matched_span *matched);
void join_settle_alone(struct join *join, struct slot *slot, enum join_reason reason);
/* The total of the span itself, whichever way its samples were found. */
int join_exact_total(struct join *join, struct matched_span *matched, int64_t process,
                     struct span_total **total);
/* The sample leaves one total for another. */
int join_move(struct join *join, struct slot *slot, struct span_total *from, struct span_total *to);
/* Rows beyond the hard limit of pending bytes are dropped. */
int join_drop_excess(struct join *join);
