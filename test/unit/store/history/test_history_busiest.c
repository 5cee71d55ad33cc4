/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces in each order, of a history with many more than an answer has: traces in several blocks,
 * equal values, ranges. What is right is counted by going through everything.
 */
#include "proto/otlp/otlp_spans.h"
#include "store/join/sample.h"
#include "test/support/rigs/history_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define BLOCKS     40
#define IN_A_BLOCK 700 /* traces that begin in it: far more than it lists */
#define TRACES     (BLOCKS * IN_A_BLOCK)
#define SECOND     FIXTURE_SECOND
#define MS         (SECOND / 1000)
#define BLOCK_NS   (5 * SECOND)

struct known {
    uint8_t id[16];
    uint64_t start_unix_ns, duration_ns; /* of its root */
    uint64_t cpu_ns, samples;
    uint32_t n_spans;
    unsigned service;
    uint64_t first_service_ns; /* duration of its longest span of service 1; 0: none */
};

static struct history_rig *rig;
static struct known traces[TRACES];
static int64_t services[2];
static uint64_t n_span_ids, random_state = 88172645463325252U;

static uint64_t any(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static void put_span(struct known *trace, uint64_t start, uint64_t end, unsigned samples,
                     unsigned service)
{
    struct history_block_span span = {.series = services[service],
                                      .start_unix_ns = start,
                                      .duration_ns = end - start,
                                      .samples = samples,
                                      .cpu_ns = samples * FIXTURE_TICK,
                                      .local_root = start == trace->start_unix_ns};
    memcpy(span.trace_id, trace->id, 16);
    memcpy(span.span_id, &(uint64_t){++n_span_ids}, 8);
    history_rig_span(rig, &span, BYTES(NULL, 0));
    trace->n_spans++;
    trace->samples += samples;
    trace->cpu_ns += span.cpu_ns;
    if (service && trace->first_service_ns < span.duration_ns)
        trace->first_service_ns = span.duration_ns;
}

/* Mostly short, of one or two samples; some go on for several blocks, a sample or so in each, and
 * their root comes last. */
static void begin_trace(unsigned block, unsigned i)
{
    struct known *trace = &traces[block * IN_A_BLOCK + i];
    uint64_t from = FIXTURE_T0 + block * BLOCK_NS;
    trace->start_unix_ns = from + any(4000) * MS;
    trace->duration_ns = i % 35 ? (1 + any(60)) * MS : (5 + any(40)) * SECOND;
    trace->service = (unsigned)any(2);
    for (size_t k = 0; k < 16; k++)
        trace->id[k] = (uint8_t)any(256);
}

static void put_part(struct known *trace, unsigned block)
{
    uint64_t from = FIXTURE_T0 + block * BLOCK_NS, to = from + BLOCK_NS;
    uint64_t end = trace->start_unix_ns + trace->duration_ns;
    uint64_t start = trace->start_unix_ns > from ? trace->start_unix_ns : from;
    if (!trace->duration_ns || trace->start_unix_ns >= to || end < from)
        return;
    bool is_long = trace->duration_ns > SECOND;
    if (is_long) /* what ends here */
        put_span(trace, start + 1, (end < to ? end : to) - 1, (unsigned)any(3), (unsigned)any(2));
    if (end < to)
        put_span(trace, trace->start_unix_ns, end, (unsigned)(any(100) ? any(3) : any(9)),
                 trace->service);
}

static int set_up(void **state)
{
    (void)state;
    rig = history_rig_open();
    fixture_begin(&rig->fixture);
    for (unsigned i = 0; i < 2; i++)
        services[i] = history_rig_series(
            rig, &(struct rig_series){.service = i ? "one" : "zero", .span_name = "GET"});
    for (unsigned block = 0; block < BLOCKS + 10; block++) {
        for (unsigned i = 0; block < BLOCKS && i < IN_A_BLOCK; i++)
            begin_trace(block, i);
        for (size_t i = 0; i < TRACES; i++)
            put_part(&traces[i], block);
        history_rig_block(rig, FIXTURE_T0 + (block + 1) * BLOCK_NS);
    }
    fixture_commit(&rig->fixture);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    history_rig_close(rig);
    return 0;
}

static const struct known *known_of(const uint8_t id[16])
{
    for (size_t i = 0; i < TRACES; i++)
        if (!memcmp(traces[i].id, id, 16))
            return &traces[i];
    fail();
    return NULL;
}

static bool runs_in(const struct known *trace, const struct history_filter *filter)
{
    return (!filter->to_unix_ns || trace->start_unix_ns < filter->to_unix_ns) &&
           trace->start_unix_ns + trace->duration_ns >= filter->from_unix_ns;
}

static uint64_t rank_of(const struct known *trace, const struct history_filter *filter,
                        enum history_order order)
{
    if (filter->service.len)
        return trace->first_service_ns;
    return order == HISTORY_MOST_CPU ? trace->cpu_ns
           : order == HISTORY_LATEST ? trace->start_unix_ns
                                     : trace->duration_ns;
}

static bool passes(const struct known *trace, const struct history_filter *filter)
{
    return runs_in(trace, filter) && (!filter->service.len || trace->first_service_ns) &&
           trace->duration_ns >= filter->min_duration_ns;
}

/* Of one that goes on beyond the range not all is looked at before it is chosen. */
static bool is_judged(const struct known *trace, const struct history_filter *filter,
                      enum history_order order)
{
    bool whole =
        trace->start_unix_ns >= filter->from_unix_ns &&
        (!filter->to_unix_ns || trace->start_unix_ns + trace->duration_ns < filter->to_unix_ns);
    return passes(trace, filter) && (whole || order != HISTORY_MOST_CPU);
}

static void check(const struct history_filter *filter, enum history_order order, size_t limit)
{
    struct history_traces found;
    uint64_t least = UINT64_MAX;
    size_t n = 0, better = 0;
    arena_reset(&rig->arena);
    assert_int_equal(history_traces(rig->reader, filter, order, limit, &rig->arena, &found), 0);
    assert_true(found.complete);
    for (size_t i = 0; i < found.n; i++) {
        const struct history_trace_summary *trace = &found.traces[i];
        const struct known *known = known_of(trace->trace_id);
        assert_true(passes(known, filter));
        assert_int_equal(trace->cpu_ns, known->cpu_ns);
        assert_int_equal(trace->samples, known->samples);
        assert_int_equal(trace->n_spans, known->n_spans);
        assert_int_equal(trace->duration_ns, known->duration_ns);
        assert_int_equal(trace->start_unix_ns, known->start_unix_ns);
        if (rank_of(known, filter, order) < least)
            least = rank_of(known, filter, order);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(found.traces[k].trace_id, trace->trace_id, 16);
    }
    for (size_t i = 0; i < TRACES; i++) {
        n += passes(&traces[i], filter);
        better +=
            is_judged(&traces[i], filter, order) && rank_of(&traces[i], filter, order) > least;
    }
    assert_int_equal(found.n, n < limit ? n : limit);
    assert_true(better < limit);
}

static void none_has_more_cpu_time(void **state)
{
    static const size_t limits[] = {1, 7, 50, 128, 400, 1000};
    (void)state;
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
        check(&(struct history_filter){0}, HISTORY_MOST_CPU, limits[i]);
}

/* Equal ones by their id, so the same question has the same answer. */
static void equal_ones_are_in_order(void **state)
{
    const struct history_filter filter = {0};
    struct history_traces found;
    (void)state;
    arena_reset(&rig->arena);
    assert_int_equal(
        history_traces(rig->reader, &filter, HISTORY_MOST_CPU, 400, &rig->arena, &found), 0);
    for (size_t i = 1; i < found.n; i++) {
        const struct history_trace_summary *a = &found.traces[i - 1], *b = &found.traces[i];
        assert_true(a->cpu_ns > b->cpu_ns ||
                    (a->cpu_ns == b->cpu_ns && memcmp(a->trace_id, b->trace_id, 16) < 0));
    }
    const struct history_trace_summary *last = &found.traces[found.n - 1];
    size_t before = 0;
    for (size_t i = 0; i < TRACES; i++)
        before += traces[i].cpu_ns > last->cpu_ns || (traces[i].cpu_ns == last->cpu_ns &&
                                                      memcmp(traces[i].id, last->trace_id, 16) < 0);
    assert_int_equal(before, found.n - 1);
}

static void none_in_the_range_has_more_cpu_time(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 30; i++) {
        uint64_t from = FIXTURE_T0 + any(BLOCKS * 5000) * MS;
        const struct history_filter filter = {.from_unix_ns = from,
                                              .to_unix_ns = from + (1 + any(60000)) * MS};
        check(&filter, HISTORY_MOST_CPU, 1 + any(60));
    }
}

static void none_is_slower_or_later(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        struct history_filter filter = {0};
        if (i % 3 == 1)
            filter.service = BYTES_LIT("one");
        if (i % 5 == 1)
            filter.min_duration_ns = any(20000) * MS;
        check(&filter, HISTORY_SLOWEST, 1 + any(300));
        if (!filter.service.len)
            check(&filter, HISTORY_LATEST, 1 + any(300));
    }
}

static void what_nobody_is_called_is_not_searched_for(void **state)
{
    static const enum history_order orders[] = {HISTORY_SLOWEST, HISTORY_LATEST, HISTORY_MOST_CPU};
    const struct bytes nobody = BYTES_LIT("nobody");
    const struct history_filter filters[] = {{.service = nobody},
                                             {.span_name = nobody},
                                             {.thread = nobody},
                                             {.container = nobody},
                                             {.host = nobody}};
    struct history_traces found;
    (void)state;
    for (unsigned i = 0; i < 15; i++) {
        arena_reset(&rig->arena);
        assert_int_equal(
            history_traces(rig->reader, &filters[i % 5], orders[i % 3], 50, &rig->arena, &found),
            0);
        assert_int_equal(found.n, 0);
        assert_int_equal(found.searched_spans, 0);
        assert_true(found.complete);
    }
}

/* Without its lists a block is read as a whole, and the answer is the same. */
static void without_lists_all_is_read(void **state)
{
    const struct history_filter filter = {0};
    struct history_traces with, without;
    (void)state;
    arena_reset(&rig->arena);
    assert_int_equal(history_traces(rig->reader, &filter, HISTORY_MOST_CPU, 50, &rig->arena, &with),
                     0);
    fixture_begin(&rig->fixture);
    char sql[96];
    snprintf(sql, sizeof(sql), "DELETE FROM history_part WHERE id %% %d = %d", HISTORY_PARTS,
             HISTORY_PART_BUSIEST);
    assert_int_equal(db_exec(store_db(rig->fixture.store), sql), 0);
    fixture_commit(&rig->fixture);
    assert_int_equal(
        history_traces(rig->reader, &filter, HISTORY_MOST_CPU, 50, &rig->arena, &without), 0);
    assert_true(without.complete && with.searched_spans < without.searched_spans);
    assert_int_equal(with.n, without.n);
    for (size_t i = 0; i < with.n; i++)
        assert_int_equal(with.traces[i].cpu_ns, without.traces[i].cpu_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_has_more_cpu_time),
        cmocka_unit_test(equal_ones_are_in_order),
        cmocka_unit_test(none_in_the_range_has_more_cpu_time),
        cmocka_unit_test(none_is_slower_or_later),
        cmocka_unit_test(what_nobody_is_called_is_not_searched_for),
        cmocka_unit_test(without_lists_all_is_read),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
