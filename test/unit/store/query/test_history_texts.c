/* SPDX-License-Identifier: Apache-2.0 */
/* Names that may be asked for: also those of spans that no sample hit. */
#include "test/support/rigs/history_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define T0   (UINT64_C(1795284000) * FIXTURE_SECOND)
#define LONG (FIXTURE_SECOND / 2)

static void put_span(struct history_rig *rig, uint8_t id, const struct rig_series *series)
{
    struct history_block_span span = {.series = history_rig_series(rig, series),
                                      .start_unix_ns = T0 + id * LONG,
                                      .duration_ns = LONG,
                                      .local_root = true,
                                      .trace_id = {id},
                                      .span_id = {id}};
    history_rig_span(rig, &span, BYTES(NULL, 0));
}

static void put_sample(struct history_rig *rig, uint8_t id, const struct rig_series *series)
{
    const struct history_sample sample = {
        .series = history_rig_series(rig, series),
        .time_unix_ns = T0 + id * LONG,
        .value_ns = FIXTURE_TICK,
        .period_ns = FIXTURE_TICK,
        .context = {.matched = true, .span = HISTORY_NO_SPAN, .trace_id = {id}, .span_id = {id}}};
    history_rig_sample(rig, &sample, BYTES(NULL, 0));
}

static int set_up(void **state)
{
    const struct rig_series waits = {.service = "front", .span_name = "GET /", .span_kind = 2};
    const struct rig_series works = {.service = "back", .span_name = "work", .span_kind = 1};
    struct rig_series on_cpu = works;
    struct history_rig *rig = history_rig_open();
    on_cpu.thread = "worker";
    on_cpu.sample_kind = SAMPLE_CPU;
    fixture_begin(&rig->fixture);
    put_span(rig, 1, &waits);
    put_span(rig, 2, &works);
    put_span(rig, 3, &waits);
    put_sample(rig, 2, &on_cpu);
    history_rig_block(rig, T0 + 5 * FIXTURE_SECOND);
    fixture_commit(&rig->fixture);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    history_rig_close(*state);
    return 0;
}

static void expect(struct history_rig *rig, enum history_text text, const char *first,
                   const char *second)
{
    const struct history_filter filter = {.from_unix_ns = T0,
                                          .to_unix_ns = T0 + FIXTURE_SECOND * 60};
    struct bytes *texts;
    size_t n;
    assert_int_equal(history_texts(rig->reader, &filter, text, &rig->arena, &texts, &n), 0);
    assert_int_equal(n, second ? 2 : 1);
    assert_true(bytes_is(texts[0], first));
    if (second)
        assert_true(bytes_is(texts[1], second));
}

static void names_with_cpu_time_come_first_each_once(void **state)
{
    expect(*state, HISTORY_SPAN_NAMES, "work", "GET /");
    expect(*state, HISTORY_SERVICES, "back", "front");
    expect(*state, HISTORY_THREADS, "worker", NULL);
}

static void nothing_is_known_of_another_time(void **state)
{
    const struct history_filter filter = {.from_unix_ns = T0 + FIXTURE_SECOND * 600,
                                          .to_unix_ns = T0 + FIXTURE_SECOND * 660};
    struct history_rig *rig = *state;
    struct bytes *texts;
    size_t n;
    assert_int_equal(
        history_texts(rig->reader, &filter, HISTORY_SPAN_NAMES, &rig->arena, &texts, &n), 0);
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_with_cpu_time_come_first_each_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_known_of_another_time, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
