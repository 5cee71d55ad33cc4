/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The rows of blocks and minutes (history_block.h), appended as the newest and removed as the
 * oldest. Memory holds only id, age and size of each row. Writer thread, within its transaction.
 * Errors: negative errno of db.h.
 */
#include "store/history/history_block.h"
#include "store/db/id_set.h"
#include <sqlite3.h>

struct db;

struct history_row {
    int64_t id;
    uint64_t written_unix_ns;
    uint64_t bytes;
};

struct history_rows { /* oldest first */
    struct history_row *rows;
    size_t first, n, cap;
    uint64_t bytes;
};

struct history_blocks {
    struct db *db;
    uint64_t retention_ns, max_bytes;
    struct history_rows blocks, minutes;
    sqlite3_stmt *put_block, *put_part, *put_minute, *put_entries, *put_stacks;
    sqlite3_stmt *remove_block, *remove_parts, *remove_minute, *remove_entries, *remove_stacks;
    sqlite3_stmt *load_blocks, *load_minutes, *get_stacks, *get_part;
};

struct history_block_row {
    uint64_t written_unix_ns;
    uint64_t samples_from_unix_ns, samples_to_unix_ns, spans_from_unix_ns, spans_to_unix_ns;
    uint64_t samples, spans, max_duration_ns;
};

struct history_minute_row {
    uint64_t minute_unix_ns, written_unix_ns;
    uint64_t samples, value_ns, period_ns;
};

enum { HISTORY_NO_ROOM = 1 };

int history_blocks_open(struct history_blocks *blocks, struct db *db, uint64_t retention_ns,
                        uint64_t max_bytes);
void history_blocks_close(struct history_blocks *blocks); /* also if open failed, or all zero */
int history_blocks_reload(struct history_blocks *blocks);

/* Removes the oldest blocks if quota or disk are short. HISTORY_NO_ROOM: there is still no room,
 * nothing was put. */
int history_blocks_put(struct history_blocks *blocks, const struct history_block_row *row,
                       const struct bytes parts[HISTORY_PARTS]);
/* Puts a minute that sums up all earlier blocks that are in no minute yet. */
int history_blocks_put_minute(struct history_blocks *blocks, const struct history_minute_row *row,
                              struct bytes entries, struct bytes stacks);
/* From now on. */
void history_blocks_limit(struct history_blocks *blocks, uint64_t max_bytes);
uint64_t history_blocks_latest_unix_ns(const struct history_blocks *blocks); /* 0: no block */
/* Bytes of the store's quota that blocks may still grow by, plus the bytes that other modules
 * need. */
uint64_t history_blocks_room_to_leave(const struct history_blocks *blocks);
/* Removes expired rows, a bounded step. */
int history_blocks_expire(struct history_blocks *blocks, uint64_t now_unix_ns);
/* Adds the stacks of all minutes. */
int history_blocks_stacks(struct history_blocks *blocks, struct id_set *stacks);
/* Calls visit with the samples part of each block that is in no minute, latest first, until visit
 * returns -ENOENT. If visit returns -EUCLEAN (damaged), the block is removed. */
int history_blocks_unsummed(struct history_blocks *blocks,
                            int (*visit)(void *context, struct bytes samples, size_t n_spans),
                            void *context);
