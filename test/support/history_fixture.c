/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/history_fixture.h"
#include "store/history/history_minute.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static sqlite3_stmt *query(struct fixture *fixture, const char *sql, int64_t id)
{
    sqlite3_stmt *statement;
    assert_int_equal(
        sqlite3_prepare_v2(db_handle(store_db(fixture->store)), sql, -1, &statement, NULL),
        SQLITE_OK);
    if (sqlite3_bind_parameter_count(statement))
        sqlite3_bind_int64(statement, 1, id);
    return statement;
}

static struct bytes column(sqlite3_stmt *row, int i)
{
    return BYTES(sqlite3_column_blob(row, i), (size_t)sqlite3_column_bytes(row, i));
}

const char *history_text_of(struct fixture *fixture, int64_t id)
{
    static char texts[8][2048];
    static unsigned next;
    char *text = texts[next++ % 8];
    *text = 0;
    sqlite3_stmt *row = query(fixture, "SELECT body FROM history_text WHERE id = ?1", id);
    if (sqlite3_step(row) == SQLITE_ROW) {
        struct bytes body = column(row, 0);
        assert_true(body.len < sizeof(texts[0]));
        memcpy(text, body.data, body.len);
        text[body.len] = 0;
    } else {
        assert_int_equal(id, 0);
    }
    sqlite3_finalize(row);
    return text;
}

static struct history_series_facts series_of(struct fixture *fixture, int64_t id)
{
    struct history_series_facts facts = {0};
    sqlite3_stmt *row = query(fixture, "SELECT body FROM history_series WHERE id = ?1", id);
    if (id) {
        assert_int_equal(sqlite3_step(row), SQLITE_ROW);
        assert_int_equal(history_series_decode(column(row, 0), &facts), 0);
    }
    sqlite3_finalize(row);
    return facts;
}

static struct buf part(struct fixture *fixture, int64_t seq, enum history_part which)
{
    struct buf body = {0};
    sqlite3_stmt *row =
        query(fixture, "SELECT body FROM history_part WHERE id = ?1", history_part_id(seq, which));
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    assert_int_equal(buf_append_bytes(&body, column(row, 0)), 0);
    sqlite3_finalize(row);
    return body;
}

static size_t copy_attributes(struct bytes attributes, char out[64])
{
    assert_true(attributes.len <= 64);
    if (attributes.len)
        memcpy(out, attributes.data, attributes.len);
    return attributes.len;
}

static void tell_spans(struct fixture *fixture, struct told_history *told, int64_t seq,
                       const struct history_block_spans *spans, struct bytes body)
{
    for (size_t i = 0; i < spans->n; i++) {
        assert_true(told->n_spans < TOLD_MAX);
        struct told_span *span = &told->spans[told->n_spans++];
        *span = (struct told_span){.seq = seq, .row = spans->spans[i]};
        span->series = series_of(fixture, span->row.series);
        span->attributes_len =
            copy_attributes(history_span_attributes(&spans->spans[i], body), span->attributes);
    }
}

static void tell_samples(struct fixture *fixture, struct told_history *told, int64_t seq,
                         const struct history_block_spans *spans, struct bytes body)
{
    struct history_samples in;
    const struct history_sample_group *group;
    uint64_t time, value;
    int outcome;
    assert_int_equal(history_samples_open(&in, body, spans->spans, spans->n), 0);
    while ((outcome = history_samples_next(&in, &group)) == 1) {
        struct history_group_times times = history_times_of(&in, group);
        struct history_series_facts series = series_of(fixture, group->series);
        while (history_times_next(&times, &time, &value)) {
            assert_true(told->n_samples < TOLD_MAX);
            struct told_sample *sample = &told->samples[told->n_samples++];
            *sample = (struct told_sample){.seq = seq,
                                           .context = group->context,
                                           .series = series,
                                           .stack = group->stack,
                                           .tid = group->tid,
                                           .time_unix_ns = time,
                                           .value_ns = value,
                                           .period_ns = group->period_ns};
            sample->attributes_len = copy_attributes(group->attributes, sample->attributes);
        }
    }
    assert_int_equal(outcome, 0);
    history_samples_close(&in);
}

/* Row: seq, samples, spans, the two ranges, max_duration_ns, whether it is in no minute. */
static void tell_block(struct fixture *fixture, struct told_history *told, sqlite3_stmt *row)
{
    int64_t seq = sqlite3_column_int64(row, 0);
    size_t first_span = told->n_spans, first_sample = told->n_samples;
    struct buf spans_body = part(fixture, seq, HISTORY_PART_SPANS);
    struct buf samples_body = part(fixture, seq, HISTORY_PART_SAMPLES);
    struct buf traces_body = part(fixture, seq, HISTORY_PART_TRACES);
    struct history_block_spans spans = {0};
    size_t n_spans = (size_t)sqlite3_column_int64(row, 2);
    assert_int_equal(history_spans_decode(&spans, buf_bytes(&spans_body), true, n_spans, n_spans),
                     0);
    assert_int_equal(spans.n, n_spans);
    tell_spans(fixture, told, seq, &spans, buf_bytes(&spans_body));
    tell_samples(fixture, told, seq, &spans, buf_bytes(&samples_body));
    assert_int_equal(told->n_samples - first_sample, sqlite3_column_int64(row, 1));
    for (size_t i = first_sample; i < told->n_samples; i++) {
        const struct told_sample *sample = &told->samples[i];
        assert_in_range(sample->time_unix_ns + HISTORY_TICK_NS,
                        (uint64_t)sqlite3_column_int64(row, 3),
                        (uint64_t)sqlite3_column_int64(row, 4) + HISTORY_TICK_NS);
        assert_true(bytes_zero(sample->context.trace_id, 16) ||
                    history_index_may_have(buf_bytes(&traces_body), sample->context.trace_id));
        told->summed_samples += sqlite3_column_int64(row, 8) != 0;
        told->summed_value_ns += sqlite3_column_int64(row, 8) ? sample->value_ns : 0;
    }
    for (size_t i = first_span; i < told->n_spans; i++) {
        const struct history_block_span *span = &told->spans[i].row;
        assert_true(span->start_unix_ns >= (uint64_t)sqlite3_column_int64(row, 5));
        assert_true(span->start_unix_ns + span->duration_ns <=
                    (uint64_t)sqlite3_column_int64(row, 6));
        assert_true(span->duration_ns <= (uint64_t)sqlite3_column_int64(row, 7));
        assert_true(history_index_may_have(buf_bytes(&traces_body), span->trace_id));
    }
    history_spans_close(&spans);
    buf_close(&spans_body);
    buf_close(&samples_body);
    buf_close(&traces_body);
}

/* Row: minute, samples, value, entries, stacks. */
static void tell_minute(struct told_history *told, sqlite3_stmt *row)
{
    struct history_minute_entries in;
    struct history_minute_entry entry;
    struct id_set stacks = {0};
    uint64_t samples = 0, value = 0;
    struct blob_reader ids = {.left = column(row, 4)};
    int64_t stack = 0;
    int outcome;
    assert_int_equal((uint64_t)sqlite3_column_int64(row, 0) % HISTORY_MINUTE_NS, 0);
    while (history_stacks_next(&ids, &stack) == 1)
        assert_int_equal(id_set_add(&stacks, stack), 0);
    assert_int_equal(history_minute_open(&in, column(row, 3)), 0);
    while ((outcome = history_minute_next(&in, &entry)) == 1) {
        samples += entry.samples;
        value += entry.value_ns;
        assert_true(id_set_has(&stacks, entry.stack));
    }
    assert_int_equal(outcome, 0);
    assert_int_equal(samples, sqlite3_column_int64(row, 1));
    assert_int_equal(value, sqlite3_column_int64(row, 2));
    told->minute_samples += samples;
    told->minute_value_ns += value;
    id_set_close(&stacks);
}

const struct told_history *history_told(struct fixture *fixture)
{
    static struct told_history told;
    memset(&told, 0, sizeof(told));
    sqlite3_stmt *row =
        query(fixture,
              "SELECT seq, samples, spans, samples_from_unix_ns, samples_to_unix_ns,"
              " spans_from_unix_ns, spans_to_unix_ns, max_duration_ns,"
              " seq > (SELECT ifnull(max(through), 0) FROM history_minute)"
              " FROM history_block ORDER BY seq",
              0);
    for (; sqlite3_step(row) == SQLITE_ROW; told.n_blocks++)
        tell_block(fixture, &told, row);
    sqlite3_finalize(row);
    row = query(fixture,
                "SELECT minute_unix_ns, samples, value_ns, e.body, s.body FROM history_minute m"
                " JOIN history_minute_entries e ON e.id = m.id"
                " JOIN history_minute_stacks s ON s.id = m.id ORDER BY m.id",
                0);
    for (; sqlite3_step(row) == SQLITE_ROW; told.n_minutes++)
        tell_minute(&told, row);
    sqlite3_finalize(row);
    told.summed_samples += told.minute_samples;
    told.summed_value_ns += told.minute_value_ns;
    return &told;
}

size_t history_close_window(struct fixture *fixture, uint64_t now_unix_ns)
{
    static const struct window_settings settings = {
        .max_request_bytes = 4 << 20, .destinations = 1, .scope_version = "0"};
    size_t n;
    fixture_begin(fixture);
    assert_int_equal(store_window(fixture->store, &settings, now_unix_ns, false, &n), 0);
    fixture_commit(fixture);
    return n;
}

void history_tidy(struct fixture *fixture, uint64_t now_unix_ns)
{
    fixture_begin(fixture);
    assert_int_equal(store_collect(fixture->store, now_unix_ns), 0);
    fixture_commit(fixture);
}

void history_receive(struct fixture *fixture, struct fixture_span *span)
{
    struct join_result result = {0};
    span->span.resource = buf_bytes(&span->resource);
    span->span.raw = buf_bytes(&span->raw);
    fixture_begin(fixture);
    assert_true(join_span(store_join(fixture->store), &span->span, &result) >= 0);
    assert_int_equal(history_span(store_history(fixture->store), &span->span, &result), 0);
    fixture_commit(fixture);
}

void history_receive_simple(struct fixture *fixture, unsigned trace, unsigned id, unsigned parent,
                            unsigned start, unsigned end)
{
    struct fixture_span span;
    fixture_span(&span, trace, id, start, end, 10);
    if (parent)
        fixture_span_parent(&span, parent);
    history_receive(fixture, &span);
    fixture_span_close(&span);
}

void history_add_sample(struct fixture *fixture, uint64_t time_unix_ns, struct fixture_ids ids,
                        unsigned stack)
{
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    struct sample sample =
        fixture_sample(time_unix_ns, ids, fixture_stack(fixture, stack), process);
    fixture_add(fixture, &sample);
}

unsigned history_count(struct fixture *fixture, const char *sql)
{
    struct db *db = store_db(fixture->store);
    sqlite3_stmt *row;
    assert_int_equal(db_prepare(db, sql, &row), 0);
    assert_int_equal(db_step(db, row), 1);
    unsigned n = (unsigned)sqlite3_column_int64(row, 0);
    db_unprepare(db, &row);
    return n;
}

void history_fill(struct fixture *fixture, unsigned n, uint64_t begin)
{
    for (unsigned i = 0; i < n; i++) {
        history_add_sample(fixture, begin + i * 5 * FIXTURE_SECOND, (struct fixture_ids){0, 0, 0},
                           i % 7);
        assert_int_equal(history_close_window(fixture, begin + i * 5 * FIXTURE_SECOND), 1);
    }
}
