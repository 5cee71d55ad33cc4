/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Sums by minute, series and stack of the samples of those blocks that no minute's row has yet.
 * Thread: the owner's. Limit: HISTORY_MINUTE_ENTRIES_MAX sums.
 */
#include "base/arena.h"
#include "base/map.h"
#include "store/history/history_minute.h"

struct history_sums {
    struct arena arena;
    struct map by_key;
    uint64_t period_ns; /* of the latest sample */
};

void history_sums_open(struct history_sums *sums);
void history_sums_close(struct history_sums *sums);
void history_sums_clear(struct history_sums *sums);
bool history_sums_is_empty(const struct history_sums *sums);
bool history_sums_is_full(const struct history_sums *sums); /* nearly full: time to write them */

struct history_sums_sample {
    uint64_t time_unix_ns;
    int64_t series, stack;
    uint64_t samples, value_ns, period_ns;
};
int history_sums_add(struct history_sums *sums, const struct history_sums_sample *sample);
int history_sums_stacks(const struct history_sums *sums, struct id_set *stacks);

/* Calls write for each minute, ascending, with its n entries; each (series, stack) once. */
typedef int history_sums_write(void *context, uint64_t minute_unix_ns,
                               struct history_minute_entry *entries, size_t n);
int history_sums_each(const struct history_sums *sums, history_sums_write *write, void *context);
