/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The history: samples and spans, kept for retention_ns, to be queried on this node. Writer thread
 * only; history_reader.h reads it.
 *
 * The history consists of blocks (history_block.h). Each profile window writes one block, in its
 * own transaction, so a sample is in the history iff it has left the join. Each minute a summary by
 * series and stack is written as well, for queries over long ranges. A block is removed as a whole,
 * so expiry does not stall the writer.
 *
 * Spans with samples are always kept. Spans without samples, which a waterfall shows too, are kept
 * within max_spans_per_second (history_span_budget.h), and within a number of bytes that each
 * sender has a fair share of, so that none shortens the time that the history covers for the
 * others. Spans since the last block are in memory only: a kill loses the spans without samples;
 * spans with samples are restored together with their samples. Limits: retention_ns and
 * max_size_bytes, of blocks and names (history_names.h) together. The oldest block is removed if
 * max_size_bytes is reached, if pending samples need the room, or if the disk is full; if still no
 * room is left, samples and spans are left out. Each case is counted. Errors: negative errno of
 * db.h.
 */
#include "store/join/join.h"

struct history;

struct history_settings {
    bool enabled; /* false: nothing is added, and existing blocks are removed in steps */
    uint64_t retention_ns;
    uint64_t max_size_bytes;
    uint32_t max_spans_per_second;      /* of spans without samples */
    const char *const *span_attributes; /* keys of kept attributes; NULL-terminated or NULL. Must
                                           outlive the history. */
};

int history_open(struct db *db, struct stacks *stacks, struct processes *processes,
                 const struct history_settings *settings, struct history **history);
void history_close(struct history *history); /* NULL is fine */
int history_reload(struct history *history); /* after a rolled-back transaction */
bool history_is_enabled(const struct history *history);

/* Adds a span that arrived. result: from join_span(); NULL, or without samples, if the span has
 * none. sender: the cgroup that sent it; 0 = not known, then its service counts. */
int history_span(struct history *history, uint64_t sender, const struct otlp_span *span,
                 const struct join_result *result);
/* Adds a sample that leaves the join; arguments as join_visit. */
int history_sample(struct history *history, const struct sample *sample,
                   const struct join_span_facts *span);
enum { HISTORY_MORE = 1 };
/* Within a transaction: stores names of spans that were added, so that the transaction that writes
 * their block does not take long. HISTORY_MORE: there are others; call again in another
 * transaction. */
int history_name_spans(struct history *history);
/* Writes a block of what was added since the last one. Call it when a profile window closes, in its
 * transaction. */
int history_flush(struct history *history, uint64_t now_unix_ns);
/* Within a transaction, about once a second: writes a block if there are many spans for one, so
 * that the window's end does not take long; removes blocks and minutes beyond retention_ns or
 * max_size_bytes, a bounded step. */
int history_expire(struct history *history, uint64_t now_unix_ns);
/* Bytes of the store's quota that the outbox must not use, so that the history can reach
 * max_size_bytes. */
uint64_t history_room_to_leave(const struct history *history);
/* Adds the stacks that the history refers to. */
int history_references(struct history *history, struct id_set *stacks);
