/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Texts and series of the history (history_block.h), each stored once and kept as long as a block
 * may refer to it. A generation is as long as blocks are kept; a row that was unused for a whole
 * generation is swept. Writer thread only.
 *
 * Limits: HISTORY_TEXTS_MAX new texts and HISTORY_SERIES_MAX new series per generation,
 * HISTORY_TEXT_MAX bytes per name, HISTORY_RESOURCE_MAX per Resource. A text beyond a limit is
 * replaced by "" and counted, so a program with unbounded names costs no more. Errors: negative
 * errno of db.h.
 */
#include "store/history/history_block.h"
#include "store/db/intern.h"

#define HISTORY_TEXTS_MAX    50000
#define HISTORY_SERIES_MAX   50000
#define HISTORY_TEXT_MAX     1024 /* of a name */
#define HISTORY_RESOURCE_MAX (128 << 10)

struct history_names {
    struct db *db;
    struct intern texts, series;
    uint8_t hash_key[16];
    uint64_t generation_ns, generation_began_ns;
    sqlite3_stmt *load_meta, *save_meta;
};

int history_names_open(struct history_names *names, struct db *db, uint64_t retention_ns);
void history_names_close(struct history_names *names); /* also if open failed, or all zero */
int history_names_reload(struct history_names *names);
/* *id = 0 for "" and for texts beyond the limits. */
int history_names_text(struct history_names *names, struct bytes text, int64_t *id);
int history_names_resource(struct history_names *names, struct bytes resource, int64_t *id);
int history_names_series(struct history_names *names, const struct history_series_facts *facts,
                         int64_t *id);
/* About once a second: a bounded step of the sweep, or the start of the next sweep. */
int history_names_collect(struct history_names *names, uint64_t now_unix_ns);
