/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A query meets each series many times, so series and texts are cached. The cache is cleared
 * between two queries when half of its memory is used.
 */
#include "store/query/history_reader_state.h"
#include <errno.h>

struct named_text {
    int64_t id;
    struct bytes text;
};

void reader_series_open(struct history_reader *reader)
{
    MAP_INIT(&reader->texts, struct named_text, id);
    MAP_INIT(&reader->series, struct reader_series, id);
}

static int read_text(struct history_reader *reader, int64_t id, struct named_text **result)
{
    sqlite3_stmt *row _cleanup_reset_ = reader->get_text;
    sqlite3_bind_int64(row, 1, id);
    int outcome = db_step(reader->db, row);
    if (outcome < 0)
        return outcome;
    size_t len = outcome ? (size_t)sqlite3_column_bytes(row, 0) : 0;
    struct named_text *text = arena_alloc(&reader->names, sizeof(*text) + len);
    if (!text)
        return -ENOMEM;
    *text = (struct named_text){id, BYTES(text + 1, len)};
    if (len)
        memcpy(text + 1, sqlite3_column_blob(row, 0), len);
    *result = text;
    return 0;
}

int reader_text(struct history_reader *reader, int64_t id, struct bytes *result)
{
    *result = BYTES(NULL, 0);
    if (!id)
        return 0;
    struct named_text *text = map_get(&reader->texts, &id);
    int error = 0;
    if (!text) {
        error = read_text(reader, id, &text);
        error = error ? error : map_put(&reader->texts, text, NULL);
    }
    if (!error)
        *result = text->text;
    return error;
}

/* Rows are found by their hash from history_names.c. */
int reader_has_text(struct history_reader *reader, struct bytes text)
{
    sqlite3_stmt *key _cleanup_reset_ = reader->get_key;
    sqlite3_stmt *row _cleanup_reset_ = reader->find_text;
    int outcome = db_step(reader->db, key);
    if (outcome <= 0 || sqlite3_column_bytes(key, 0) != 16)
        return outcome;
    uint8_t hash[16];
    bytes_siphash128(text, sqlite3_column_blob(key, 0), hash);
    sqlite3_bind_blob(row, 1, hash, sizeof(hash), SQLITE_STATIC);
    return db_step(reader->db, row);
}

static int read_facts(struct history_reader *reader, struct reader_series *series)
{
    sqlite3_stmt *row _cleanup_reset_ = reader->get_series;
    sqlite3_bind_int64(row, 1, series->id);
    int outcome = db_step(reader->db, row);
    if (outcome < 0)
        return outcome;
    struct bytes body = {0};
    if (outcome)
        body = BYTES(sqlite3_column_blob(row, 0), (size_t)sqlite3_column_bytes(row, 0));
    if (!outcome || history_series_decode(body, &series->facts)) /* its samples still count */
        series->facts = (struct history_series_facts){.sample_kind = SAMPLE_CPU};
    return 0;
}

static int read_series(struct history_reader *reader, struct reader_series *series)
{
    const struct history_series_facts *facts = &series->facts;
    int error = read_facts(reader, series);
    error = error ? error : reader_text(reader, facts->service, &series->service);
    error = error ? error : reader_text(reader, facts->span_name, &series->span_name);
    error = error ? error : reader_text(reader, facts->thread, &series->thread);
    error = error ? error : reader_text(reader, facts->container, &series->container);
    return error ? error : reader_text(reader, facts->executable, &series->executable);
}

int reader_series(struct history_reader *reader, int64_t id, struct reader_series **result)
{
    struct reader_series **recent = &reader->recent[(uint64_t)id % READER_SERIES_RECENT];
    struct reader_series *series = *recent;
    int error = 0;
    if (series && series->id == id) {
        *result = series;
        return 0;
    }
    series = map_get(&reader->series, &id);
    if (!series) {
        series = arena_zalloc(&reader->names, sizeof(*series));
        if (!series)
            return -ENOMEM;
        series->id = id;
        error = read_series(reader, series);
        error = error ? error : map_put(&reader->series, series, NULL);
    }
    *result = series;
    *recent = error ? NULL : series;
    return error;
}

void reader_series_forget(struct history_reader *reader)
{
    map_close(&reader->texts);
    map_close(&reader->series);
    memset(reader->recent, 0, sizeof(reader->recent));
    arena_reset(&reader->names);
}
