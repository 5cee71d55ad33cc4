/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/rigs/history_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define ANSWERS_BYTES ((size_t)64 << 20)

struct history_rig *history_rig_open(void)
{
    struct history_rig *rig = calloc(1, sizeof(*rig));
    assert_non_null(rig);
    fixture_make(&rig->fixture);
    fixture_open(&rig->fixture);
    assert_int_equal(db_open_reader(&rig->fixture.settings.db, &rig->db), 0);
    assert_int_equal(history_reader_open(rig->db, &rig->reader), 0);
    history_reader_set_host(rig->reader, BYTES_LIT(RIG_HOST));
    assert_int_equal(history_totals_open(&rig->totals), 0);
    arena_init(&rig->arena, ANSWERS_BYTES);
    return rig;
}

static void forget_attributes(struct history_rig *rig)
{
    for (size_t i = 0; i < rig->n_sample_attributes; i++)
        free((void *)rig->sample_attributes[i].data);
    rig->n_sample_attributes = 0;
}

void history_rig_close(struct history_rig *rig)
{
    history_reader_close(rig->reader);
    db_close(rig->db);
    fixture_remove(&rig->fixture);
    arena_close(&rig->arena);
    history_totals_close(rig->totals);
    buf_close(&rig->attributes);
    free(rig->spans);
    free(rig->samples);
    free(rig->unsummed);
    forget_attributes(rig);
    free(rig->sample_attributes);
    free(rig);
}

static sqlite3 *handle(struct history_rig *rig)
{
    return db_handle(store_db(rig->fixture.store));
}

static sqlite3_stmt *prepare(struct history_rig *rig, const char *sql)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(handle(rig), sql, -1, &statement, NULL), SQLITE_OK);
    return statement;
}

static void run(sqlite3_stmt *statement)
{
    assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
    sqlite3_finalize(statement);
}

static void bind_body(sqlite3_stmt *statement, int index, struct bytes body)
{
    sqlite3_bind_blob64(statement, index, body.len ? (const void *)body.data : "", body.len,
                        SQLITE_TRANSIENT);
}

/* The row with this body, made if new. */
static int64_t intern(struct history_rig *rig, const char *find, const char *insert,
                      struct bytes body)
{
    uint8_t hash[16];
    sqlite3_stmt *row = prepare(rig, "SELECT value FROM meta WHERE name = 'history.key'");
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    assert_int_equal(sqlite3_column_bytes(row, 0), 16);
    bytes_siphash128(body, sqlite3_column_blob(row, 0), hash);
    sqlite3_finalize(row);
    row = prepare(rig, find);
    bind_body(row, 1, BYTES(hash, 16));
    int64_t id = sqlite3_step(row) == SQLITE_ROW ? sqlite3_column_int64(row, 0) : 0;
    sqlite3_finalize(row);
    if (id)
        return id;
    row = prepare(rig, insert);
    bind_body(row, 1, BYTES(hash, 16));
    bind_body(row, 2, body);
    run(row);
    return sqlite3_last_insert_rowid(handle(rig));
}

int64_t history_rig_text(struct history_rig *rig, struct bytes text)
{
    return text.len
               ? intern(rig, "SELECT id FROM history_text WHERE hash = ?1",
                        "INSERT INTO history_text(hash, generation, body) VALUES (?1, 1, ?2)", text)
               : 0;
}

static int64_t text(struct history_rig *rig, const char *text)
{
    return text ? history_rig_text(rig, BYTES_STR(text)) : 0;
}

int64_t history_rig_series(struct history_rig *rig, const struct rig_series *series)
{
    struct blob_writer out _cleanup_blob_ = {0};
    const struct history_series_facts facts = {
        .resource = text(rig, series->resource),
        .service = text(rig, series->service),
        .span_name = text(rig, series->span_name),
        .thread = text(rig, series->thread),
        .container = text(rig, series->container),
        .executable = text(rig, series->executable),
        .pid = series->pid,
        .span_kind = series->span_kind,
        .sample_kind = series->sample_kind,
    };
    history_series_encode(&out, &facts);
    assert_int_equal(out.error, 0);
    return intern(rig, "SELECT id FROM history_series WHERE hash = ?1",
                  "INSERT INTO history_series(hash, generation, body) VALUES (?1, 1, ?2)",
                  buf_bytes(&out.buf));
}

static void *room(void *array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return array;
    *cap = *cap ? *cap * 2 : 256;
    array = realloc(array, *cap * size);
    assert_non_null(array);
    return array;
}

void history_rig_span(struct history_rig *rig, const struct history_block_span *span,
                      struct bytes attributes)
{
    rig->spans = room(rig->spans, rig->n_spans, &rig->cap_spans, sizeof(*span));
    struct history_block_span *added = &rig->spans[rig->n_spans++];
    *added = *span;
    added->attributes_at = (uint32_t)rig->attributes.len;
    added->attributes_len = (uint32_t)attributes.len;
    assert_int_equal(buf_append_bytes(&rig->attributes, attributes), 0);
}

/* Its number; 0 = none. */
static uint32_t intern_attributes(struct history_rig *rig, struct bytes attributes)
{
    if (!attributes.len)
        return 0;
    for (size_t i = 0; i < rig->n_sample_attributes; i++)
        if (bytes_equal(rig->sample_attributes[i], attributes))
            return (uint32_t)i + 1;
    rig->sample_attributes = room(rig->sample_attributes, rig->n_sample_attributes,
                                  &rig->cap_sample_attributes, sizeof(attributes));
    void *copy = malloc(attributes.len);
    assert_non_null(copy);
    memcpy(copy, attributes.data, attributes.len);
    rig->sample_attributes[rig->n_sample_attributes++] = BYTES(copy, attributes.len);
    return (uint32_t)rig->n_sample_attributes;
}

void history_rig_sample(struct history_rig *rig, const struct history_sample *sample,
                        struct bytes attributes)
{
    rig->samples = room(rig->samples, rig->n_samples, &rig->cap_samples, sizeof(*sample));
    rig->samples[rig->n_samples] = *sample;
    rig->samples[rig->n_samples++].attributes = intern_attributes(rig, attributes);
    rig->unsummed = room(rig->unsummed, rig->n_unsummed, &rig->cap_unsummed, sizeof(*sample));
    rig->unsummed[rig->n_unsummed++] = *sample;
}

static void find_spans(struct history_rig *rig)
{
    for (size_t i = 0; i < rig->n_samples; i++) {
        struct history_context *context = &rig->samples[i].context;
        context->span = HISTORY_NO_SPAN;
        for (size_t k = 0; k < rig->n_spans && context->matched; k++)
            if (!memcmp(context->trace_id, rig->spans[k].trace_id, 16) &&
                !memcmp(context->span_id, rig->spans[k].span_id, 8))
                context->span = (uint32_t)k;
    }
}

static void widen(uint64_t *from, uint64_t *to, uint64_t first, uint64_t last)
{
    if (!*to || first < *from)
        *from = first;
    if (last > *to)
        *to = last;
}

static void bind_ranges(struct history_rig *rig, sqlite3_stmt *row)
{
    uint64_t samples_from = 0, samples_to = 0, spans_from = 0, spans_to = 0, longest = 0;
    for (size_t i = 0; i < rig->n_samples; i++)
        widen(&samples_from, &samples_to, rig->samples[i].time_unix_ns,
              rig->samples[i].time_unix_ns);
    for (size_t i = 0; i < rig->n_spans; i++) {
        const struct history_block_span *span = &rig->spans[i];
        widen(&spans_from, &spans_to, span->start_unix_ns, span->start_unix_ns + span->duration_ns);
        longest = span->duration_ns > longest ? span->duration_ns : longest;
    }
    const uint64_t values[] = {samples_from,   samples_to,   spans_from, spans_to,
                               rig->n_samples, rig->n_spans, longest};
    for (int i = 0; i < 7; i++)
        sqlite3_bind_int64(row, i + 2, (int64_t)values[i]);
}

static void put_part(struct history_rig *rig, int64_t seq, enum history_part part,
                     struct blob_writer *body)
{
    sqlite3_stmt *row = prepare(rig, "INSERT INTO history_part VALUES (?1, ?2)");
    assert_int_equal(body->error, 0);
    sqlite3_bind_int64(row, 1, history_part_id(seq, part));
    bind_body(row, 2, buf_bytes(&body->buf));
    run(row);
}

void history_rig_block(struct history_rig *rig, uint64_t written_unix_ns)
{
    struct blob_writer parts[HISTORY_PARTS] = {0};
    assert_int_equal(history_spans_sort(rig->spans, rig->n_spans, NULL), 0);
    find_spans(rig);
    const struct history_content content = {.spans = rig->spans,
                                            .n_spans = rig->n_spans,
                                            .span_attributes = buf_bytes(&rig->attributes),
                                            .samples = rig->samples,
                                            .n_samples = rig->n_samples,
                                            .sample_attributes = rig->sample_attributes,
                                            .n_sample_attributes = rig->n_sample_attributes};
    assert_int_equal(history_encode(parts, &content, rig->totals), 0);
    history_encode_total(rig->totals, &content);
    sqlite3_stmt *row =
        prepare(rig, "INSERT INTO history_block(written_unix_ns, samples_from_unix_ns,"
                     " samples_to_unix_ns, spans_from_unix_ns, spans_to_unix_ns, samples, spans,"
                     " max_duration_ns, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0)");
    sqlite3_bind_int64(row, 1, (int64_t)written_unix_ns);
    bind_ranges(rig, row);
    run(row);
    int64_t seq = sqlite3_last_insert_rowid(handle(rig));
    for (unsigned i = 0; i < HISTORY_PARTS; i++) {
        put_part(rig, seq, (enum history_part)i, &parts[i]);
        blob_writer_closep(&parts[i]);
    }
    rig->n_spans = rig->n_samples = 0;
    forget_attributes(rig);
    buf_clear(&rig->attributes);
}

/* By minute, series, stack. */
static int compare(const void *left, const void *right)
{
    const struct history_sample *a = left, *b = right;
    uint64_t x = a->time_unix_ns / HISTORY_MINUTE_NS, y = b->time_unix_ns / HISTORY_MINUTE_NS;
    if (x != y)
        return x < y ? -1 : 1;
    if (a->series != b->series)
        return a->series < b->series ? -1 : 1;
    return a->stack < b->stack ? -1 : a->stack > b->stack;
}

static void put_minute(struct history_rig *rig, uint64_t minute, uint64_t written_unix_ns,
                       struct history_minute_entry *entries, size_t n)
{
    struct blob_writer body _cleanup_blob_ = {0};
    uint64_t samples = 0, value = 0;
    for (size_t i = 0; i < n; i++) {
        samples += entries[i].samples;
        value += entries[i].value_ns;
    }
    history_minute_encode(&body, entries, n, FIXTURE_TICK);
    assert_int_equal(body.error, 0);
    sqlite3_stmt *row =
        prepare(rig, "INSERT INTO history_minute(minute_unix_ns, through, written_unix_ns, samples,"
                     " value_ns, period_ns, bytes)"
                     " VALUES (?1, (SELECT max(seq) FROM history_block), ?2, ?3, ?4, ?5, 0)");
    const uint64_t values[] = {minute, written_unix_ns, samples, value, FIXTURE_TICK};
    for (int i = 0; i < 5; i++)
        sqlite3_bind_int64(row, i + 1, (int64_t)values[i]);
    run(row);
    row = prepare(rig, "INSERT INTO history_minute_entries VALUES (last_insert_rowid(), ?1)");
    bind_body(row, 1, buf_bytes(&body.buf));
    run(row);
}

void history_rig_minutes(struct history_rig *rig, uint64_t written_unix_ns)
{
    struct history_minute_entry *entries = calloc(rig->n_unsummed + 1, sizeof(*entries));
    size_t n = 0;
    assert_non_null(entries);
    if (rig->n_unsummed)
        qsort(rig->unsummed, rig->n_unsummed, sizeof(*rig->unsummed), compare);
    for (size_t i = 0; i < rig->n_unsummed; i++) {
        const struct history_sample *sample = &rig->unsummed[i];
        uint64_t minute = sample->time_unix_ns / HISTORY_MINUTE_NS * HISTORY_MINUTE_NS;
        if (!i || compare(sample - 1, sample) != 0)
            entries[n++] = (struct history_minute_entry){sample->series, sample->stack, 0, 0};
        entries[n - 1].samples++;
        entries[n - 1].value_ns += sample->value_ns;
        bool is_last = i + 1 == rig->n_unsummed ||
                       sample[1].time_unix_ns / HISTORY_MINUTE_NS * HISTORY_MINUTE_NS != minute;
        if (!is_last)
            continue;
        put_minute(rig, minute, written_unix_ns, entries, n);
        n = 0;
    }
    rig->n_unsummed = 0;
    free(entries);
}
