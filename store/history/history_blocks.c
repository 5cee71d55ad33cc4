/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes data block by block if it is too old, exceeds max_bytes, or uses room that other modules
 * need. A minute is removed after its last block, so blocks and minutes reach equally far back.
 */
#include "store/history/history_blocks.h"
#include "base/stats.h"
#include "store/db/db.h"
#include "store/history/history_minute.h"
#include <errno.h>
#include <stdlib.h>

#define ROW_BYTES      256                  /* of a row without its bodies */
#define IDS_MAX        (INT64_MAX / 16)     /* a larger id is damage */
#define EXPIRE_ROWS    8                    /* a step */
#define EXPIRE_BYTES   (UINT64_C(8) << 20)  /* per step; a single row may exceed it */
#define OTHERS_BYTES   (UINT64_C(16) << 20) /* left to outbox and samples: this, or */
#define OTHERS_PART    4                    /* 1 / OTHERS_PART of the history's own limit */
#define CLOCK_AHEAD_NS (60 * UINT64_C(1000000000))

STAT_GAUGE(block_count, "spanprof_history_blocks",
           "Blocks of the history: profile windows that are kept for the pages.");
STAT_GAUGE(size, "spanprof_history_bytes",
           "What blocks and minutes of the history take in the store, in bytes.");
STAT_GAUGE(reach, "spanprof_history_oldest_timestamp_seconds",
           "When the oldest block of the history was written, as Unix time; 0 = there is none.");
enum expiry { EXPIRY_NONE, EXPIRY_OLD, EXPIRY_LARGE, EXPIRY_SHORT, EXPIRY_DAMAGED, EXPIRIES };

static const char *const expiry_names[] = {[EXPIRY_OLD] = "retention",
                                           [EXPIRY_LARGE] = "max_size",
                                           [EXPIRY_SHORT] = "store_short",
                                           [EXPIRY_DAMAGED] = "damaged"};
STAT_COUNTERS(expired, "spanprof_history_blocks_expired_total",
              "Blocks of the history that were removed, by reason.",
              STAT_LABEL("reason", expiry_names, EXPIRIES), .absent = STAT_BIT(EXPIRY_NONE));

/* Rows in memory */

static struct history_row *rows_first(const struct history_rows *rows)
{
    return rows->n ? &rows->rows[rows->first] : NULL;
}

static int rows_add(struct history_rows *rows, const struct history_row *row)
{
    if (rows->first + rows->n == rows->cap) {
        size_t cap = rows->n * 2 + 64;
        struct history_row *larger = malloc(cap * sizeof(*larger));
        if (!larger)
            return -ENOMEM;
        if (rows->n)
            memcpy(larger, rows->rows + rows->first, rows->n * sizeof(*larger));
        free(rows->rows);
        *rows = (struct history_rows){larger, 0, rows->n, cap, rows->bytes};
    }
    rows->rows[rows->first + rows->n++] = *row;
    rows->bytes += row->bytes;
    return 0;
}

static void rows_drop_first(struct history_rows *rows)
{
    rows->bytes -= rows->rows[rows->first].bytes;
    rows->first++;
    rows->n--;
}

static void rows_clear(struct history_rows *rows)
{
    free(rows->rows);
    *rows = (struct history_rows){0};
}

static void history_blocks_show(const struct history_blocks *blocks)
{
    const struct history_row *first = rows_first(&blocks->blocks);
    stat_set(&block_count, (int64_t)blocks->blocks.n);
    stat_set(&size, (int64_t)(blocks->blocks.bytes + blocks->minutes.bytes));
    stat_set(&reach, first ? (int64_t)(first->written_unix_ns / 1000000000) : 0);
}

/* Opening */

static int prepare_all(struct history_blocks *blocks)
{
    const struct {
        const char *sql;
        sqlite3_stmt **statement;
    } all[] = {
        {"INSERT INTO history_block(written_unix_ns, samples_from_unix_ns, samples_to_unix_ns,"
         " spans_from_unix_ns, spans_to_unix_ns, samples, spans, max_duration_ns, bytes)"
         " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
         &blocks->put_block},
        {"INSERT OR REPLACE INTO history_part(id, body) VALUES (?1, ?2)", &blocks->put_part},
        {"INSERT INTO history_minute(minute_unix_ns, through, written_unix_ns, samples, value_ns,"
         " period_ns, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
         &blocks->put_minute},
        {"INSERT OR REPLACE INTO history_minute_entries(id, body) VALUES (?1, ?2)",
         &blocks->put_entries},
        {"INSERT OR REPLACE INTO history_minute_stacks(id, body) VALUES (?1, ?2)",
         &blocks->put_stacks},
        {"DELETE FROM history_block WHERE seq = ?1", &blocks->remove_block},
        {"DELETE FROM history_part WHERE id >= ?1 AND id < ?2", &blocks->remove_parts},
        {"DELETE FROM history_minute WHERE id = ?1", &blocks->remove_minute},
        {"DELETE FROM history_minute_entries WHERE id = ?1", &blocks->remove_entries},
        {"DELETE FROM history_minute_stacks WHERE id = ?1", &blocks->remove_stacks},
        {"SELECT seq, written_unix_ns, bytes FROM history_block ORDER BY seq",
         &blocks->load_blocks},
        {"SELECT id, written_unix_ns, bytes FROM history_minute ORDER BY id",
         &blocks->load_minutes},
        {"SELECT body FROM history_minute_stacks WHERE id = ?1", &blocks->get_stacks},
        {"SELECT body, (SELECT spans FROM history_block WHERE seq = ?2),"
         " ifnull((SELECT max(through) FROM history_minute), 0)"
         " FROM history_part WHERE id = ?1",
         &blocks->get_part},
    };
    int error = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && !error; i++)
        error = db_prepare(blocks->db, all[i].sql, all[i].statement);
    return error;
}

int history_blocks_open(struct history_blocks *blocks, struct db *db, uint64_t retention_ns,
                        uint64_t max_bytes)
{
    *blocks =
        (struct history_blocks){.db = db, .retention_ns = retention_ns, .max_bytes = max_bytes};
    int error = prepare_all(blocks);
    return error ? error : history_blocks_reload(blocks);
}

void history_blocks_close(struct history_blocks *blocks)
{
    sqlite3_stmt **all[] = {
        &blocks->put_block,     &blocks->put_part,      &blocks->put_minute,
        &blocks->put_entries,   &blocks->put_stacks,    &blocks->remove_block,
        &blocks->remove_parts,  &blocks->remove_minute, &blocks->remove_entries,
        &blocks->remove_stacks, &blocks->load_blocks,   &blocks->load_minutes,
        &blocks->get_stacks,    &blocks->get_part,
    };
    for (size_t i = 0; blocks->db && i < sizeof(all) / sizeof(*all); i++)
        db_unprepare(blocks->db, all[i]);
    rows_clear(&blocks->blocks);
    rows_clear(&blocks->minutes);
}

static int history_blocks_load(struct history_blocks *blocks, sqlite3_stmt *load,
                               struct history_rows *rows)
{
    sqlite3_stmt *row _cleanup_reset_ = load;
    int outcome;
    rows_clear(rows);
    while ((outcome = db_step(blocks->db, row)) == 1) {
        struct history_row loaded = {sqlite3_column_int64(row, 0),
                                     (uint64_t)sqlite3_column_int64(row, 1),
                                     (uint64_t)sqlite3_column_int64(row, 2)};
        if (loaded.id < 0 || loaded.id > IDS_MAX)
            return -EUCLEAN;
        if (loaded.bytes > INT32_MAX) /* damage; the value is only a weight */
            loaded.bytes = INT32_MAX;
        int error = rows_add(rows, &loaded);
        if (error)
            return error;
    }
    return outcome;
}

int history_blocks_reload(struct history_blocks *blocks)
{
    int error = history_blocks_load(blocks, blocks->load_blocks, &blocks->blocks);
    if (!error)
        error = history_blocks_load(blocks, blocks->load_minutes, &blocks->minutes);
    history_blocks_show(blocks);
    return error;
}

/* Removing */

static int remove_by_id(struct history_blocks *blocks, sqlite3_stmt *statement, int64_t id)
{
    sqlite3_bind_int64(statement, 1, id);
    return db_run(blocks->db, statement);
}

static int remove_parts(struct history_blocks *blocks, int64_t seq)
{
    sqlite3_bind_int64(blocks->remove_parts, 1, history_part_id(seq, 0));
    sqlite3_bind_int64(blocks->remove_parts, 2, history_part_id(seq + 1, 0));
    return db_run(blocks->db, blocks->remove_parts);
}

static int drop_block(struct history_blocks *blocks, enum expiry reason)
{
    int64_t seq = rows_first(&blocks->blocks)->id;
    int error = remove_by_id(blocks, blocks->remove_block, seq);
    if (!error)
        error = remove_parts(blocks, seq);
    rows_drop_first(&blocks->blocks);
    stat_add_of(&expired, reason, 1);
    return error;
}

static int drop_minute(struct history_blocks *blocks)
{
    int64_t id = rows_first(&blocks->minutes)->id;
    int error = remove_by_id(blocks, blocks->remove_minute, id);
    if (!error)
        error = remove_by_id(blocks, blocks->remove_entries, id);
    if (!error)
        error = remove_by_id(blocks, blocks->remove_stacks, id);
    rows_drop_first(&blocks->minutes);
    return error;
}

/* A time in the future means that the clock was set back. */
static bool is_old(const struct history_blocks *blocks, const struct history_row *row,
                   uint64_t now_unix_ns)
{
    if (row->written_unix_ns > now_unix_ns)
        return row->written_unix_ns - now_unix_ns > CLOCK_AHEAD_NS;
    return now_unix_ns - row->written_unix_ns >= blocks->retention_ns;
}

void history_blocks_limit(struct history_blocks *blocks, uint64_t max_bytes)
{
    blocks->max_bytes = max_bytes;
}

static uint64_t room_for_others(const struct history_blocks *blocks)
{
    uint64_t part = blocks->max_bytes / OTHERS_PART;
    return part < OTHERS_BYTES ? part : OTHERS_BYTES;
}

uint64_t history_blocks_room_to_leave(const struct history_blocks *blocks)
{
    uint64_t bytes = blocks->blocks.bytes + blocks->minutes.bytes;
    return room_for_others(blocks) + (blocks->max_bytes > bytes ? blocks->max_bytes - bytes : 0);
}

/* If the disk is full, deleted rows become free pages of the file, and room only once the file is
 * truncated. So rows are deleted only until the free pages would give enough room. */
static bool is_short(const struct history_blocks *blocks)
{
    uint64_t others = room_for_others(blocks);
    bool disk_waits =
        !db_disk_has_room(blocks->db, others) && db_unused_bytes(blocks->db) >= others;
    return db_room_bytes(blocks->db) < others && !disk_waits;
}

/* Why the oldest block must be removed. */
static enum expiry block_expiry(const struct history_blocks *blocks, uint64_t now_unix_ns)
{
    const struct history_row *first = rows_first(&blocks->blocks);
    if (!first)
        return EXPIRY_NONE;
    if (is_old(blocks, first, now_unix_ns))
        return EXPIRY_OLD;
    if (blocks->blocks.bytes + blocks->minutes.bytes > blocks->max_bytes)
        return EXPIRY_LARGE;
    return is_short(blocks) ? EXPIRY_SHORT : EXPIRY_NONE;
}

static bool minute_goes(const struct history_blocks *blocks, uint64_t now_unix_ns)
{
    const struct history_row *minute = rows_first(&blocks->minutes);
    const struct history_row *block = rows_first(&blocks->blocks);
    if (!minute)
        return false;
    return is_old(blocks, minute, now_unix_ns) ||
           (block && minute->written_unix_ns < block->written_unix_ns);
}

int history_blocks_expire(struct history_blocks *blocks, uint64_t now_unix_ns)
{
    uint64_t before = blocks->blocks.bytes + blocks->minutes.bytes;
    enum expiry reason;
    int error = 0;
    for (int i = 0; i < EXPIRE_ROWS && !error; i++) {
        if (before - blocks->blocks.bytes - blocks->minutes.bytes >= EXPIRE_BYTES)
            break;
        if (minute_goes(blocks, now_unix_ns))
            error = drop_minute(blocks);
        else if ((reason = block_expiry(blocks, now_unix_ns)))
            error = drop_block(blocks, reason);
        else
            break;
        if (!error)
            error = db_look_for_room(blocks->db);
    }
    history_blocks_show(blocks);
    return error;
}

/* Putting */

static int take_room(struct history_blocks *blocks, uint64_t bytes)
{
    uint64_t freed = 0;
    if (db_take_room(blocks->db, bytes))
        return 0;
    while (blocks->blocks.n && freed < bytes) {
        freed += rows_first(&blocks->blocks)->bytes;
        int error = drop_block(blocks, EXPIRY_SHORT);
        if (error)
            return error;
    }
    int error = db_look_for_room(blocks->db);
    if (error)
        return error;
    return db_take_room(blocks->db, bytes) ? 0 : HISTORY_NO_ROOM;
}

static int put_body(struct history_blocks *blocks, sqlite3_stmt *statement, int64_t id,
                    struct bytes body)
{
    sqlite3_bind_int64(statement, 1, id);
    sqlite3_bind_blob64(statement, 2, body.data ? (const void *)body.data : "", body.len,
                        SQLITE_STATIC);
    int error = db_run(blocks->db, statement);
    sqlite3_clear_bindings(statement);
    return error;
}

static int put_row(struct history_blocks *blocks, sqlite3_stmt *statement, const uint64_t *values,
                   size_t n, int64_t *id)
{
    for (size_t i = 0; i < n; i++)
        sqlite3_bind_int64(statement, (int)i + 1,
                           values[i] > INT64_MAX ? INT64_MAX : (int64_t)values[i]);
    int error = db_run(blocks->db, statement);
    *id = sqlite3_last_insert_rowid(db_handle(blocks->db));
    return error || (*id > 0 && *id <= IDS_MAX) ? error : -EUCLEAN;
}

int history_blocks_put(struct history_blocks *blocks, const struct history_block_row *row,
                       const struct bytes parts[HISTORY_PARTS])
{
    uint64_t bytes = ROW_BYTES;
    int64_t seq;
    for (size_t i = 0; i < HISTORY_PARTS; i++)
        bytes += parts[i].len;
    int error = take_room(blocks, bytes);
    if (error)
        return error;
    const uint64_t values[] = {row->written_unix_ns,
                               row->samples_from_unix_ns,
                               row->samples_to_unix_ns,
                               row->spans_from_unix_ns,
                               row->spans_to_unix_ns,
                               row->samples,
                               row->spans,
                               row->max_duration_ns,
                               bytes};
    error = put_row(blocks, blocks->put_block, values, sizeof(values) / sizeof(*values), &seq);
    for (unsigned i = 0; i < HISTORY_PARTS && !error; i++)
        error = put_body(blocks, blocks->put_part, history_part_id(seq, i), parts[i]);
    if (!error)
        error = rows_add(&blocks->blocks, &(struct history_row){seq, row->written_unix_ns, bytes});
    history_blocks_show(blocks);
    return error;
}

int history_blocks_put_minute(struct history_blocks *blocks, const struct history_minute_row *row,
                              struct bytes entries, struct bytes stacks)
{
    const struct history_rows *rows = &blocks->blocks;
    uint64_t bytes = ROW_BYTES + entries.len + stacks.len;
    uint64_t through = rows->n ? (uint64_t)rows->rows[rows->first + rows->n - 1].id : 0;
    int64_t id;
    const uint64_t values[] = {
        row->minute_unix_ns, through, row->written_unix_ns, row->samples, row->value_ns,
        row->period_ns,      bytes};
    int error = put_row(blocks, blocks->put_minute, values, sizeof(values) / sizeof(*values), &id);
    if (!error)
        error = put_body(blocks, blocks->put_entries, id, entries);
    if (!error)
        error = put_body(blocks, blocks->put_stacks, id, stacks);
    if (!error)
        error = rows_add(&blocks->minutes, &(struct history_row){id, row->written_unix_ns, bytes});
    return error;
}

uint64_t history_blocks_latest_unix_ns(const struct history_blocks *blocks)
{
    const struct history_rows *rows = &blocks->blocks;
    return rows->n ? rows->rows[rows->first + rows->n - 1].written_unix_ns : 0;
}

/* Reading what was put */

static int add_stacks(struct id_set *stacks, struct bytes body)
{
    struct blob_reader in = {.left = body};
    int64_t stack = 0;
    int error = 0;
    while (!error && history_stacks_next(&in, &stack) == 1) /* stops at damage */
        error = id_set_add(stacks, stack);
    return error;
}

int history_blocks_stacks(struct history_blocks *blocks, struct id_set *stacks)
{
    const struct history_rows *rows = &blocks->minutes;
    int error = 0;
    for (size_t i = 0; i < rows->n && !error; i++) {
        sqlite3_stmt *row _cleanup_reset_ = blocks->get_stacks;
        sqlite3_bind_int64(row, 1, rows->rows[rows->first + i].id);
        error = db_step(blocks->db, row);
        if (error == 1)
            error = add_stacks(
                stacks, BYTES(sqlite3_column_blob(row, 0), (size_t)sqlite3_column_bytes(row, 0)));
    }
    return error;
}

/* -ENOENT: the block is in a minute, or has no samples. */
static int visit_block(struct history_blocks *blocks, int64_t seq,
                       int (*visit)(void *context, struct bytes samples, size_t n_spans),
                       void *context)
{
    sqlite3_stmt *row _cleanup_reset_ = blocks->get_part;
    sqlite3_bind_int64(row, 1, history_part_id(seq, HISTORY_PART_SAMPLES));
    sqlite3_bind_int64(row, 2, seq);
    int outcome = db_step(blocks->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -EUCLEAN;
    if (seq <= sqlite3_column_int64(row, 2))
        return -ENOENT;
    return visit(context, BYTES(sqlite3_column_blob(row, 0), (size_t)sqlite3_column_bytes(row, 0)),
                 (size_t)sqlite3_column_int64(row, 1));
}

static int drop_damaged(struct history_blocks *blocks, size_t i)
{
    struct history_rows *rows = &blocks->blocks;
    struct history_row *row = &rows->rows[rows->first + i];
    int64_t seq = row->id;
    rows->bytes -= row->bytes;
    memmove(row, row + 1, (rows->n - i - 1) * sizeof(*row));
    rows->n--;
    stat_add_of(&expired, EXPIRY_DAMAGED, 1);
    int error = remove_by_id(blocks, blocks->remove_block, seq);
    return error ? error : remove_parts(blocks, seq);
}

int history_blocks_unsummed(struct history_blocks *blocks,
                            int (*visit)(void *context, struct bytes samples, size_t n_spans),
                            void *context)
{
    struct history_rows *rows = &blocks->blocks;
    int error = 0;
    for (size_t i = rows->n; i-- > 0 && !error;) {
        error = visit_block(blocks, rows->rows[rows->first + i].id, visit, context);
        if (error == -EUCLEAN)
            error = drop_damaged(blocks, i);
    }
    return error == -ENOENT ? 0 : error;
}
