/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row has the generation of its last use (intern.h), so unreferenced rows are found without
 * reading blocks. All rows are in memory, without their texts: so the least recently used row of a
 * tenant is known. After a restart the tenant of a row is not known until it is used again.
 */
#include "store/history/history_names.h"
#include "base/limits.h"
#include "base/stats.h"
#include "proto/otlp/otlp_spans.h"
#include "store/db/db.h"
#include <errno.h>
#include <sys/random.h>

#define ROW_BYTES 160                          /* of a row and its index entry, without the body */
#define TRIM_ROWS 256                          /* per step */
#define SLACK_NS  (600 * UINT64_C(1000000000)) /* blocks are removed in steps */

STAT_LOSS(texts_left_out, "spanprof_history_texts_left_out_total",
          "Names and Resources that the history shows as empty, because the store had no room.");
STAT_LOSS(series_left_out, "spanprof_history_series_left_out_total",
          "Samples and spans without service, span name, thread and process in the history, "
          "because the store had no room.");
STAT_LOSS(names_evicted, "spanprof_history_names_evicted_total",
          "Names, Resources and series that the history has forgotten, because those who brought "
          "them have brought more than their share.");
STAT_GAUGE(names_bytes, "spanprof_history_names_bytes",
           "Size of names, Resources and series in the history.");
STAT_LOSS(texts_cut, "spanprof_history_texts_cut_total",
          "Names and Resources that were too long for the history to keep whole.");

struct names_row {
    struct intern_entry entry; /* first member */
    struct history_names *names;
    struct intern *rows;
    struct list own_age;
    uint64_t tenant;
    uint64_t bytes;
};

LIMIT(names, LIMIT_SERVICE, "history: which names there are", .of = "history",
      .bytes = HISTORY_NAMES_MAX * (sizeof(struct names_row) + 32));

static struct names_row *row_of(struct intern_entry *entry)
{
    return container_of(entry, struct names_row, entry);
}

/* What counts against the share: as many rows as may be fill it, however small they are. */
static uint64_t cost_of(const struct history_names *names, uint64_t bytes)
{
    uint64_t least = names->share.limit / HISTORY_NAMES_MAX;
    return bytes > least ? bytes : least;
}

static void forget_row(struct intern_entry *entry)
{
    struct names_row *row = row_of(entry);
    struct history_names *names = row->names;
    list_remove(&row->own_age);
    fair_share_give(&names->share, row->tenant, cost_of(names, row->bytes));
    names->bytes -= row->bytes;
}

static void row_adopt(struct names_row *row, uint64_t tenant)
{
    struct history_names *names = row->names;
    row->tenant = tenant;
    list_append(&names->own_ages[fair_share_index(&names->share, tenant)], &row->own_age);
    fair_share_take(&names->share, tenant, cost_of(names, row->bytes));
}

static void row_begin(struct history_names *names, struct intern *rows, struct names_row *row,
                      uint64_t body_bytes)
{
    row->names = names;
    row->rows = rows;
    row->bytes = body_bytes + ROW_BYTES;
    names->bytes += row->bytes;
}

/* The most recently used of its tenant. One that is used before its tenant is known is adopted. */
static void row_use(struct names_row *row, uint64_t tenant)
{
    struct history_names *names = row->names;
    list_remove(&row->own_age);
    fair_share_give(&names->share, row->tenant, cost_of(names, row->bytes));
    row_adopt(row, row->tenant ? row->tenant : tenant);
}

static const struct intern_settings texts_settings = {
    .meta = "generation.history_text",
    .find = "SELECT id, generation FROM history_text WHERE hash = ?1",
    .get = "SELECT hash, generation FROM history_text WHERE id = ?1",
    .insert = "INSERT INTO history_text(hash, generation, body) VALUES (?1, ?2, ?3)",
    .touch = "UPDATE history_text SET generation = ?2 WHERE id = ?1",
    .walk = "SELECT id, generation FROM history_text WHERE id > ?1 ORDER BY id LIMIT ?2",
    .remove = "DELETE FROM history_text WHERE id = ?1",
    .load = "SELECT id, hash, generation, length(body) FROM history_text ORDER BY generation, id",
    .entry_size = sizeof(struct names_row),
    .max_entries = SIZE_MAX,
    .forget = forget_row,
};

static const struct intern_settings series_settings = {
    .meta = "generation.history_series",
    .find = "SELECT id, generation FROM history_series WHERE hash = ?1",
    .get = "SELECT hash, generation FROM history_series WHERE id = ?1",
    .insert = "INSERT INTO history_series(hash, generation, body) VALUES (?1, ?2, ?3)",
    .touch = "UPDATE history_series SET generation = ?2 WHERE id = ?1",
    .walk = "SELECT id, generation FROM history_series WHERE id > ?1 ORDER BY id LIMIT ?2",
    .remove = "DELETE FROM history_series WHERE id = ?1",
    .load = "SELECT id, hash, generation, length(body) FROM history_series ORDER BY generation, id",
    .entry_size = sizeof(struct names_row),
    .max_entries = SIZE_MAX,
    .forget = forget_row,
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

struct loading {
    struct history_names *names;
    struct intern *rows;
};

static void on_loaded(void *context, struct intern_entry *entry, uint64_t bytes)
{
    const struct loading *loading = context;
    row_begin(loading->names, loading->rows, row_of(entry), bytes);
    row_adopt(row_of(entry), 0);
}

static int load_rows(struct history_names *names)
{
    struct loading texts = {names, &names->texts}, series = {names, &names->series};
    int error = intern_load(&names->texts, on_loaded, &texts);
    if (!error)
        error = intern_load(&names->series, on_loaded, &series);
    stat_set(&names_bytes, (int64_t)names->bytes);
    return error;
}

int history_names_open(struct history_names *names, struct db *db,
                       const struct history_names_settings *settings)
{
    *names = (struct history_names){.db = db, .generation_ns = settings->retention_ns + SLACK_NS};
    for (size_t i = 0; i < FAIR_SHARES; i++)
        list_init(&names->own_ages[i]);
    int error = fair_share_init(&names->share, settings->max_bytes);
    if (!error)
        error =
            db_prepare(db, "SELECT value FROM meta WHERE name = 'history.key'", &names->load_meta);
    if (!error)
        error =
            db_prepare(db, "INSERT OR REPLACE INTO meta(name, value) VALUES ('history.key', ?1)",
                       &names->save_meta);
    if (!error)
        error = intern_open(&names->texts, db, &texts_settings);
    if (!error)
        error = intern_open(&names->series, db, &series_settings);
    if (!error)
        error = load_key(names);
    return error ? error : load_rows(names);
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
    assert(error || (!names->bytes && !names->share.used));
    if (!error)
        error = load_key(names);
    return error ? error : load_rows(names);
}

static int evict_oldest(struct history_names *names, unsigned share)
{
    struct names_row *row =
        container_of(list_first(&names->own_ages[share]), struct names_row, own_age);
    stat_add(&names_evicted, 1);
    return intern_remove(row->rows, &row->entry);
}

enum { NAMES_NO_ROOM = 1 };

/* Room for one row of the tenant, made of its own rows. */
static int make_room(struct history_names *names, uint64_t tenant, uint64_t bytes)
{
    unsigned share = fair_share_index(&names->share, tenant);
    int error = 0;
    while (!error && !fair_share_has_room(&names->share, tenant, cost_of(names, bytes))) {
        if (list_empty(&names->own_ages[share]))
            return NAMES_NO_ROOM;
        error = evict_oldest(names, share);
    }
    return error || db_take_room(names->db, bytes) ? error : NAMES_NO_ROOM;
}

struct new_row {
    struct intern *rows;
    struct bytes body;
    uint64_t tenant;
    struct metric *left_out;
};

static int put_new(struct history_names *names, const struct new_row *row, const uint8_t hash[16],
                   int64_t *id)
{
    struct intern_entry *entry;
    int outcome = make_room(names, row->tenant, row->body.len + ROW_BYTES);
    stat_add(row->left_out, outcome == NAMES_NO_ROOM);
    if (outcome)
        return outcome == NAMES_NO_ROOM ? 0 : outcome;
    outcome = intern_key(row->rows, hash, row->body, &entry);
    if (outcome < 0)
        return outcome;
    row_begin(names, row->rows, row_of(entry), row->body.len);
    row_adopt(row_of(entry), row->tenant);
    names->n_new++;
    stat_set(&names_bytes, (int64_t)names->bytes);
    *id = entry->id;
    return 0;
}

static int names_put(struct history_names *names, const struct new_row *row, int64_t *id)
{
    struct intern_entry *entry;
    uint8_t hash[16];
    *id = 0;
    bytes_siphash128(row->body, names->hash_key, hash);
    int use = intern_find(row->rows, hash, &entry);
    if (use == -ENOENT)
        return put_new(names, row, hash, id);
    if (use < 0)
        return use;
    row_use(row_of(entry), row->tenant);
    *id = entry->id;
    return 0;
}

static int put_text(struct history_names *names, uint64_t tenant, struct bytes text, int64_t *id)
{
    *id = 0;
    return text.len ? names_put(names,
                                &(struct new_row){&names->texts, text, tenant, &texts_left_out}, id)
                    : 0;
}

int history_names_text(struct history_names *names, uint64_t tenant, struct bytes text, int64_t *id)
{
    stat_add(&texts_cut, text.len > HISTORY_TEXT_MAX);
    if (text.len > HISTORY_TEXT_MAX)
        text.len = HISTORY_TEXT_MAX;
    return put_text(names, tenant, text, id);
}

int history_names_resource(struct history_names *names, uint64_t tenant, struct bytes resource,
                           int64_t *id)
{
    _cleanup_buf_ struct buf kept = BUF_INIT(0);
    if (resource.len <= HISTORY_RESOURCE_MAX)
        return put_text(names, tenant, resource, id);
    stat_add(&texts_cut, 1);
    int error = otlp_resource_keep(resource, HISTORY_RESOURCE_MAX, &kept);
    return error ? error : put_text(names, tenant, buf_bytes(&kept), id);
}

int history_names_series(struct history_names *names, uint64_t tenant,
                         const struct history_series_facts *facts, int64_t *id)
{
    struct blob_writer out _cleanup_blob_ = {0};
    history_series_encode(&out, facts);
    if (out.error)
        return out.error;
    const struct new_row row = {&names->series, buf_bytes(&out.buf), tenant, &series_left_out};
    return names_put(names, &row, id);
}

/* Never the number of a cgroup, which is small. */
uint64_t history_names_tenant(const struct history_names *names, struct bytes service)
{
    return bytes_siphash(service, names->hash_key) | UINT64_C(1) << 63;
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
    error = error ? error : intern_sweep(&names->series);
    for (int i = 0; i < TRIM_ROWS && !error && fair_share_is_exceeded(&names->share); i++)
        error = evict_oldest(names, fair_share_largest(&names->share));
    stat_set(&names_bytes, (int64_t)names->bytes);
    return error;
}
