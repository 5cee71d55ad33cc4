/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Shared by history.c (adds spans and samples) and history_write.c (writes blocks and minutes).
 * Private to these files. */
#include "base/stats.h"
#include "store/history/history.h"
#include "store/history/history_blocks.h"
#include "store/history/history_encode.h"
#include "store/history/history_span_budget.h"
#include "store/history/history_names.h"
#include "store/history/history_stage.h"
#include "store/history/history_sums.h"

#define HISTORY_RECENT 32768 /* number of remembered spans; a power of two */
/* Spans without samples may take this many times what a window has of max_size_bytes, if the
 * history is to reach back for retention_ns. */
#define HISTORY_WINDOW_PARTS 4
#define HISTORY_WINDOW_NS    UINT64_C(5000000000) /* between blocks */
#define HISTORY_SPAN_BYTES   64                   /* of a span without its texts */
#define HISTORY_NAMES_PART   4 /* names get at most 1 / HISTORY_NAMES_PART of max_size_bytes */

struct history {
    struct db *db;
    struct stacks *stacks;
    struct processes *processes;
    struct history_settings settings;
    struct history_span_budget *keep;
    struct history_names names;
    struct history_blocks blocks;
    struct history_stage stage;
    struct fair_share window; /* bytes of this window's spans without samples */
    uint64_t latest_resource; /* otlp_span.resource_number of latest_tenant; 0: not known */
    uint64_t latest_tenant;
    struct history_sums sums;
    struct history_totals *totals;
    uint64_t sums_minute; /* minute of writing in which `sums` began */
    struct map sources;   /* sources of this window's samples */
    struct arena sources_arena;
    uint64_t passed_over;            /* spans not kept since the last tick */
    uint64_t now_unix_ns;            /* as of the last flush or tick */
    uint64_t recent[HISTORY_RECENT]; /* hashes of spans with samples that are in a block */
};

/* Writes the stage as a block, if the stage is not empty. */
int history_write_block(struct history *history);
/* Writes the sums if their minute is over, or if they are nearly full. */
int history_write_minutes(struct history *history);
/* Computes the sums of the blocks that are in no minute. */
int history_sum_up(struct history *history);
void history_forget_sources(struct history *history);

void history_recent_add(struct history *history, const uint8_t trace_id[16],
                        const uint8_t span_id[8]);
/* Sets the facts that follow from the Resource message alone. *tenant: who brings it; if that is 0,
 * it is set by the service. */
int history_resource_facts(struct history *history, struct bytes resource, uint64_t *tenant,
                           struct history_series_facts *facts);
