/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What join.c (samples and spans meet) and join_leave.c (samples leave) share; nobody else includes
 * it. */
#include "base/stats.h"
#include "store/join/join.h"
#include "store/join/joined.h"
#include "store/join/pending.h"
#include "store/join/tallies.h"

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
    struct tallies tallies;
    struct joined_spans spans;
};

void join_count(enum join_reason reason, int64_t n);
/* A waiting slot leaves the chain of its tally. */
void join_unchain(struct slot *slot);
/* A slot in no chain is settled with a span, or without. */
void join_settle(struct join *join, struct slot *slot, struct joined *joined);
void join_settle_alone(struct join *join, struct slot *slot, enum join_reason reason);
/* The tally of the span itself, whichever way its samples were found. */
int join_exact_tally(struct join *join, struct joined *joined, int64_t process,
                     struct tally **tally);
/* The sample leaves one tally for another. */
int join_move(struct join *join, struct slot *slot, struct tally *from, struct tally *to);
/* Rows beyond the hard limit of pending bytes are dropped. */
int join_drop_excess(struct join *join);
