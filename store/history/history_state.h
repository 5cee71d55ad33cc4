/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What history.c (what comes) and history_write.c (what goes to disk) share; nobody else includes
 * it. */
#include "base/stats.h"
#include "store/history/history.h"
#include "store/history/history_blocks.h"
#include "store/history/history_encode.h"
#include "store/history/history_span_budget.h"
#include "store/history/history_names.h"
#include "store/history/history_stage.h"
#include "store/history/history_sums.h"

#define HISTORY_RECENT 32768 /* spans remembered that are in a block; a power of two */

struct history {
    struct db *db;
    struct stacks *stacks;
    struct processes *processes;
    struct history_settings settings;
    struct history_span_budget *keep;
    struct history_names names;
    struct history_blocks blocks;
    struct history_stage stage;
    struct history_sums sums;
    struct history_totals *totals;
    uint64_t sums_minute; /* since when they gather: a minute of writing */
    struct map sources;   /* of this window's samples: whom they are of */
    struct arena sources_arena;
    uint64_t passed_over;            /* spans, since the last tick */
    uint64_t now_unix_ns;            /* as of the last flush or tick */
    uint64_t recent[HISTORY_RECENT]; /* hashes of spans with samples that blocks have */
};

/* Writes a block of what is staged, if anything is. */
int history_write_block(struct history *history);
/* Writes the sums if their minute is over, or they are many. */
int history_write_minutes(struct history *history);
/* Sums of what is in blocks, but in no minute. */
int history_sum_up(struct history *history);
void history_forget_sources(struct history *history);

void history_recent_add(struct history *history, const uint8_t trace_id[16],
                        const uint8_t span_id[8]);
/* Facts that come from a Resource message alone. */
int history_resource_facts(struct history *history, struct bytes resource,
                           struct history_series_facts *facts);
