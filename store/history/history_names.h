/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Texts and series of the history (history_block.h), each stored once, kept for as long as a block
 * may refer to them: what was not used for a whole generation, which is as long as blocks are kept,
 * is swept. Writer thread only.
 *
 * Limits: HISTORY_TEXTS_MAX new texts and HISTORY_SERIES_MAX new series a generation, texts of
 * HISTORY_TEXT_MAX bytes; what is beyond is "" (counted), so that a program that makes up names
 * costs no more. Errors: negative errno of db.h.
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
void history_names_close(struct history_names *names); /* also half-open, or all zero */
int history_names_reload(struct history_names *names);
/* 0 is the id of "" and of what does not fit the limits. */
int history_names_text(struct history_names *names, struct bytes text, int64_t *id);
int history_names_resource(struct history_names *names, struct bytes resource, int64_t *id);
int history_names_series(struct history_names *names, const struct history_series_facts *facts,
                         int64_t *id);
/* About once a second: a bounded step of the sweep, or the begin of the next one. */
int history_names_collect(struct history_names *names, uint64_t now_unix_ns);
