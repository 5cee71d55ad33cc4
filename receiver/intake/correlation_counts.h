/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How often a stack was seen while a local root span ran: samples of CONTEXT_ELASTIC, counted by
 * process, trace, local root and stack until they are told of. WRITER thread only, within the
 * store's batch. Limit: CORRELATION_COUNTS_MAX; what is more is counted as lost.
 */
#include "receiver/intake/elastic_message.h"
#include "agent-bpf/record.h"
#include "base/buf.h"

#define CORRELATION_COUNTS_MAX 16384
/* A stack's public id is fixed when first told, so a stack in an executable that the symbolizer is
 * still reading waits so long; one with open frames (stacks_unfinished.h) until it is finished. */
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

/* A sample that has a trace and a local root; others are left alone. stack: its row. */
void correlation_counts_add(struct correlation_counts *counts, const struct record_header *record,
                            int64_t stack);
/* Moves what can be told to `messages` (struct correlation_message), appended. now_ns:
 * CLOCK_MONOTONIC. 0 or negative errno of the store, which breaks the batch. */
int correlation_counts_take(struct correlation_counts *counts, uint64_t now_ns,
                            struct buf *messages);
