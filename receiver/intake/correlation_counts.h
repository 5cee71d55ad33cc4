/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How often a stack was seen while a local root span ran: samples of CONTEXT_ELASTIC, counted by
 * process, trace, local root and stack until a message reports them. WRITER thread only, within the
 * store's batch. Limit: CORRELATION_COUNTS_MAX counts; samples beyond are counted as lost.
 */
#include "receiver/intake/elastic_message.h"
#include "agent-bpf/record.h"
#include "base/buf.h"

#define CORRELATION_COUNTS_MAX 16384
/* How long a count waits for its stack's executable to be read by the symbolizer: the first message
 * fixes the stack's public id. A stack with open frames (stacks_unfinished.h) waits until it is
 * finished. */
#define CORRELATION_HOLD_NS UINT64_C(500000000)

struct store;
struct correlation_counts;

enum correlation_loss {
    CORRELATION_LOST_NO_SOCKET,
    CORRELATION_LOST_AGENT_SLOW,
    CORRELATION_LOST_AGENT_GONE,
    CORRELATION_LOST_SEND,
    CORRELATION_LOST_STORE,
    CORRELATION_LOST_FULL,
    CORRELATION_LOST_MEMORY,
    CORRELATION_LOST_STACK,
    CORRELATION_LOST_ROLLED_BACK,
    CORRELATION_LOSSES
};
void correlation_count_lost(enum correlation_loss reason, int64_t n); /* samples. Thread: any */

struct correlation_message {
    uint32_t pid;
    struct elastic_correlation said;
};

int correlation_counts_open(struct store *store, struct correlation_counts **counts);
void correlation_counts_close(struct correlation_counts *counts); /* NULL is fine */

/* Counts a sample that has a trace and a local root; ignores others. stack: the row of its stack.
 */
void correlation_counts_add(struct correlation_counts *counts, const struct record_header *record,
                            int64_t stack);
/* Moves the counts that need not wait to `messages` (appends struct correlation_message). now_ns:
 * CLOCK_MONOTONIC. 0 or negative errno of the store, which breaks the batch. */
int correlation_counts_take(struct correlation_counts *counts, uint64_t now_ns,
                            struct buf *messages);
