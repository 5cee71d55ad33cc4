/* SPDX-License-Identifier: Apache-2.0 */
/* A row has the generation of its last use (intern.h), so unreferenced rows are found without
 * reading blocks. */
#include "store/history/history_names.h"
#include "base/stats.h"
#include "store/db/db.h"
#include <errno.h>
#include <sys/random.h>

#define CACHED   16384
#define SLACK_NS (600 * UINT64_C(1000000000)) /* blocks are removed in steps */

STAT_LOSS(texts_left_out, "spanprof_history_texts_left_out_total",
          "Names and Resources that the history shows as empty: there were too many of them.");
STAT_LOSS(series_left_out, "spanprof_history_series_left_out_total",
          "Samples and spans without service, span name, thread and process in the history, "
          "because there were too many different ones.");
STAT_LOSS(texts_cut, "spanprof_history_texts_cut_total",
          "Names and Resources that were too long for the history to keep whole.");

static const struct intern_settings texts_settings = {
    .meta = "generation.history_text",
    .find = "SELECT id, generation FROM history_text WHERE hash = ?1",
    .get = "SELECT hash, generation FROM history_text WHERE id = ?1",
    .insert = "INSERT INTO history_text(hash, generation, body) VALUES (?1, ?2, ?3)",
    .touch = "UPDATE history_text SET generation = ?2 WHERE id = ?1",
    .walk = "SELECT id, generation FROM history_text WHERE id > ?1 ORDER BY id LIMIT ?2",
    .remove = "DELETE FROM history_text WHERE id = ?1",
    .entry_size = sizeof(struct intern_entry),
    .max_entries = CACHED,
};

static const struct intern_settings series_settings = {
    .meta = "generation.history_series",
    .find = "SELECT id, generation FROM history_series WHERE hash = ?1",
    .get = "SELECT hash, generation FROM history_series WHERE id = ?1",
    .insert = "INSERT INTO history_series(hash, generation, body) VALUES (?1, ?2, ?3)",
    .touch = "UPDATE history_series SET generation = ?2 WHERE id = ?1",
    .walk = "SELECT id, generation FROM history_series WHERE id > ?1 ORDER BY id LIMIT ?2",
    .remove = "DELETE FROM history_series WHERE id = ?1",
    .entry_size = sizeof(struct intern_entry),
    .max_entries = CACHED,
};

static int load_key(struct history_names *names)
{
    sqlite3_stmt *row _cleanup_reset_ = names->load_meta;
    int outcome = db_step(names->db, row);
    if (outcome < 0)
        return outcome;
    if (outcome == 1 && sqlite3_column_bytes(row, 0) == 16) {
        memcpy(names->hash_key, sqlite3_column_blob(row, 0), 16);
        return 0;
    }
    sqlite3_reset(row);
    if (getrandom(names->hash_key, 16, 0) != 16)
        return -errno;
    sqlite3_bind_blob(names->save_meta, 1, names->hash_key, 16, SQLITE_STATIC);
    return db_run(names->db, names->save_meta);
}

int history_names_open(struct history_names *names, struct db *db, uint64_t retention_ns)
{
    *names = (struct history_names){.db = db, .generation_ns = retention_ns + SLACK_NS};
    int error =
        db_prepare(db, "SELECT value FROM meta WHERE name = 'history.key'", &names->load_meta);
    if (!error)
        error =
            db_prepare(db, "INSERT OR REPLACE INTO meta(name, value) VALUES ('history.key', ?1)",
                       &names->save_meta);
    if (!error)
        error = intern_open(&names->texts, db, &texts_settings);
    if (!error)
        error = intern_open(&names->series, db, &series_settings);
    return error ? error : load_key(names);
}

void history_names_close(struct history_names *names)
{
    if (!names->db)
        return;
    if (names->texts.db)
        intern_close(&names->texts);
    if (names->series.db)
        intern_close(&names->series);
    db_unprepare(names->db, &names->load_meta);
    db_unprepare(names->db, &names->save_meta);
}

int history_names_reload(struct history_names *names)
{
    int error = intern_reload(&names->texts);
    if (!error)
        error = intern_reload(&names->series);
    return error ? error : load_key(names);
}

static int history_names_put(struct history_names *names, struct intern *rows, struct bytes body,
                             uint64_t max_new, struct metric *left_out, int64_t *id)
{
    struct intern_entry *entry;
    uint8_t hash[16];
    bytes_siphash128(body, names->hash_key, hash);
    int use = rows->n_new < max_new ? intern_key(rows, hash, body, &entry)
                                    : intern_find(rows, hash, &entry);
    *id = 0;
    if (use == -ENOENT)
        stat_add(left_out, 1);
    else if (use >= 0)
        *id = entry->id;
    return use == -ENOENT || use >= 0 ? 0 : use;
}

int history_names_text(struct history_names *names, struct bytes text, int64_t *id)
{
    *id = 0;
    stat_add(&texts_cut, text.len > HISTORY_TEXT_MAX);
    if (text.len > HISTORY_TEXT_MAX)
        text.len = HISTORY_TEXT_MAX;
    return text.len ? history_names_put(names, &names->texts, text, HISTORY_TEXTS_MAX,
                                        &texts_left_out, id)
                    : 0;
}

/* A Resource that is too large is left out, not cut. */
int history_names_resource(struct history_names *names, struct bytes resource, int64_t *id)
{
    bool too_long = resource.len > HISTORY_RESOURCE_MAX;
    *id = 0;
    stat_add(&texts_cut, too_long);
    return resource.len && !too_long ? history_names_put(names, &names->texts, resource,
                                                         HISTORY_TEXTS_MAX, &texts_left_out, id)
                                     : 0;
}

int history_names_series(struct history_names *names, const struct history_series_facts *facts,
                         int64_t *id)
{
    struct blob_writer out _cleanup_blob_ = {0};
    history_series_encode(&out, facts);
    return out.error ? out.error
                     : history_names_put(names, &names->series, buf_bytes(&out.buf),
                                         HISTORY_SERIES_MAX, &series_left_out, id);
}

/* If the clock is set back, a generation does not become shorter. */
static bool is_due(struct history_names *names, uint64_t now_unix_ns)
{
    if (!names->generation_began_ns || now_unix_ns < names->generation_began_ns)
        names->generation_began_ns = now_unix_ns;
    return now_unix_ns - names->generation_began_ns >= names->generation_ns;
}

int history_names_collect(struct history_names *names, uint64_t now_unix_ns)
{
    struct id_set no_text = {0},
                  no_series = {0}; /* empty: the generation of a row shows its uses */
    bool sweeping = names->texts.sweeping || names->series.sweeping;
    int error = 0;
    if (!sweeping && is_due(names, now_unix_ns)) {
        names->generation_began_ns = now_unix_ns;
        error = intern_sweep_begin(&names->texts, &no_text);
        error = error ? error : intern_sweep_begin(&names->series, &no_series);
    }
    error = error ? error : intern_sweep(&names->texts);
    return error ? error : intern_sweep(&names->series);
}
