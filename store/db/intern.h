/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A table of rows with a 16-byte key and a rowid. The most recently used rows are cached, so a
 * known key costs no SQL. A sweep removes rows that were unused for two generations and that
 * nothing refers to. Stacks, executables and processes are stored this way; each module defines the
 * bodies of its rows. Thread: the writer. Errors: negative errno of db.h; -ENOMEM also fails the
 * transaction.
 */
#include "base/bytes.h"
#include "base/list.h"
#include "base/map.h"
#include "store/db/id_set.h"
#include <sqlite3.h>

struct db;

struct intern_entry { /* first member of the owner's entry, which begins zeroed */
    uint8_t key[16];
    int64_t id;
    int64_t generation; /* as in the row */
    struct list age;
};

struct intern_settings {
    const char *meta;   /* key of the generation in the table meta */
    const char *find;   /* SELECT id, generation ... WHERE key = ?1 */
    const char *get;    /* SELECT key, generation ... WHERE id = ?1 */
    const char *insert; /* ... VALUES (key ?1, generation ?2, body ?3) */
    const char *touch;  /* UPDATE ... SET generation = ?2 WHERE id = ?1 */
    const char *walk;   /* SELECT id, generation ... WHERE id > ?1 ORDER BY id LIMIT ?2 */
    const char *remove; /* DELETE ... WHERE id = ?1 */
    /* SELECT id, hash, generation, bytes ... the least recently used first, for intern_load(). May
     * be NULL. */
    const char *load;
    size_t entry_size;
    size_t max_entries; /* in memory */
    /* The entry leaves the memory: frees what the owner attached; may be NULL. */
    void (*forget)(struct intern_entry *entry);
    /* Called by the sweep; may be NULL. removed: the row was deleted. kept: the row is old, but
     * referred to. */
    int (*removed)(void *context, int64_t id);
    int (*kept)(void *context, int64_t id);
    void *context;
};

enum intern_use {
    INTERN_KNOWN = 0,
    INTERN_TOUCHED = 1, /* known; the first use in this generation */
    INTERN_NEW = 2,
};

struct intern {
    struct db *db;
    struct intern_settings settings;
    struct map by_key, by_id;
    struct list ages; /* least recently used first */
    int64_t generation;
    uint64_t n_new; /* rows made in this generation */
    struct id_set referred;
    bool sweeping;
    int64_t sweep_at;
    sqlite3_stmt *find, *get, *insert, *touch, *walk, *remove, *load, *load_meta, *save_meta;
};

int intern_open(struct intern *intern, struct db *db, const struct intern_settings *settings);
void intern_close(struct intern *intern); /* also if open failed; not if all zero */
int intern_reload(struct intern *intern);

/* Reads all rows into memory, after intern_open() or intern_reload(), for an owner with max_entries
 * = SIZE_MAX. bytes: as settings.load says. */
int intern_load(struct intern *intern,
                void (*loaded)(void *context, struct intern_entry *entry, uint64_t bytes),
                void *context);
/* Deletes the row. The entry is freed. */
int intern_remove(struct intern *intern, struct intern_entry *entry);

/* enum intern_use or negative errno. *entry stays valid until the next intern_... call. */
int intern_key(struct intern *intern, const uint8_t key[16], struct bytes body,
               struct intern_entry **entry);
/* As intern_key(), but does not create a row: -ENOENT. */
int intern_find(struct intern *intern, const uint8_t key[16], struct intern_entry **entry);
/* Does not count as a use. -ENOENT. */
int intern_id(struct intern *intern, int64_t id, struct intern_entry **entry);
/* Counts as a use of a known row: INTERN_KNOWN, INTERN_TOUCHED, -ENOENT. */
int intern_use(struct intern *intern, int64_t id);

/* referred: sealed; ownership passes to intern, also on failure. */
int intern_sweep_begin(struct intern *intern, struct id_set *referred);
int intern_sweep(struct intern *intern); /* a bounded step; nothing to do is fine */
