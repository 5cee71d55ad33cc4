/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The traces of a block with the most CPU time (HISTORY_PART_BUSIEST): a query for the busiest
 * traces of a long range need not read spans. The time of a trace is its sum over all blocks up to
 * this one, as far as the writer remembers (history_totals.h). So one of the busiest traces is in
 * the list of at least one block, even if its samples are spread over many blocks. Pure; thread:
 * the owner's.
 */
#include "store/history/history_block.h"

#define HISTORY_BUSIEST_MAX 128

struct history_busy_trace {
    uint8_t trace_id[16];
    uint64_t cpu_ns;
};

/* Orders by CPU time, descending, then by id. */
int history_busiest_compare(const void *a, const void *b);

/* traces: all traces with CPU time in the block; the function sorts them. Only a small part of them
 * is written. If that part is too small for a query, the block has few spans, and the query reads
 * the spans instead. */
int history_busiest_encode(struct blob_writer *out, struct history_busy_trace *traces, size_t n);

struct history_busiest { /* decoder */
    struct blob_reader in;
    uint64_t left;
    bool is_all; /* the block has no other trace with CPU time */
    bool has_begun;
    struct history_busy_trace trace;
};

int history_busiest_open(struct history_busiest *busiest, struct bytes body); /* -EUCLEAN */
/* 1: busiest->trace is the next; 0: end; -EUCLEAN. */
int history_busiest_next(struct history_busiest *busiest);
