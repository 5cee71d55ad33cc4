/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row has the generation of its last use, written at most once per generation, so a use costs
 * almost nothing. Rows of this generation and the previous one always stay: they include rows that
 * were interned but are not referred to yet.
 */
#include "store/db/intern.h"
#include "store/db/blob.h"
#include "store/db/db.h"
#include <errno.h>
#include <stdlib.h>

#define SWEEP_ROWS  256
#define SWEEP_STEPS 8 /* per call: about 2000 rows, a few milliseconds */

static int load_generation(struct intern *intern)
{
    sqlite3_stmt *load _cleanup_reset_ = intern->load_meta;
    intern->generation = 1;
    sqlite3_bind_text(load, 1, intern->settings.meta, -1, SQLITE_STATIC);
    int outcome = db_step(intern->db, load);
    if (outcome <= 0)
        return outcome;
    intern->generation = sqlite3_column_int64(load, 0);
    return intern->generation < 1 || intern->generation > INT64_MAX / 2 ? -EUCLEAN : 0;
}

static int save_generation(struct intern *intern)
{
    sqlite3_bind_text(intern->save_meta, 1, intern->settings.meta, -1, SQLITE_STATIC);
    sqlite3_bind_int64(intern->save_meta, 2, intern->generation);
    return db_run(intern->db, intern->save_meta);
}

static void intern_forget(struct intern *intern, struct intern_entry *entry)
{
    list_remove(&entry->age);
    map_remove(&intern->by_key, entry->key);
    map_remove(&intern->by_id, &entry->id);
    if (intern->settings.forget)
        intern->settings.forget(entry);
    free(entry);
}

static void forget_all(struct intern *intern)
{
    struct list *link;
    while ((link = list_first(&intern->ages)))
        intern_forget(intern, container_of(link, struct intern_entry, age));
}

static int prepare_all(struct intern *intern)
{
    const struct intern_settings *settings = &intern->settings;
    const struct {
        const char *sql;
        sqlite3_stmt **statement;
    } all[] = {
        {settings->find, &intern->find},
        {settings->get, &intern->get},
        {settings->insert, &intern->insert},
        {settings->touch, &intern->touch},
        {settings->walk, &intern->walk},
        {settings->remove, &intern->remove},
        {"SELECT value FROM meta WHERE name = ?1", &intern->load_meta},
        {"INSERT OR REPLACE INTO meta(name, value) VALUES (?1, ?2)", &intern->save_meta},
    };
    int error = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && !error; i++)
        error = db_prepare(intern->db, all[i].sql, all[i].statement);
    if (!error && settings->load)
        error = db_prepare(intern->db, settings->load, &intern->load);
    return error;
}

int intern_open(struct intern *intern, struct db *db, const struct intern_settings *settings)
{
    *intern = (struct intern){.db = db, .settings = *settings};
    list_init(&intern->ages);
    MAP_INIT(&intern->by_key, struct intern_entry, key);
    MAP_INIT(&intern->by_id, struct intern_entry, id);
    int error = prepare_all(intern);
    return error ? error : load_generation(intern);
}

void intern_close(struct intern *intern)
{
    sqlite3_stmt **all[] = {&intern->find,  &intern->get,       &intern->insert,
                            &intern->touch, &intern->walk,      &intern->remove,
                            &intern->load,  &intern->load_meta, &intern->save_meta};
    forget_all(intern);
    map_close(&intern->by_key);
    map_close(&intern->by_id);
    id_set_close(&intern->referred);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        db_unprepare(intern->db, all[i]);
}

int intern_reload(struct intern *intern)
{
    forget_all(intern);
    id_set_close(&intern->referred); /* the begin of a sweep may have been rolled back */
    intern->sweeping = false;
    intern->n_new = 0;
    return load_generation(intern);
}

static int intern_remember(struct intern *intern, const uint8_t key[16], int64_t id,
                           int64_t generation, struct intern_entry **result)
{
    struct intern_entry *entry = calloc(1, intern->settings.entry_size);
    if (!entry)
        goto no_memory;
    memcpy(entry->key, key, sizeof(entry->key));
    entry->id = id;
    entry->generation = generation;
    if (map_put(&intern->by_key, entry, NULL))
        goto no_memory;
    if (map_put(&intern->by_id, entry, NULL)) {
        map_remove(&intern->by_key, key);
        goto no_memory;
    }
    list_append(&intern->ages, &entry->age);
    if (intern->by_id.count > intern->settings.max_entries)
        intern_forget(intern, container_of(list_first(&intern->ages), struct intern_entry, age));
    *result = entry;
    return 0;
no_memory:
    free(entry);
    db_fail(intern->db, -ENOMEM);
    return -ENOMEM;
}

int intern_load(struct intern *intern,
                void (*loaded)(void *context, struct intern_entry *entry, uint64_t bytes),
                void *context)
{
    sqlite3_stmt *row _cleanup_reset_ = intern->load;
    struct intern_entry *entry;
    int outcome, error = 0;
    while (!error && (outcome = db_step(intern->db, row)) == 1) {
        int64_t id = sqlite3_column_int64(row, 0);
        const void *key = sqlite3_column_blob(row, 1);
        if (sqlite3_column_bytes(row, 1) != 16 || map_get(&intern->by_id, &id) ||
            map_get(&intern->by_key, key))
            continue; /* damaged: the constraints say otherwise */
        error = intern_remember(intern, key, id, sqlite3_column_int64(row, 2), &entry);
        if (!error)
            loaded(context, entry, (uint64_t)sqlite3_column_int64(row, 3));
    }
    return error ? error : outcome;
}

int intern_remove(struct intern *intern, struct intern_entry *entry)
{
    int64_t id = entry->id;
    intern_forget(intern, entry);
    sqlite3_bind_int64(intern->remove, 1, id);
    return db_run(intern->db, intern->remove);
}

static void intern_refresh(struct intern *intern, struct intern_entry *entry)
{
    list_remove(&entry->age);
    list_append(&intern->ages, &entry->age);
}

static int intern_touch(struct intern *intern, struct intern_entry *entry)
{
    if (entry->generation == intern->generation)
        return INTERN_KNOWN;
    sqlite3_bind_int64(intern->touch, 1, entry->id);
    sqlite3_bind_int64(intern->touch, 2, intern->generation);
    int error = db_run(intern->db, intern->touch);
    if (error)
        return error;
    entry->generation = intern->generation;
    return INTERN_TOUCHED;
}

static int intern_do_find(struct intern *intern, const uint8_t key[16], struct intern_entry **entry)
{
    sqlite3_stmt *row _cleanup_reset_ = intern->find;
    sqlite3_bind_blob(row, 1, key, 16, SQLITE_STATIC);
    int outcome = db_step(intern->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    return intern_remember(intern, key, sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1),
                           entry);
}

static int intern_insert(struct intern *intern, const uint8_t key[16], struct bytes body,
                         struct intern_entry **entry)
{
    sqlite3_bind_blob(intern->insert, 1, key, 16, SQLITE_STATIC);
    sqlite3_bind_int64(intern->insert, 2, intern->generation);
    sqlite3_bind_blob64(intern->insert, 3, body.data ? (const void *)body.data : "", body.len,
                        SQLITE_STATIC);
    int error = db_run(intern->db, intern->insert);
    if (error)
        return error;
    intern->n_new++;
    error = intern_remember(intern, key, sqlite3_last_insert_rowid(db_handle(intern->db)),
                            intern->generation, entry);
    return error ? error : INTERN_NEW;
}

int intern_find(struct intern *intern, const uint8_t key[16], struct intern_entry **entry)
{
    *entry = map_get(&intern->by_key, key);
    if (*entry) {
        intern_refresh(intern, *entry);
        return intern_touch(intern, *entry);
    }
    int error = intern->load ? -ENOENT : intern_do_find(intern, key, entry);
    return error ? error : intern_touch(intern, *entry);
}

int intern_key(struct intern *intern, const uint8_t key[16], struct bytes body,
               struct intern_entry **entry)
{
    int use = intern_find(intern, key, entry);
    return use == -ENOENT ? intern_insert(intern, key, body, entry) : use;
}

int intern_id(struct intern *intern, int64_t id, struct intern_entry **entry)
{
    *entry = map_get(&intern->by_id, &id);
    if (*entry) {
        intern_refresh(intern, *entry);
        return 0;
    }
    if (intern->load) /* all rows are in memory */
        return -ENOENT;
    sqlite3_stmt *row _cleanup_reset_ = intern->get;
    sqlite3_bind_int64(row, 1, id);
    int outcome = db_step(intern->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    if (sqlite3_column_bytes(row, 0) != 16)
        return -ENOENT; /* a damaged row: CHECK says 16 */
    return intern_remember(intern, sqlite3_column_blob(row, 0), id, sqlite3_column_int64(row, 1),
                           entry);
}

int intern_use(struct intern *intern, int64_t id)
{
    struct intern_entry *entry;
    int error = intern_id(intern, id, &entry);
    return error ? error : intern_touch(intern, entry);
}

int intern_sweep_begin(struct intern *intern, struct id_set *referred)
{
    id_set_close(&intern->referred);
    intern->referred = *referred;
    *referred = (struct id_set){0};
    intern->sweeping = true;
    intern->sweep_at = 0;
    intern->n_new = 0;
    intern->generation++;
    return save_generation(intern);
}

static int sweep_row(struct intern *intern, int64_t id)
{
    const struct intern_settings *settings = &intern->settings;
    if (id_set_has(&intern->referred, id)) {
        int outcome = intern_use(intern, id);
        if (outcome != -ENOENT) /* damaged: remove it, else no sweep would end */
            return outcome < 0 || !settings->kept ? outcome : settings->kept(settings->context, id);
    }
    struct intern_entry *entry = map_get(&intern->by_id, &id);
    if (entry)
        intern_forget(intern, entry);
    sqlite3_bind_int64(intern->remove, 1, id);
    int error = db_run(intern->db, intern->remove);
    return error || !settings->removed ? error : settings->removed(settings->context, id);
}

static int sweep_some(struct intern *intern)
{
    int64_t old[SWEEP_ROWS]; /* removed after the walk: deleting disturbs an open cursor */
    size_t n_old = 0;
    unsigned n = 0;
    int outcome = 0;
    sqlite3_bind_int64(intern->walk, 1, intern->sweep_at);
    sqlite3_bind_int64(intern->walk, 2, SWEEP_ROWS);
    for (; n < SWEEP_ROWS && (outcome = db_step(intern->db, intern->walk)) == 1; n++) {
        intern->sweep_at = sqlite3_column_int64(intern->walk, 0);
        if (sqlite3_column_int64(intern->walk, 1) < intern->generation - 1)
            old[n_old++] = intern->sweep_at;
    }
    sqlite3_reset(intern->walk);
    for (size_t i = 0; i < n_old && outcome >= 0; i++)
        outcome = sweep_row(intern, old[i]);
    if (outcome >= 0 && n < SWEEP_ROWS) {
        intern->sweeping = false;
        id_set_close(&intern->referred);
    }
    return outcome < 0 ? outcome : 0;
}

int intern_sweep(struct intern *intern)
{
    int error = 0;
    for (int i = 0; i < SWEEP_STEPS && intern->sweeping && !error; i++)
        error = sweep_some(intern);
    return error;
}
