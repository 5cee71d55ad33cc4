/* SPDX-License-Identifier: Apache-2.0 */
/* When the history forgets, and what it keeps others from forgetting. */
#include "base/stats.h"
#include "store/history/history_block.h"
#include "store/history/history_names.h"
#include "test/support/fixtures/history_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define T0     FIXTURE_T0
#define SECOND FIXTURE_SECOND

/* What is too old goes, in steps, with all that was it. */
static void test_retention(void **state)
{
    struct fixture *fixture = *state;
    history_fill(fixture, 100, T0);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 100);
    history_tidy(fixture, T0 + 3600 * SECOND);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 99);
    history_tidy(fixture, T0 + 3601 * SECOND);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 99);
    history_tidy(fixture, T0 + 3700 * SECOND); /* 20 are too old, and a minute */
    unsigned left = history_count(fixture, "SELECT count(*) FROM history_block");
    assert_in_range(left, 85, 95); /* a step */
    for (unsigned i = 0; i < 5; i++)
        history_tidy(fixture, T0 + 3700 * SECOND);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 79);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_part"),
                     79 * HISTORY_PARTS);
    fixture_reopen(fixture);
    for (unsigned i = 0; i < 40; i++)
        history_tidy(fixture, T0 + 8000 * SECOND);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 0);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_part"), 0);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_minute"), 0);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_minute_entries"), 0);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_minute_stacks"), 0);
    assert_int_equal(stats_find("spanprof_history_blocks", ""), 0);
    assert_int_equal(stats_find("spanprof_history_bytes", ""), 0);
}

/* A clock that was set back leaves nothing that lasts for ever. */
static void test_clock_set_back(void **state)
{
    struct fixture *fixture = *state;
    history_fill(fixture, 5, T0 + 86400 * SECOND);
    history_fill(fixture, 5, T0);
    for (unsigned i = 0; i < 5; i++)
        history_tidy(fixture, T0 + 30 * SECOND);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 5);
    assert_int_equal(history_count(fixture, "SELECT min(written_unix_ns) >= 1700000000000000000 AND"
                                            " max(written_unix_ns) < 1700000100000000000"
                                            " FROM history_block"),
                     1);
}

static void test_size(void **state)
{
    struct fixture *fixture = *state;
    fixture_close(fixture);
    fixture->settings.history.max_size_bytes = 20000;
    fixture_open(fixture);
    int64_t before = stats_find("spanprof_history_blocks_expired_total", "reason=\"max_size\"");
    for (unsigned i = 0; i < 200; i++) {
        history_fill(fixture, 1, T0 + i * 5 * SECOND);
        history_tidy(fixture, T0 + i * 5 * SECOND);
        assert_true(stats_find("spanprof_history_bytes", "") <= 20000);
    }
    unsigned left = history_count(fixture, "SELECT count(*) FROM history_block");
    assert_in_range(left, 20, 100);
    assert_int_equal(stats_find("spanprof_history_blocks_expired_total", "reason=\"max_size\"") -
                         before,
                     200 - left);
    assert_int_equal(history_count(fixture, "SELECT max(seq) FROM history_block"), 200);
    assert_in_range(history_count(fixture, "SELECT count(*) FROM history_minute"), left / 12,
                    left / 12 + 2);
}

/* While the history needs a stack the dictionary keeps it. */
static void test_stacks_are_kept(void **state)
{
    struct fixture *fixture = *state;
    history_fill(fixture, 30, T0);
    int64_t stacks = history_count(fixture, "SELECT count(*) FROM stack");
    uint64_t now = T0 + 200 * SECOND;
    for (unsigned i = 0; i < 20; i++) { /* five generations of stacks */
        now += STACKS_GENERATION_NS / 4;
        history_tidy(fixture, now);
    }
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM stack"), stacks);
    assert_int_equal(history_told(fixture)->n_samples, 30);
    for (unsigned i = 0; i < 40; i++) {
        now += STACKS_GENERATION_NS / 4;
        history_tidy(fixture, now);
    }
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 0);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM stack"), 0);
}

/* Texts stay as long as blocks that name them, and then go. */
static void test_texts_are_swept(void **state)
{
    struct fixture *fixture = *state;
    uint64_t now = T0;
    for (unsigned i = 0; i < 4 * 3600 / 60; i++, now += 60 * SECOND) {
        char name[32];
        struct fixture_span span;
        snprintf(name, sizeof(name), "GET /%u", i);
        fixture_span(&span, i + 1, 1, 0, 1, 10);
        span.span.name = BYTES_STR(name);
        history_receive(fixture, &span);
        fixture_span_close(&span);
        history_close_window(fixture, now);
        history_tidy(fixture, now);
        const struct told_history *told = history_told(fixture);
        for (size_t k = 0; k < told->n_spans; k++)
            assert_int_equal(
                strncmp(history_text_of(fixture, told->spans[k].series.span_name), "GET /", 5), 0);
    }
    assert_in_range(history_count(fixture, "SELECT count(*) FROM history_text"), 60, 200);
    assert_in_range(history_count(fixture, "SELECT count(*) FROM history_series"), 60, 200);
}

/* A sender of many large spans fills its share of each window, not what the others have. */
static void test_window_shares(void **state)
{
    struct fixture *fixture = *state;
    static char name[1000];
    fixture_close(fixture);
    fixture->settings.history.max_size_bytes = 4 << 20;
    fixture->settings.history.max_spans_per_second = 4000;
    fixture_open(fixture);
    memset(name, 'x', sizeof(name));
    int64_t before = stats_find("spanprof_history_spans_over_share_total", "");
    for (unsigned window = 0; window < 20; window++) {
        for (unsigned i = 1; i <= 100; i++) {
            struct fixture_span span;
            fixture_span(&span, window * 1000 + i, i, 0, 1, 0);
            if (i < 100) { /* the last is of another service, which comes last */
                buf_clear(&span.resource);
                otlp_attribute_string(&span.resource, 1, "service.name", BYTES_LIT("flood"));
                span.span.resource = buf_bytes(&span.resource);
                snprintf(name, 20, "%u %u", window, i);
                name[strlen(name)] = 'x';
                span.span.name = BYTES(name, sizeof(name));
            }
            history_receive(fixture, &span);
            fixture_span_close(&span);
        }
        history_close_window(fixture, T0 + window * 5 * SECOND);
    }
    const struct told_history *told = history_told(fixture);
    unsigned flood = 0, honest = 0;
    for (size_t i = 0; i < told->n_spans; i++)
        if (strlen(history_text_of(fixture, told->spans[i].series.span_name)) > 500)
            flood++;
        else
            honest++;
    assert_int_equal(honest, 20); /* one of each window */
    assert_in_range(flood, 20, 20 * 25);
    assert_int_equal(stats_find("spanprof_history_spans_over_share_total", "") - before,
                     20 * 99 - flood);
}

/* A store that is full of requests: the history keeps what is its own. */
static void test_short_store(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t body[100000];
    fixture_close(fixture);
    fixture->settings.db.max_size_bytes = 4 << 20;
    fixture->settings.history.max_size_bytes = 2 << 20;
    fixture_open(fixture);
    int64_t before = stats_find("spanprof_history_blocks_expired_total", "reason=\"store_short\"");
    history_fill(fixture, 100, T0);
    unsigned n = 0;
    for (; n < 100; n++) {
        fixture_begin(fixture);
        int error =
            outbox_put(store_outbox(fixture->store), SIGNAL_LOGS, 1, 1, BYTES(body, sizeof(body)));
        fixture_commit(fixture);
        history_tidy(fixture, T0 + 500 * SECOND);
        if (error)
            break;
    }
    assert_in_range(n, 8, 15);
    for (unsigned i = 0; i < 20; i++)
        history_tidy(fixture, T0 + 500 * SECOND);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 100);
    assert_true(stats_find("spanprof_history_blocks_expired_total", "reason=\"store_short\"") ==
                before);
}

/* Off: takes nothing, and what there was goes. */
static void test_disabled(void **state)
{
    struct fixture *fixture = *state;
    history_fill(fixture, 30, T0);
    fixture_close(fixture);
    fixture->settings.history.enabled = false;
    fixture_open(fixture);
    history_fill(fixture, 3, T0 + 200 * SECOND);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 30);
    for (unsigned i = 0; i < 10; i++)
        history_tidy(fixture, T0 + 300 * SECOND);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_block"), 0);
    assert_int_equal(history_count(fixture, "SELECT count(*) FROM history_minute"), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_retention),       TEST(test_clock_set_back),  TEST(test_size),
        TEST(test_stacks_are_kept), TEST(test_texts_are_swept), TEST(test_window_shares),
        TEST(test_short_store),     TEST(test_disabled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
