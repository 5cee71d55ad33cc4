/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What was sampled and which spans ran, kept for a while for those who look at it here. Writer
 * thread only; history_reader.h reads it.
 *
 * It lies in blocks (history_block.h): one is written when a profile window closes, in the same
 * transaction, so that a sample is in the history if and only if it has left. Each minute a summary
 * by series and stack is written beside them, for views of long ranges. A block is removed as a
 * whole, so nothing that expires stalls the writer.
 *
 * Spans that had samples are kept always; others, which a waterfall shows too, within
 * max_spans_per_second (history_span_budget.h). Those that came since the last block lie in memory
 * alone: a kill loses the ones without samples, while what had samples is found again with them.
 * Limits: retention_ns, max_size_bytes (the oldest block goes), and room that waiting samples need,
 * or that the disk does not have (likewise; where there is none at all, samples and spans are left
 * out); counted. Errors: negative errno of db.h.
 */
#include "store/join/join.h"

struct history;

struct history_settings {
    bool enabled; /* false: nothing is taken, and what is there is removed in steps */
    uint64_t retention_ns;
    uint64_t max_size_bytes;
    uint32_t max_spans_per_second;      /* of those without samples */
    const char *const *span_attributes; /* keys that are kept; NULL-terminated or NULL. Must outlive
                                           it. */
};

int history_open(struct db *db, struct stacks *stacks, struct processes *processes,
                 const struct history_settings *settings, struct history **history);
void history_close(struct history *history); /* NULL is fine */
int history_reload(struct history *history); /* after a rolled-back transaction */
bool history_is_enabled(const struct history *history);

/* A span that came; result: what the join found, NULL or without samples if nothing. */
int history_span(struct history *history, const struct otlp_span *span,
                 const struct join_result *result);
/* A sample that leaves, as join_visit has it. */
int history_sample(struct history *history, const struct sample *sample,
                   const struct join_span_facts *span);
/* Writes what has come since: as a profile window closes, in its transaction. */
int history_flush(struct history *history, uint64_t now_unix_ns);
/* Within a transaction, about once a second: a bounded step of removing what is too old or too
 * much. */
int history_expire(struct history *history, uint64_t now_unix_ns);
/* Of the store's quota: what requests must not take, so that the history keeps what it may have. */
uint64_t history_room_to_leave(const struct history *history);
/* Adds the stacks that blocks refer to. */
int history_references(struct history *history, struct id_set *stacks);
