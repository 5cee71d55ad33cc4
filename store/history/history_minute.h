/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A minute's sums by series and stack (history_minute_entries), and the ids of those stacks
 * (history_minute_stacks), used to find which stacks are still referred to. Pure; thread: the
 * owner's. See history_block.h.
 */
#include "store/history/history_block.h"
#include "store/db/id_set.h"

struct history_minute_entry {
    int64_t series, stack;
    uint64_t samples, value_ns;
};

struct history_minute_entries {
    struct blob_reader in;
    uint64_t left, period_ns;
    struct history_minute_entry entry; /* the latest */
};

int history_minute_open(struct history_minute_entries *entries, struct bytes body);
/* Ascending by series, then stack. 1 and *entry; 0: end; -EUCLEAN. */
int history_minute_next(struct history_minute_entries *entries, struct history_minute_entry *entry);
/* entries: n, each (series, stack) once; the function sorts them. */
void history_minute_encode(struct blob_writer *out, struct history_minute_entry *entries, size_t n,
                           uint64_t period_ns);

/* stacks: sealed. */
void history_stacks_encode(struct blob_writer *out, const struct id_set *stacks);
/* Ascending, each once. *stack must be 0 at the first call, and unchanged between calls. 1 and
 * *stack; 0: end; -EUCLEAN. */
int history_stacks_next(struct blob_reader *in, int64_t *stack);
