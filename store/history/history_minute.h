/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A minute's sums by series and stack (history_minute_entries), and which stacks those are
 * (history_minute_stacks), for whoever collects stacks. Pure; thread: whoever holds it. See
 * history_block.h.
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
/* Ascending by series, then stack. 1 and *entry; 0: that was all; -EUCLEAN. */
int history_minute_next(struct history_minute_entries *entries, struct history_minute_entry *entry);
/* entries: n, each series and stack once; sorted here. */
void history_minute_encode(struct blob_writer *out, struct history_minute_entry *entries, size_t n,
                           uint64_t period_ns);

/* stacks: sealed. */
void history_stacks_encode(struct blob_writer *out, const struct id_set *stacks);
/* Ascending, each once. 1 and *stack, which begins with 0 and is passed on; 0: that was all;
 * -EUCLEAN. */
int history_stacks_next(struct blob_reader *in, int64_t *stack);
