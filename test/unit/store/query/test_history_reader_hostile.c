/* SPDX-License-Identifier: Apache-2.0 */
/* A database that is damaged, one that is being written, spans that make no sense. */
#include "store/query/history_reader.h"
#include "test/support/fixtures/history_truth.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define MINUTE HISTORY_MINUTE_NS
#define SECOND FIXTURE_SECOND

static sqlite3_stmt *prepare(struct history_rig *rig, const char *sql)
{
    sqlite3_stmt *statement;
    sqlite3 *handle = db_handle(store_db(rig->fixture.store));
    assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &statement, NULL), SQLITE_OK);
    return statement;
}

/* Each question once; whatever is answered, it comes back. */
static void ask_everything(struct truth *truth, bool *complete)
{
    struct history_rig *rig = truth->rig;
    struct history_filter filter = {.function = BYTES_LIT("leaf_1")};
    struct history_profile profile;
    struct history_traces traces;
    struct history_groups groups;
    struct history_trace trace;
    const struct history_frame *const *frames;
    struct history_scrape scrape = {.max_bytes = 1 << 20, .scope_version = "0"};
    struct buf body _cleanup_buf_ = {0};
    size_t n;
    arena_reset(&rig->arena);
    assert_int_equal(history_profile(rig->reader, &filter, &rig->arena, &profile), 0);
    *complete = profile.complete;
    for (size_t i = 0; i < profile.n; i++)
        assert_int_equal(history_frames(rig->reader, profile.stacks[i].id, &frames, &n), 0);
    assert_int_equal(
        history_groups(rig->reader, &filter, HISTORY_BY_SPAN, 30, &rig->arena, &groups), 0);
    filter = (struct history_filter){.min_duration_ns = SECOND};
    assert_int_equal(history_profile(rig->reader, &filter, &rig->arena, &profile), 0);
    *complete &= profile.complete;
    for (int order = 0; order < 3; order++) {
        assert_int_equal(history_traces(rig->reader, &filter, (enum history_order)order, 20,
                                        &rig->arena, &traces),
                         0);
        *complete &= traces.complete;
    }
    memcpy(filter.trace_id, truth->spans[0].span.trace_id, 16);
    int error = history_trace(rig->reader, &filter, &rig->arena, &trace);
    assert_true(!error || error == -ENOENT);
    filter = (struct history_filter){0};
    assert_int_equal(history_scrape(rig->reader, &filter, &scrape, &body), 0);
}

static struct bytes copy_of(sqlite3_stmt *row, int column, uint8_t *copy, size_t size)
{
    size_t len = (size_t)sqlite3_column_bytes(row, column);
    assert_true(len <= size);
    if (len)
        memcpy(copy, sqlite3_column_blob(row, column), len);
    return BYTES(copy, len);
}

/* Cut, turned bits, random bytes. */
static size_t damage(struct truth *truth, uint8_t *body, size_t len)
{
    if (!len)
        return 0;
    switch (truth_random(truth, 3)) {
    case 0:
        return truth_random(truth, (unsigned)len);
    case 1:
        for (unsigned i = 1 + truth_random(truth, 5); i; i--)
            body[truth_random(truth, (unsigned)len)] ^= (uint8_t)(1 << truth_random(truth, 8));
        return len;
    default:
        for (size_t i = truth_random(truth, (unsigned)len); i < len; i++)
            body[i] = (uint8_t)truth_random(truth, 256);
        return len;
    }
}

static void damage_rows(struct truth *truth, const char *select, const char *update)
{
    static uint8_t copy[1 << 20];
    sqlite3_stmt *rows = prepare(truth->rig, select);
    while (sqlite3_step(rows) == SQLITE_ROW) {
        struct bytes body = copy_of(rows, 1, copy, sizeof(copy));
        size_t len = damage(truth, copy, body.len);
        sqlite3_stmt *put = prepare(truth->rig, update);
        sqlite3_bind_int64(put, 1, sqlite3_column_int64(rows, 0));
        sqlite3_bind_blob64(put, 2, copy, len, SQLITE_TRANSIENT);
        assert_int_equal(sqlite3_step(put), SQLITE_DONE);
        sqlite3_finalize(put);
    }
    sqlite3_finalize(rows);
}

static void a_damaged_history_is_answered_from(void **state)
{
    (void)state;
    static const char *const tables[][2] = {
        {"SELECT id, body FROM history_part WHERE id % 7 = 3",
         "UPDATE history_part SET body = ?2 WHERE id = ?1"},
        {"SELECT id, body FROM history_minute_entries WHERE id % 3 = 1",
         "UPDATE history_minute_entries SET body = ?2 WHERE id = ?1"},
        {"SELECT id, body FROM history_series WHERE id % 4 = 1",
         "UPDATE history_series SET body = ?2 WHERE id = ?1"},
        {"SELECT id, frames FROM stack", "UPDATE stack SET frames = ?2 WHERE id = ?1"},
        {"SELECT id, body FROM history_part", "UPDATE history_part SET body = ?2 WHERE id = ?1"},
    };
    bool complete;
    for (unsigned seed = 1; seed <= 2; seed++) {
        struct truth *truth = truth_make(seed);
        ask_everything(truth, &complete);
        assert_true(complete);
        for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
            damage_rows(truth, tables[i][0], tables[i][1]);
            ask_everything(truth, &complete);
        }
        assert_false(complete);
        truth_close(truth);
    }
}

static void rows_that_make_no_sense_are_answered_from(void **state)
{
    (void)state;
    struct truth *truth = truth_make(7);
    static const char *const all[] = {
        "UPDATE history_block SET samples = -5, spans = 4611686018427387904 WHERE seq % 3 = 0",
        "UPDATE history_block SET samples_from_unix_ns = -1 WHERE seq % 5 = 0",
        "UPDATE history_block SET spans_to_unix_ns = -1 WHERE seq % 5 = 0",
        "UPDATE history_block SET max_duration_ns = 9223372036854775807 WHERE seq % 5 = 0",
        "UPDATE history_minute SET minute_unix_ns = 9223372036854775807 WHERE id % 3 = 0",
        "UPDATE history_minute SET through = 9223372036854775807",
        "DELETE FROM history_part WHERE id % 4 = 0",
        "DELETE FROM history_minute_entries WHERE id % 4 = 0",
        "DELETE FROM history_text",
        "DELETE FROM history_series",
    };
    bool complete;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        assert_int_equal(db_exec(store_db(truth->rig->fixture.store), all[i]), 0);
        ask_everything(truth, &complete);
    }
    truth_close(truth);
}

/* Spans */

static void id_of(uint8_t *id, size_t size, unsigned n)
{
    memset(id, 0, size);
    id[0] = (uint8_t)n;
}

static void put_span(struct history_rig *rig, unsigned id, unsigned parent, uint64_t start)
{
    struct history_block_span span = {.start_unix_ns = start, .duration_ns = SECOND};
    id_of(span.trace_id, 16, 1);
    id_of(span.span_id, 8, id);
    id_of(span.parent_id, 8, parent);
    history_rig_span(rig, &span, BYTES(NULL, 0));
}

/* Each stands once, and no parent comes behind. */
static void spans_may_be_parents_in_a_circle(void **state)
{
    (void)state;
    struct history_rig *rig = history_rig_open();
    struct history_filter filter = {.by_trace = true, .by_span = true};
    struct history_profile profile;
    struct history_traces traces;
    struct history_trace trace;
    fixture_begin(&rig->fixture);
    put_span(rig, 1, 3, FIXTURE_T0 + 1);
    put_span(rig, 2, 1, FIXTURE_T0);
    put_span(rig, 3, 2, FIXTURE_T0 + 2);
    put_span(rig, 4, 4, FIXTURE_T0 + 3);
    put_span(rig, 5, 4, FIXTURE_T0 + 4);
    put_span(rig, 5, 4, FIXTURE_T0 + 4); /* sent twice */
    put_span(rig, 6, 0, FIXTURE_T0 + 5);
    put_span(rig, 7, 200, FIXTURE_T0 + 6);
    history_rig_block(rig, FIXTURE_T0 + 5 * SECOND);
    fixture_commit(&rig->fixture);
    id_of(filter.trace_id, 16, 1);
    id_of(filter.span_id, 8, 3);
    assert_int_equal(history_trace(rig->reader, &filter, &rig->arena, &trace), 0);
    assert_int_equal(trace.n_spans, 7);
    for (size_t i = 0; i < trace.n_spans; i++) {
        bool is_behind = bytes_zero(trace.spans[i].parent_id, 8);
        for (size_t k = 0; k < i; k++) {
            is_behind |= !memcmp(trace.spans[k].span_id, trace.spans[i].parent_id, 8);
            assert_memory_not_equal(trace.spans[k].span_id, trace.spans[i].span_id, 8);
        }
        assert_true(is_behind);
    }
    assert_int_equal(history_profile(rig->reader, &filter, &rig->arena, &profile), 0);
    assert_int_equal(profile.samples, 0);
    filter = (struct history_filter){0};
    assert_int_equal(history_traces(rig->reader, &filter, HISTORY_LATEST, 9, &rig->arena, &traces),
                     0);
    assert_int_equal(traces.n, 1);
    assert_int_equal(traces.traces[0].n_spans, 7);
    history_rig_close(rig);
}

/* A span of a process that had samples. */
static void put_span_of(struct history_rig *rig, unsigned id, uint32_t pid)
{
    struct history_block_span span = {.start_unix_ns = FIXTURE_T0, .duration_ns = SECOND};
    span.series = history_rig_series(rig, &(struct rig_series){.service = "shop", .pid = pid});
    id_of(span.trace_id, 16, 1);
    id_of(span.span_id, 8, id);
    history_rig_span(rig, &span, BYTES(NULL, 0));
}

/* Of a process that has made another span of the trace; strangers are left out. */
static void samples_stand_for_a_span_that_has_not_come(void **state)
{
    (void)state;
    struct history_rig *rig = history_rig_open();
    struct history_filter filter = {.by_trace = true};
    struct history_profile profile;
    struct history_trace trace;
    struct history_sample sample = {.stack = 1,
                                    .value_ns = FIXTURE_TICK,
                                    .period_ns = FIXTURE_TICK,
                                    .context = {.span = HISTORY_NO_SPAN}};
    fixture_begin(&rig->fixture);
    sample.stack = fixture_stack(&rig->fixture, 1);
    sample.series = history_rig_series(
        rig, &(struct rig_series){
                 .service = "shop", .thread = "main", .sample_kind = SAMPLE_CPU, .pid = 7});
    id_of(sample.context.trace_id, 16, 1);
    id_of(sample.context.span_id, 8, 2);
    id_of(sample.context.local_root_id, 8, 6);
    for (unsigned i = 0; i < 4; i++) {
        sample.time_unix_ns = FIXTURE_T0 + SECOND + i * 2 * FIXTURE_TICK;
        history_rig_sample(rig, &sample, BYTES(NULL, 0));
    }
    sample.series = history_rig_series(
        rig, &(struct rig_series){
                 .service = "shop", .thread = "main", .sample_kind = SAMPLE_CPU, .pid = 8});
    for (unsigned id = 2; id <= 6; id++) { /* of the span, of the root, of spans of its own */
        id_of(sample.context.span_id, 8, id);
        history_rig_sample(rig, &sample, BYTES(NULL, 0));
    }
    put_span_of(rig, 6, 7);
    history_rig_block(rig, FIXTURE_T0 + 5 * SECOND);
    fixture_commit(&rig->fixture);
    id_of(filter.trace_id, 16, 1);
    assert_int_equal(history_trace(rig->reader, &filter, &rig->arena, &trace), 0);
    assert_int_equal(trace.n_spans, 2);
    const struct history_span *span = &trace.spans[1];
    assert_true(trace.spans[0].known && !span->known);
    assert_memory_equal(span->parent_id, trace.spans[0].span_id, 8);
    assert_true(bytes_is(span->service, "shop") && span->name.len == 0);
    assert_int_equal(span->samples, 4);
    assert_int_equal(span->start_unix_ns, FIXTURE_T0 + SECOND - FIXTURE_TICK);
    assert_int_equal(span->n_busy, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(span->busy[i].offset_ns, i * 2 * FIXTURE_TICK);
        assert_int_equal(span->busy[i].length_ns, FIXTURE_TICK);
    }
    assert_int_equal(trace.spans[0].samples, 0);
    assert_int_equal(trace.duration_ns, SECOND + 6 * FIXTURE_TICK);
    assert_int_equal(history_profile(rig->reader, &filter, &rig->arena, &profile), 0);
    assert_int_equal(profile.samples, 4);
    history_rig_close(rig);
}

static void an_empty_history_answers(void **state)
{
    (void)state;
    struct history_rig *rig = history_rig_open();
    const struct history_filter filter = {.from_unix_ns = FIXTURE_T0,
                                          .to_unix_ns = FIXTURE_T0 + SECOND};
    struct history_profile profile;
    struct history_traces traces;
    struct history_groups groups;
    assert_int_equal(history_profile(rig->reader, &filter, &rig->arena, &profile), 0);
    assert_int_equal(
        history_groups(rig->reader, &filter, HISTORY_BY_SERVICE, 60, &rig->arena, &groups), 0);
    assert_int_equal(
        history_traces(rig->reader, &filter, HISTORY_SLOWEST, 50, &rig->arena, &traces), 0);
    assert_true(profile.complete && groups.complete && traces.complete);
    assert_int_equal(profile.samples + groups.n + groups.n_buckets + traces.n, 0);
    assert_true(profile.from_unix_ns <= profile.to_unix_ns);
    history_rig_close(rig);
}

/* Writing meanwhile */

#define BLOCK_SAMPLES 100

struct writing {
    struct history_rig *rig;
    atomic_bool done;
};

static void put_block(struct history_rig *rig, unsigned n, int64_t series, int64_t stack)
{
    struct history_sample sample = {.series = series,
                                    .stack = stack,
                                    .value_ns = FIXTURE_TICK,
                                    .period_ns = FIXTURE_TICK,
                                    .context = {.span = HISTORY_NO_SPAN}};
    for (unsigned i = 0; i < BLOCK_SAMPLES; i++) {
        sample.time_unix_ns = FIXTURE_T0 + n * 5 * SECOND + i * FIXTURE_TICK;
        history_rig_sample(rig, &sample, BYTES(NULL, 0));
    }
    history_rig_block(rig, FIXTURE_T0 + (n + 1) * 5 * SECOND);
    if (n % 12 == 11)
        history_rig_minutes(rig, FIXTURE_T0 + (n + 1) * 5 * SECOND);
}

/* A span whose clock is wrong, or that ran for long, does not say since when samples are kept. */
static void a_range_is_that_of_samples(void **state)
{
    (void)state;
    struct history_rig *rig = history_rig_open();
    struct history_profile profile;
    const struct history_filter filter = {0};
    fixture_begin(&rig->fixture);
    int64_t series =
        history_rig_series(rig, &(struct rig_series){.service = "shop", .sample_kind = SAMPLE_CPU});
    put_block(rig, 0, series, fixture_stack(&rig->fixture, 1));
    fixture_commit(&rig->fixture);
    sqlite3 *db = db_handle(store_db(rig->fixture.store));
    assert_int_equal(
        sqlite3_exec(db, "UPDATE history_block SET spans = 1, spans_from_unix_ns = 1", 0, 0, 0),
        SQLITE_OK);
    assert_int_equal(history_profile(rig->reader, &filter, &rig->arena, &profile), 0);
    assert_int_equal(profile.samples, BLOCK_SAMPLES);
    assert_int_equal(profile.from_unix_ns, FIXTURE_T0);
    history_rig_close(rig);
}

static void *write_blocks(void *context)
{
    struct writing *writing = context;
    struct history_rig *rig = writing->rig;
    fixture_begin(&rig->fixture);
    int64_t stack = fixture_stack(&rig->fixture, 1);
    int64_t series =
        history_rig_series(rig, &(struct rig_series){.service = "shop", .sample_kind = SAMPLE_CPU});
    fixture_commit(&rig->fixture);
    for (unsigned n = 0; n < 300; n++) {
        fixture_begin(&rig->fixture);
        put_block(rig, n, series, stack);
        fixture_commit(&rig->fixture);
    }
    atomic_store(&writing->done, true);
    return NULL;
}

static void a_reader_sees_whole_transactions(void **state)
{
    (void)state;
    const struct history_filter filter = {0};
    struct writing writing = {.rig = history_rig_open()};
    struct history_rig *rig = writing.rig;
    struct history_profile profile;
    struct history_groups groups;
    pthread_t thread;
    uint64_t before = 0;
    bool done;
    assert_int_equal(pthread_create(&thread, NULL, write_blocks, &writing), 0);
    do {
        done = atomic_load(&writing.done);
        arena_reset(&rig->arena);
        assert_int_equal(history_profile(rig->reader, &filter, &rig->arena, &profile), 0);
        assert_int_equal(
            history_groups(rig->reader, &filter, HISTORY_BY_SERVICE, 0, &rig->arena, &groups), 0);
        assert_int_equal(profile.samples % BLOCK_SAMPLES, 0);
        assert_int_equal(groups.samples % BLOCK_SAMPLES, 0);
        assert_true(profile.samples >= before && groups.samples >= profile.samples);
        before = groups.samples;
    } while (!done);
    assert_int_equal(before, 300 * BLOCK_SAMPLES);
    assert_int_equal(pthread_join(thread, NULL), 0);
    history_rig_close(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_history_is_answered_from),
        cmocka_unit_test(rows_that_make_no_sense_are_answered_from),
        cmocka_unit_test(spans_may_be_parents_in_a_circle),
        cmocka_unit_test(samples_stand_for_a_span_that_has_not_come),
        cmocka_unit_test(a_range_is_that_of_samples),
        cmocka_unit_test(an_empty_history_answers),
        cmocka_unit_test(a_reader_sees_whole_transactions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
