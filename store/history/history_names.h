/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Texts and series of the history (history_block.h), each stored once and kept as long as a block
 * may refer to it. A generation is as long as blocks are kept; a row that was unused for a whole
 * generation is swept. Writer thread only.
 *
 * Limits: max_bytes and HISTORY_NAMES_MAX rows, of which each tenant has a fair share. A tenant
 * that brings more loses its own rows, the least recently used first; blocks that refer to them
 * show "". HISTORY_TEXT_MAX bytes per name, HISTORY_RESOURCE_MAX per Resource: more is cut. What
 * finds no room in the store is replaced by "". Each case is counted. Errors: negative errno of
 * db.h.
 */
#include "base/fair_share.h"
#include "store/history/history_block.h"
#include "store/db/intern.h"

#define HISTORY_NAMES_MAX    50000 /* rows of both kinds */
#define HISTORY_TEXT_MAX     1024  /* of a name */
#define HISTORY_RESOURCE_MAX 4096

struct history_names {
    struct db *db;
    struct intern texts, series;
    uint8_t hash_key[16];
    uint64_t bytes; /* of all rows */
    uint64_t n_new; /* rows that were made */
    struct fair_share share;
    struct list own_ages[FAIR_SHARES]; /* rows by fair_share_index(), least recently used first */
    uint64_t generation_ns, generation_began_ns;
    sqlite3_stmt *load_meta, *save_meta;
};

struct history_names_settings {
    uint64_t retention_ns;
    uint64_t max_bytes;
};
int history_names_open(struct history_names *names, struct db *db,
                       const struct history_names_settings *settings);
void history_names_close(struct history_names *names); /* also if open failed, or all zero */
int history_names_reload(struct history_names *names);
/* *id = 0 for "" and for texts beyond the limits. tenant: the cgroup that brings it. */
int history_names_text(struct history_names *names, uint64_t tenant, struct bytes text,
                       int64_t *id);
int history_names_resource(struct history_names *names, uint64_t tenant, struct bytes resource,
                           int64_t *id);
int history_names_series(struct history_names *names, uint64_t tenant,
                         const struct history_series_facts *facts, int64_t *id);
/* A tenant for those that are not known by their cgroup: by the name of their service. */
uint64_t history_names_tenant(const struct history_names *names, struct bytes service);
/* About once a second: a bounded step of the sweep, or the start of the next sweep; gives back what
 * is beyond the limits since another configuration. */
int history_names_collect(struct history_names *names, uint64_t now_unix_ns);
