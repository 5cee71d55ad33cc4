/* SPDX-License-Identifier: Apache-2.0 */
#include "store/query/history_reader.h"
#include "base/limits.h"
#include "store/query/history_reader_state.h"
#include "base/stats.h"
#include <errno.h>
#include <stdlib.h>

#define NAMES_BYTES   ((size_t)8 << 20)
#define SCRATCH_BYTES ((size_t)14 << 20)

LIMIT(reader, LIMIT_SERVICE, "pages: names and rows of a question", .of = "pages",
      .bytes = NAMES_BYTES + SCRATCH_BYTES);

STAT_LOSS(refused, "spanprof_store_log_reads_refused_total",
          "Questions to the history that were refused because the store's write-ahead log was too "
          "long.");

#define SELECT_BLOCKS                                                                              \
    "SELECT seq, written_unix_ns, samples_from_unix_ns, samples_to_unix_ns, spans_from_unix_ns,"   \
    " spans_to_unix_ns, samples, spans, max_duration_ns FROM history_block ORDER BY seq"
#define SELECT_MINUTES                                                                             \
    "SELECT id, minute_unix_ns, through, written_unix_ns, samples FROM history_minute ORDER BY id"

static int prepare_all(struct history_reader *reader)
{
    const struct {
        const char *sql;
        sqlite3_stmt **statement;
    } all[] = {
        {"BEGIN", &reader->begin},
        {"COMMIT", &reader->end},
        {"SELECT body FROM history_text WHERE id = ?1", &reader->get_text},
        {"SELECT value FROM meta WHERE name = 'history.key'", &reader->get_key},
        {"SELECT 1 FROM history_text WHERE hash = ?1", &reader->find_text},
        {"SELECT body FROM history_series WHERE id = ?1", &reader->get_series},
        {SELECT_BLOCKS, &reader->blocks},
        {SELECT_MINUTES, &reader->minutes},
        {"SELECT body FROM history_part WHERE id = ?1", &reader->get_part},
        {"SELECT body FROM history_minute_entries WHERE id = ?1", &reader->get_minute},
    };
    int error = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && !error; i++)
        error = db_prepare(reader->db, all[i].sql, all[i].statement);
    return error;
}

int history_reader_open(struct db *reader_db, struct history_reader **result)
{
    struct history_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return -ENOMEM;
    reader->db = reader_db;
    reader->time_max_ns = HISTORY_TIME_MAX_NS;
    reader->db_files = db_files(reader_db);
    arena_init(&reader->names, NAMES_BYTES);
    arena_init(&reader->scratch, SCRATCH_BYTES);
    reader_series_open(reader);
    int error = prepare_all(reader);
    error = error ? error : history_frames_open(&reader->frames, reader_db);
    if (error) {
        history_reader_close(reader);
        return error;
    }
    *result = reader;
    return 0;
}

void history_reader_close(struct history_reader *reader)
{
    if (!reader)
        return;
    sqlite3_stmt **all[] = {&reader->begin,     &reader->end,        &reader->get_text,
                            &reader->get_key,   &reader->find_text,  &reader->blocks,
                            &reader->minutes,   &reader->get_series, &reader->get_part,
                            &reader->get_minute};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        db_unprepare(reader->db, all[i]);
    history_frames_close(&reader->frames);
    reader_series_forget(reader);
    arena_close(&reader->names);
    arena_close(&reader->scratch);
    free(reader);
}

void history_reader_set_time(struct history_reader *reader, uint64_t max_ns)
{
    DB_THREAD(reader->db);
    reader->time_max_ns = max_ns;
}

void history_reader_set_host(struct history_reader *reader, struct bytes host)
{
    DB_THREAD(reader->db);
    reader->host = host;
}

int reader_begin(struct history_reader *reader)
{
    if (db_log_is_full(reader->db)) {
        stat_add(&refused, 1);
        return -EAGAIN;
    }
    int error = db_read_begin(reader->db);
    if (error)
        return error;
    bool is_other = reader->db_files != db_files(reader->db);
    if (is_other)
        history_frames_forget(&reader->frames);
    if (is_other || reader->names.used_bytes > NAMES_BYTES / 2)
        reader_series_forget(reader);
    reader->db_files = db_files(reader->db);
    reader->question++;
    return db_run(reader->db, reader->begin);
}

void reader_end(struct history_reader *reader)
{
    reader_part_close(reader);
    if (db_in_transaction(reader->db))
        db_run(reader->db, reader->end);
    db_read_end(reader->db);
    arena_reset(&reader->scratch);
}

int reader_copy_text(struct arena *arena, struct bytes *text)
{
    const void *copy = arena_dup(arena, text->data, text->len);
    text->data = copy;
    return copy ? 0 : -ENOMEM;
}

void *reader_grow(void *array, size_t n, size_t *cap, size_t max, size_t size)
{
    size_t more = *cap ? *cap * 2 : 64;
    if (n < *cap)
        return array;
    void *larger = n < max ? realloc(array, more * size) : NULL;
    if (larger)
        *cap = more;
    return larger;
}

int history_frames(struct history_reader *reader, int64_t stack,
                   const struct history_frame *const **frames, size_t *n)
{
    DB_THREAD(reader->db);
    if (history_frames_known(&reader->frames, stack, frames, n))
        return 0;
    *n = 0;
    int error = reader_begin(reader);
    error = error ? error : history_frames_get(&reader->frames, stack, frames, n);
    reader_end(reader);
    return error;
}
