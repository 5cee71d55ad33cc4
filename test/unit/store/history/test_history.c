/* SPDX-License-Identifier: Apache-2.0 */
/* What the history says of what has left, and when it forgets. */
#include "base/clock.h"
#include "base/stats.h"
#include "store/history/history_blocks.h"
#include "store/history/history_names.h"
#include "store/join/matched_span.h"
#include "store/stacks/stacks_unfinished.h"
#include "test/support/fixtures/history_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define T0     FIXTURE_T0
#define TICK   FIXTURE_TICK
#define SECOND FIXTURE_SECOND

static const struct told_span *told_span(const struct told_history *told, unsigned id)
{
    uint8_t span_id[8];
    const struct told_span *found = NULL;
    fixture_span_id(id, span_id);
    for (size_t i = 0; i < told->n_spans; i++)
        if (!memcmp(told->spans[i].row.span_id, span_id, 8))
            found = &told->spans[i];
    assert_non_null(found);
    return found;
}

static void is_id(const uint8_t *id, unsigned n)
{
    uint8_t expected[8];
    fixture_span_id(n, expected);
    assert_memory_equal(id, expected, 8);
}

static bool has_text(const char *data, size_t len, const char *text)
{
    return memmem(data, len, text, strlen(text));
}

/* Everything that a page tells of a span and of its samples. */
static void test_joined(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    for (unsigned i = 0; i < 3; i++)
        history_add_sample(fixture, T0 + SECOND + i * TICK, (struct fixture_ids){1, 2, 1}, 5);
    fixture_span(&span, 1, 2, 1, 2, 10);
    fixture_span_parent(&span, 1);
    static const uint8_t failed[] = {0x7a, 2, 0x18, 2}; /* status {code: ERROR} */
    assert_int_equal(buf_append(&span.raw, failed, sizeof(failed)), 0);
    history_receive(fixture, &span);
    fixture_span_close(&span);
    history_receive_simple(fixture, 1, 1, 0, 0, 3);
    assert_int_equal(history_close_window(fixture, T0 + 5 * SECOND), 3);
    const struct told_history *told = history_told(fixture);
    assert_int_equal(told->n_blocks, 1);
    assert_int_equal(told->n_spans, 2);
    assert_int_equal(told->n_samples, 3);

    const struct told_span *child = told_span(told, 2), *root = told_span(told, 1);
    assert_true(root == &told->spans[0]); /* the longest */
    is_id(child->row.parent_id, 1);
    assert_true(bytes_zero(root->row.parent_id, 8));
    assert_int_equal(child->row.start_unix_ns, T0 + SECOND);
    assert_int_equal(child->row.duration_ns, SECOND);
    assert_int_equal(child->row.samples, 3);
    assert_int_equal(child->row.cpu_ns, 3 * TICK);
    assert_true(child->row.error && !root->row.error);
    assert_true(!child->row.local_root && root->row.local_root);
    assert_int_equal(root->row.samples, 0);
    assert_true(has_text(child->attributes, child->attributes_len, "/cart"));
    assert_false(has_text(child->attributes, child->attributes_len, "not chosen"));
    assert_string_equal(history_text_of(fixture, child->series.service), "shop");
    assert_string_equal(history_text_of(fixture, child->series.span_name), "GET /cart");
    assert_int_equal(child->series.span_kind, SPAN_INTERNAL);
    assert_int_equal(child->series.sample_kind, 0);

    int64_t stack = fixture_stack(fixture, 5);
    for (size_t i = 0; i < 3; i++) {
        const struct told_sample *sample = &told->samples[i];
        assert_true(sample->context.matched);
        assert_int_equal(sample->context.span, child - told->spans);
        is_id(sample->context.local_root_id, 1);
        assert_int_equal(sample->stack, stack);
        assert_int_equal(sample->tid, 77);
        assert_true(sample->value_ns == TICK && sample->period_ns == TICK);
        assert_in_range(T0 + SECOND + i * TICK - sample->time_unix_ns, 0, HISTORY_TICK_NS - 1);
        assert_int_equal(sample->attributes_len, 0); /* they are the span's */
        assert_string_equal(history_text_of(fixture, sample->series.service), "shop");
        assert_string_equal(history_text_of(fixture, sample->series.span_name), "GET /cart");
        assert_string_equal(history_text_of(fixture, sample->series.thread), "worker");
        assert_string_equal(history_text_of(fixture, sample->series.executable), "shop");
        assert_int_equal(sample->series.pid, 10);
        assert_int_equal(sample->series.span_kind, SPAN_INTERNAL);
        assert_int_equal(sample->series.sample_kind, SAMPLE_CPU);
        assert_int_equal(sample->series.context_source, 1);
        assert_non_null(strstr(history_text_of(fixture, sample->series.resource) + 2, "service"));
    }
}

/* The same text for a span and for its samples: both are asked for by it. */
static void test_long_name(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    char name[MATCHED_SPAN_NAME_MAX + 2];
    memset(name, 'n', sizeof(name));
    memcpy(name + MATCHED_SPAN_NAME_MAX - 1, "\xc3\x9f", 2);
    history_add_sample(fixture, T0 + SECOND, (struct fixture_ids){1, 2, 0}, 5);
    fixture_span(&span, 1, 2, 1, 2, 10);
    span.span.name = BYTES(name, sizeof(name));
    history_receive(fixture, &span);
    fixture_span_close(&span);
    assert_int_equal(history_close_window(fixture, T0 + 5 * SECOND), 1);
    const struct told_history *told = history_told(fixture);
    assert_int_equal(told->n_spans, 1);
    assert_int_equal(told->n_samples, 1);
    const char *kept = history_text_of(fixture, told->spans[0].series.span_name);
    assert_int_equal(strlen(kept), MATCHED_SPAN_NAME_MAX - 1);
    assert_memory_equal(kept, name, MATCHED_SPAN_NAME_MAX - 1);
    assert_int_equal(told->samples[0].series.span_name, told->spans[0].series.span_name);
}

/* Without a span: what the context says; or nothing. */
static void test_unjoined(void **state)
{
    struct fixture *fixture = *state;
    history_add_sample(fixture, T0, (struct fixture_ids){0, 0, 0}, 1);
    history_add_sample(fixture, T0, (struct fixture_ids){3, 4, 5}, 2);
    assert_int_equal(history_close_window(fixture, T0 + 5 * SECOND), 1); /* the other waits */
    assert_int_equal(history_told(fixture)->n_samples, 1);
    assert_int_equal(history_close_window(fixture, T0 + 70 * SECOND), 1);
    const struct told_history *told = history_told(fixture);
    assert_int_equal(told->n_blocks, 2);
    assert_int_equal(told->n_spans, 0);
    assert_int_equal(told->n_samples, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_false(told->samples[i].context.matched);
        assert_int_equal(told->samples[i].context.span, HISTORY_NO_SPAN);
        assert_int_equal(told->samples[i].series.span_name, 0);
        assert_string_equal(history_text_of(fixture, told->samples[i].series.service),
                            "unknown_service:shop");
    }
    assert_true(bytes_zero(told->samples[0].context.trace_id, 16));
    is_id(told->samples[1].context.span_id, 4);
    is_id(told->samples[1].context.local_root_id, 5);
}

/* A sample that comes after its span's block is that span's all the same, and says all itself. */
static void test_late(void **state)
{
    struct fixture *fixture = *state;
    history_add_sample(fixture, T0, (struct fixture_ids){1, 2, 0}, 1);
    history_receive_simple(fixture, 1, 2, 0, 0, 1);
    history_close_window(fixture, T0 + 5 * SECOND);
    history_add_sample(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 2, 0}, 1);
    assert_int_equal(history_close_window(fixture, T0 + 10 * SECOND), 1);
    const struct told_history *told = history_told(fixture);
    assert_int_equal(told->n_spans, 1);
    assert_int_equal(told->n_samples, 2);
    const struct told_sample *late = &told->samples[1];
    assert_true(late->seq != told->samples[0].seq);
    assert_true(late->context.matched);
    assert_int_equal(late->context.span, HISTORY_NO_SPAN);
    is_id(late->context.span_id, 2);
    assert_true(has_text(late->attributes, late->attributes_len, "/cart"));
    assert_string_equal(history_text_of(fixture, late->series.span_name), "GET /cart");
}

/* Killed between span and window: the span is found again with its samples. */
static void test_killed_before_the_window(void **state)
{
    struct fixture *fixture = *state;
    history_add_sample(fixture, T0, (struct fixture_ids){1, 2, 1}, 1);
    history_add_sample(fixture, T0 + TICK, (struct fixture_ids){1, 2, 1}, 1);
    struct fixture_span span;
    fixture_span(&span, 1, 2, 0, 1, 10);
    fixture_span_parent(&span, 1);
    static const uint8_t failed[] = {0x7a, 2, 0x18, 2};
    assert_int_equal(buf_append(&span.raw, failed, sizeof(failed)), 0);
    history_receive(fixture, &span);
    fixture_span_close(&span);
    fixture_reopen(fixture);
    assert_int_equal(history_close_window(fixture, T0 + 5 * SECOND), 2);
    const struct told_history *told = history_told(fixture);
    assert_int_equal(told->n_spans, 1);
    assert_int_equal(told->n_samples, 2);
    const struct told_span *back = told_span(told, 2);
    is_id(back->row.parent_id, 1);
    assert_true(back->row.error);
    assert_int_equal(back->row.start_unix_ns, T0);
    assert_int_equal(back->row.duration_ns, SECOND);
    assert_int_equal(back->row.samples, 2);
    assert_int_equal(back->row.cpu_ns, 2 * TICK);
    assert_true(has_text(back->attributes, back->attributes_len, "/cart"));
    assert_string_equal(history_text_of(fixture, back->series.span_name), "GET /cart");
    assert_true(told->samples[0].context.span == 0 && told->samples[1].context.span == 0);
}

/* A request that was sent again tells no span twice. */
static void test_sent_again(void **state)
{
    struct fixture *fixture = *state;
    history_add_sample(fixture, T0, (struct fixture_ids){1, 2, 0}, 1);
    history_receive_simple(fixture, 1, 2, 0, 0, 1);
    history_receive_simple(fixture, 1, 2, 0, 0, 1);
    history_close_window(fixture, T0 + 5 * SECOND);
    assert_int_equal(history_told(fixture)->n_spans, 1);
}

static void test_spans_that_make_no_sense(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    fixture_span(&span, 1, 1, 0, 1, 0);
    span.span.start_unix_ns = UINT64_MAX;
    span.span.end_unix_ns = 5;
    history_receive(fixture, &span);
    fixture_span_close(&span);
    fixture_span(&span, 1, 2, 0, 1, 0);
    span.span.start_unix_ns = 0;
    span.span.end_unix_ns = UINT64_MAX;
    span.span.kind = 77;
    history_receive(fixture, &span);
    fixture_span_close(&span);
    fixture_span(&span, 1, 3, 0, 1, 0);
    span.span.trace_id.len = 15;
    history_receive(fixture, &span);
    fixture_span_close(&span);
    fixture_span(&span, 0, 3, 0, 1, 0);
    history_receive(fixture, &span);
    fixture_span_close(&span);
    history_close_window(fixture, T0 + 5 * SECOND);
    sqlite3_stmt *row;
    struct db *db = store_db(fixture->store);
    assert_int_equal(db_prepare(db, "SELECT spans, spans_to_unix_ns > 0 FROM history_block", &row),
                     0);
    assert_int_equal(db_step(db, row), 1);
    assert_int_equal(sqlite3_column_int64(row, 0), 2);
    assert_int_equal(sqlite3_column_int64(row, 1), 1);
    db_unprepare(db, &row);
}

/* Minutes are what blocks say, at any moment, and after any restart. */
static void test_minutes(void **state)
{
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < 60; i++) {
        uint64_t time = T0 + i * 7 * SECOND;
        history_add_sample(fixture, time, (struct fixture_ids){0, 0, 0}, i % 5);
        history_add_sample(fixture, time - 90 * SECOND, (struct fixture_ids){0, 0, 0}, i % 3);
        assert_int_equal(history_close_window(fixture, time), 2);
        const struct told_history *told = history_told(fixture);
        assert_int_equal(told->n_samples, (i + 1) * 2);
        assert_int_equal(told->summed_samples, told->n_samples);
        assert_int_equal(told->summed_value_ns, told->n_samples * TICK);
        if (i % 9 == 0)
            fixture_reopen(fixture);
    }
    const struct told_history *told = history_told(fixture);
    assert_true(told->minute_samples >= 100);
    assert_in_range(told->n_minutes, 15, 35);
}

/* More in one window than a block may have: several blocks. */
static void test_many_samples(void **state)
{
    struct fixture *fixture = *state;
    struct join *join = store_join(fixture->store);
    const unsigned n = HISTORY_BLOCK_SAMPLES_MAX + 1000;
    int64_t stack = fixture_stack(fixture, 1),
            process = fixture_process(fixture, 10, BYTES(NULL, 0));
    fixture_begin(fixture);
    join_batch_begin(join);
    for (unsigned i = 0; i < n; i++) {
        struct sample sample =
            fixture_sample(T0 + i * UINT64_C(50000),
                           (struct fixture_ids){i % 100 + 1, i % 1000 + 1, 0}, stack, process);
        assert_int_equal(join_add_sample(join, &sample), 0);
    }
    assert_int_equal(join_batch_commit(join), 0);
    fixture_commit(fixture);
    history_receive_simple(fixture, 1, 1, 0, 0, 10);
    assert_int_equal(history_close_window(fixture, T0 + 70 * SECOND), n);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 2);
    assert_int_equal(history_count(fixture, "SELECT sum(samples) FROM history_block"), n);
    assert_int_equal(history_count(fixture, "SELECT sum(spans) FROM history_block"), 1);
}

/* Many spans are written before their window ends; few wait for it. */
static void test_many_spans(void **state)
{
    struct fixture *fixture = *state;
    for (unsigned i = 1; i < 256; i++)
        history_receive_simple(fixture, 1, i, 0, 0, 10);
    history_tidy(fixture, T0 + SECOND);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 0);
    history_receive_simple(fixture, 1, 256, 0, 0, 10);
    history_tidy(fixture, T0 + 2 * SECOND);
    assert_int_equal(history_count(fixture, "SELECT sum(spans) FROM history_block"), 256);
    history_receive_simple(fixture, 1, 257, 0, 0, 10);
    assert_int_equal(history_close_window(fixture, T0 + 5 * SECOND), 0);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 2);
    assert_int_equal(history_count(fixture, "SELECT sum(spans) FROM history_block"), 257);
}

static int prepare(struct fixture *fixture)
{
    fixture_begin(fixture);
    int outcome = store_prepare(fixture->store);
    fixture_commit(fixture);
    return outcome;
}

/* New names are stored in several transactions, and each span still gets its own name. */
static void test_many_new_names(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    char name[32];
    unsigned steps = 1;
    for (unsigned i = 1; i <= 450; i++) {
        fixture_span(&span, 1, i, 0, 10, 10);
        snprintf(name, sizeof(name), "name %u", i);
        span.span.name = BYTES_STR(name);
        history_receive(fixture, &span);
        fixture_span_close(&span);
    }
    while (prepare(fixture) == STORE_MORE)
        assert_true(++steps < 20);
    assert_true(steps >= 3); /* a name and a series of each */
    unsigned before = history_count(fixture, "SELECT count(*) FROM history_series");
    assert_int_equal(before, 450);
    assert_int_equal(history_close_window(fixture, T0 + 15 * SECOND), 0);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_series"), before);
    const struct told_history *told = history_told(fixture);
    assert_int_equal(told->n_spans, 450);
    for (unsigned i = 0; i < told->n_spans; i++) {
        unsigned id =
            (unsigned)told->spans[i].row.span_id[7] + 256u * told->spans[i].row.span_id[6];
        snprintf(name, sizeof(name), "name %u", id);
        assert_string_equal(history_text_of(fixture, told->spans[i].series.span_name), name);
    }
}

/* A transaction that fails leaves nothing, and the next one tells all once. */
static void test_rolled_back(void **state)
{
    struct fixture *fixture = *state;
    static const struct window_settings settings = {
        .max_request_bytes = 4 << 20, .destinations = 1, .scope_version = "0"};
    size_t n;
    history_add_sample(fixture, T0, (struct fixture_ids){1, 2, 0}, 1);
    history_receive_simple(fixture, 1, 2, 0, 0, 1);
    fixture_begin(fixture);
    assert_int_equal(store_window(fixture->store, &settings, T0 + 5 * SECOND, &n), 0);
    store_fail(fixture->store, -EIO);
    assert_int_equal(store_end(fixture->store), -EIO);
    assert_int_equal(history_told(fixture)->n_blocks, 0);
    assert_int_equal(history_close_window(fixture, T0 + 10 * SECOND), 1);
    const struct told_history *told = history_told(fixture);
    assert_int_equal(told->n_blocks, 1);
    assert_int_equal(told->n_samples, 1);
    assert_int_equal(told->n_spans, 1);
    assert_int_equal(told->summed_samples, 1);
    assert_int_equal(told->spans[0].row.samples, 1);
    assert_string_equal(history_text_of(fixture, told->spans[0].series.span_name), "GET /cart");
}

/* A block that was damaged is removed when it is met. */
static void test_damaged(void **state)
{
    struct fixture *fixture = *state;
    history_fill(fixture, 3, T0);
    int64_t before = stats_find("spanprof_history_blocks_expired_total", "reason=\"damaged\"");
    fixture_begin(fixture);
    assert_int_equal(db_exec(store_db(fixture->store),
                             "UPDATE history_part SET body = x'0102ffffffff' WHERE id = 9"),
                     0); /* the samples of block 2 */
    fixture_commit(fixture);
    fixture_reopen(fixture);
    const struct told_history *told = history_told(fixture);
    assert_int_equal(told->n_blocks, 2);
    assert_int_equal(told->n_samples, 2);
    assert_int_equal(stats_find("spanprof_history_blocks_expired_total", "reason=\"damaged\""),
                     before + 1);
    history_fill(fixture, 3, T0 + 100 * SECOND);
    told = history_told(fixture);
    assert_int_equal(told->summed_samples, 5);
}

/* Rows that claim what they like do not stop the store. */
static void test_damaged_rows(void **state)
{
    struct fixture *fixture = *state;
    history_fill(fixture, 20, T0);
    fixture_begin(fixture);
    assert_int_equal(db_exec(store_db(fixture->store),
                             "UPDATE history_block SET bytes = -1, spans = -5 WHERE seq = 2;"
                             "UPDATE history_block SET written_unix_ns = 'x' WHERE seq = 3;"
                             "UPDATE history_minute SET through = 0;"
                             "UPDATE history_minute_stacks SET body = 'damage';"
                             "DELETE FROM history_part WHERE id > 60"),
                     0);
    fixture_commit(fixture);
    fixture_reopen(fixture);
    history_tidy(fixture, T0 + 200 * SECOND);
    history_fill(fixture, 3, T0 + 200 * SECOND);
    for (unsigned i = 0; i < 20; i++)
        history_tidy(fixture, T0 + 10000 * SECOND);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 0);
}

/* A promised stack that was fulfilled is told as the one that it is. */
static void test_promised(void **state)
{
    struct fixture *fixture = *state;
    struct frame frame = {STACK_FRAME_NATIVE, 0, 0x1234};
    int64_t promised, stack = fixture_stack(fixture, 1);
    fixture_begin(fixture);
    assert_int_equal(stacks_open_frames(store_stacks(fixture->store), &frame, 1, 0, &promised), 0);
    fixture_commit(fixture);
    struct sample sample = fixture_sample(T0, (struct fixture_ids){0, 0, 0}, promised, 0);
    fixture_add(fixture, &sample);
    assert_int_equal(history_close_window(fixture, T0 + SECOND), 0);
    fixture_begin(fixture);
    assert_int_equal(stacks_finish_frames(store_stacks(fixture->store), promised, stack), 0);
    fixture_commit(fixture);
    assert_int_equal(history_close_window(fixture, T0 + 5 * SECOND), 1);
    assert_int_equal(history_told(fixture)->samples[0].stack, stack);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_joined),         TEST(test_unjoined),
        TEST(test_late),           TEST(test_killed_before_the_window),
        TEST(test_sent_again),     TEST(test_spans_that_make_no_sense),
        TEST(test_minutes),        TEST(test_many_samples),
        TEST(test_rolled_back),    TEST(test_damaged),
        TEST(test_damaged_rows),   TEST(test_promised),
        TEST(test_long_name),      TEST(test_many_spans),
        TEST(test_many_new_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
