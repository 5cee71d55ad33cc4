/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Shared by join.c (samples and spans meet) and join_leave.c (samples leave the join). Private to
 * these files. */
#include "base/stats.h"
#include "store/join/ended_spans.h"
#include "store/join/join.h"
#include "store/join/matched_span.h"
#include "store/join/pending.h"
#include "store/join/span_time.h"
#include "store/join/span_totals.h"

/* Why a sample is settled. */
enum join_reason {
    JOIN_JOINED,     /* its span arrived while it waited */
    JOIN_LATE,       /* its span had arrived before */
    JOIN_ENDED,      /* its span had ended before */
    JOIN_NO_CONTEXT, /* no span was running */
    JOIN_UNSAMPLED,  /* the context says that its span is not recorded */
    JOIN_NOT_OWNER,  /* the span belongs to another process */
    JOIN_UNPROVEN,   /* no evidence that the span belongs to the process */
    JOIN_CROWDED,    /* too many processes have samples of this span */
    JOIN_TIMEOUT,    /* its span did not arrive in time */
    JOIN_EVICTED,    /* room was needed */
    JOIN_DROPPED,    /* and not exported */
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
    struct ended_spans ended;
};

void join_count(enum join_reason reason, int64_t n);
/* Not of a trace alone. */
bool join_names_span(const struct sample *sample);
/* The span had ended before. */
bool join_is_over(const struct matched_span *matched, uint64_t time_unix_ns);
/* Removes a waiting sample from the chain of its total. */
void join_unchain(struct pending_sample *entry);
/* Settles a sample that is in no chain, with a span or without. */
void join_settle(struct join *join, struct pending_sample *entry, struct matched_span *matched);
void join_settle_alone(struct join *join, struct pending_sample *entry, enum join_reason reason);
/* The total of the span itself, no matter which key its samples were found by. */
int join_exact_total(struct join *join, struct matched_span *matched, int64_t process,
                     struct span_total **total);
/* The sample counts in this total no longer. */
int join_uncount(struct join *join, const struct pending_sample *entry, struct span_total *total);
/* Moves the sample from one total to another. */
int join_move(struct join *join, struct pending_sample *entry, struct span_total *from,
              struct span_total *to);
/* Rows beyond the hard limit of pending bytes are dropped. */
int join_drop_excess(struct join *join);
