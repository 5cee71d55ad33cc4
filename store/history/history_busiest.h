/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The traces of a block that have most CPU time (HISTORY_PART_BUSIEST), so that those of a long
 * range are found without reading its spans. The time is what the trace had by then in all blocks,
 * as far as the writer remembers (history_totals.h): so a trace that goes through many blocks is in
 * the list of one of them if it is among the best. Pure; thread: whoever holds it.
 */
#include "store/history/history_block.h"

#define HISTORY_BUSIEST_MAX 128

struct history_busy_trace {
    uint8_t trace_id[16];
    uint64_t cpu_ns;
};

/* Most CPU time first; by id where it is the same. */
int history_busiest_compare(const void *a, const void *b);

/* traces: all that have CPU time in the block; sorts them. A small part of them is written: a block
 * of which that is too little has few spans to be read instead. */
int history_busiest_encode(struct blob_writer *out, struct history_busy_trace *traces, size_t n);

struct history_busiest { /* being read */
    struct blob_reader in;
    uint64_t left;
    bool is_all; /* the block has no other trace with CPU time */
    bool has_begun;
    struct history_busy_trace trace;
};

int history_busiest_open(struct history_busiest *busiest, struct bytes body); /* -EUCLEAN */
/* 1: busiest->trace is the next; 0: that was all; -EUCLEAN. */
int history_busiest_next(struct history_busiest *busiest);
