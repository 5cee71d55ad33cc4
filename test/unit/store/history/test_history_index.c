/* SPDX-License-Identifier: Apache-2.0 */
/* What is found by the index of a block is what all of the block has, and no more is read of it. */
#include "store/history/history_busiest.h"
#include "store/history/history_encode.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define SPANS   4000
#define SAMPLES 6000
#define TRACES  1500 /* the last ones have samples alone */
#define WHERES  4
#define BASE    UINT64_C(1795284000000000000)
#define PERIOD  UINT64_C(10309278)

static struct history_block_span spans[SPANS];
static struct history_sample samples[SAMPLES];
static struct blob_writer parts[HISTORY_PARTS];
static struct history_totals *totals;
static struct history_block_spans all; /* decoded */
static struct history_index block_index;
static uint64_t random_state = 88172645463325252U;

static uint64_t any(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static void trace_id_of(uint8_t id[16], uint64_t number)
{
    memset(id, 0, 16);
    memcpy(id, &(uint64_t){number * UINT64_C(0x9e3779b97f4a7c15)}, 8);
    memcpy(id + 8, &number, 8);
    id[15] = 1;
}

static struct bytes body_of(enum history_part part)
{
    return buf_bytes(&parts[part].buf);
}

/* One trace is larger than a chunk. */
static void make_spans(void)
{
    for (size_t i = 0; i < SPANS; i++) {
        struct history_block_span *span = &spans[i];
        *span = (struct history_block_span){.series = (int64_t)any(300),
                                            .start_unix_ns = BASE + any(5000000000),
                                            .duration_ns = any(1000) * 1000000,
                                            .error = !any(9)};
        trace_id_of(span->trace_id, any(6) ? any(TRACES - 100) : 7);
        memcpy(span->span_id, &(uint64_t){i + 1}, 8);
        if (any(3))
            memcpy(span->parent_id, &(uint64_t){any(SPANS)}, 8);
        span->samples = any(3);
        span->cpu_ns = span->samples * PERIOD;
        span->attributes_at = (uint32_t)any(9);
        span->attributes_len = (uint32_t)any(4) * 4;
    }
    assert_int_equal(history_spans_sort(spans, SPANS, NULL), 0);
}

static void make_samples(void)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        struct history_sample *sample = &samples[i];
        *sample = (struct history_sample){.context.span = HISTORY_NO_SPAN,
                                          .series = (int64_t)any(20),
                                          .stack = (int64_t)any(50),
                                          .time_unix_ns = BASE + any(60000000000),
                                          .value_ns = any(9) ? PERIOD : any(PERIOD),
                                          .period_ns = any(9) ? PERIOD : PERIOD / 2,
                                          .tid = (uint32_t)any(5),
                                          .attributes = any(3) ? 0 : (uint32_t)any(2) + 1};
        struct history_context *context = &sample->context;
        if (any(2)) {
            context->matched = true;
            context->span = (uint32_t)any(SPANS);
            memcpy(context->trace_id, spans[context->span].trace_id, 16);
            memcpy(context->span_id, spans[context->span].span_id, 8);
        } else if (any(2)) {
            trace_id_of(context->trace_id, TRACES - 200 + any(200));
            memcpy(context->span_id, &(uint64_t){any(9)}, 8);
        }
        if (any(2))
            memcpy(context->local_root_id, &(uint64_t){any(3)}, 8);
    }
}

static int set_up(void **state)
{
    static const struct bytes texts[2] = {{(const uint8_t *)"one", 3}, {(const uint8_t *)"two", 3}};
    struct history_content content = {.spans = spans,
                                      .n_spans = SPANS,
                                      .span_attributes = BYTES_LIT("aaaabbbbccccddddeeeeffff"),
                                      .samples = samples,
                                      .n_samples = SAMPLES,
                                      .sample_attributes = texts,
                                      .n_sample_attributes = 2};
    (void)state;
    make_spans();
    make_samples();
    assert_int_equal(history_totals_open(&totals), 0);
    assert_int_equal(history_encode(parts, &content, totals), 0);
    assert_int_equal(history_spans_decode(&all, body_of(HISTORY_PART_SPANS), true, SPANS, SPANS),
                     0);
    assert_int_equal(all.n, SPANS);
    assert_int_equal(history_index_open(&block_index, body_of(HISTORY_PART_TRACES)), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < HISTORY_PARTS; i++)
        blob_writer_closep(&parts[i]);
    history_spans_close(&all);
    history_totals_close(totals);
    return 0;
}

/* Samples */

struct told {
    struct history_context context;
    int64_t series, stack;
    uint64_t value_ns, period_ns;
    uint32_t tid, n;
    char attributes[4];
};

static size_t tell(struct history_samples *in, const uint8_t trace_id[16], struct told *told)
{
    const struct history_sample_group *group;
    size_t n = 0;
    int outcome;
    while ((outcome = history_samples_next(in, &group)) == 1) {
        if (memcmp(group->context.trace_id, trace_id, 16) != 0)
            continue;
        struct told *one = &told[n++];
        memset(one, 0, sizeof(*one));
        one->context = group->context;
        one->series = group->series;
        one->stack = group->stack;
        one->value_ns = group->value_ns;
        one->period_ns = group->period_ns;
        one->tid = group->tid;
        one->n = group->n;
        if (group->attributes.len)
            memcpy(one->attributes, group->attributes.data, group->attributes.len);
    }
    assert_int_equal(outcome, 0);
    history_samples_close(in);
    return n;
}

static struct bytes part_of(enum history_part part, size_t from, size_t to)
{
    struct bytes body = body_of(part);
    assert_true(from <= to && to <= body.len);
    return BYTES(body.data + from, to - from);
}

/* Rarely, that of another trace as well. */
static size_t find_where(uint64_t place, struct history_where where[WHERES])
{
    struct history_index index = block_index;
    struct history_where one;
    uint64_t at;
    size_t n = 0;
    while (history_index_next(&index, &at, &one) == 1) {
        if (at != place)
            continue;
        assert_true(n < WHERES);
        where[n++] = one;
    }
    return n;
}

static size_t spans_in_chunk(const struct history_chunk *chunk, const uint8_t trace_id[16],
                             struct history_block_spans *in)
{
    size_t n = 0;
    assert_int_equal(history_spans_decode_chunk(
                         in, part_of(HISTORY_PART_SPANS, 0, block_index.chunks.of[0].spans_at),
                         part_of(HISTORY_PART_SPANS, chunk->spans_at, chunk[1].spans_at),
                         chunk[1].first_span - chunk->first_span),
                     0);
    for (size_t i = 0; i < in->n; i++) {
        struct history_block_span span = all.spans[chunk->first_span + i];
        span.attributes_at = span.attributes_len = 0;
        assert_memory_equal(&in->spans[i], &span, sizeof(span));
        n += !memcmp(span.trace_id, trace_id, 16);
    }
    return n;
}

static size_t tell_tail(const uint8_t id[16], struct told *told)
{
    size_t from = block_index.chunks.of[block_index.chunks.n].samples_at;
    struct history_samples some;
    struct bytes tail = part_of(HISTORY_PART_SAMPLES, from, body_of(HISTORY_PART_SAMPLES).len);
    history_samples_open_chunk(&some, tail, NULL, 0, 0);
    return tell(&some, id, told);
}

static size_t tell_chunk(uint32_t i, const uint8_t id[16], size_t *n_spans, struct told *told)
{
    const struct history_chunk *chunk = &block_index.chunks.of[i];
    struct bytes body = part_of(HISTORY_PART_SAMPLES, chunk->samples_at, chunk[1].samples_at);
    struct history_block_spans in = {0};
    struct history_samples some;
    *n_spans += spans_in_chunk(chunk, id, &in);
    history_samples_open_chunk(&some, body, in.spans, chunk->first_span, in.n);
    size_t n = tell(&some, id, told);
    history_spans_close(&in);
    return n;
}

/* From its chunk and the tail alone: its spans and samples, as from all. Gives in how many places
 * it is looked for. */
static size_t check_trace(uint64_t number)
{
    static struct told told[SAMPLES], found[SAMPLES];
    struct history_samples all_samples;
    struct history_where where[WHERES];
    bool tail = false;
    uint8_t id[16];
    size_t n_spans = 0, n = 0, n_found = 0;
    trace_id_of(id, number);
    for (size_t i = 0; i < SPANS; i++)
        n_spans += !memcmp(all.spans[i].trace_id, id, 16);
    assert_int_equal(
        history_samples_open(&all_samples, body_of(HISTORY_PART_SAMPLES), all.spans, SPANS), 0);
    size_t n_told = tell(&all_samples, id, told);
    size_t n_where = find_where(history_index_place(&block_index, id), where);
    assert_int_equal(history_index_may_have(body_of(HISTORY_PART_TRACES), id), n_where > 0);
    for (size_t i = 0; i < n_where; i++) {
        tail |= where[i].tail;
        if (where[i].chunk != HISTORY_NO_CHUNK)
            n += tell_chunk(where[i].chunk, id, &n_found, &found[n]);
    }
    if (tail)
        n += tell_tail(id, &found[n]);
    assert_int_equal(n_found, n_spans);
    assert_int_equal(n, n_told);
    if (n)
        assert_memory_equal(found, told, n * sizeof(*told));
    return n_where;
}

static void a_trace_is_in_its_chunk_and_the_tail(void **state)
{
    (void)state;
    assert_true(block_index.chunks.n > 5);
    assert_int_equal(block_index.chunks.of[block_index.chunks.n].first_span, SPANS);
    size_t n = 0, in_vain = 0;
    for (uint64_t number = 0; number < TRACES; number++)
        n += check_trace(number);
    for (uint64_t number = TRACES; number < 2 * TRACES; number++)
        in_vain += check_trace(number);
    assert_in_range(n, TRACES - 200, TRACES + 50);
    assert_true(in_vain < TRACES / 30);
}

/* Each trace once, its spans together. */
static void traces_stand_by_their_longest_span(void **state)
{
    (void)state;
    uint64_t longest = UINT64_MAX;
    for (size_t i = 0, end; i < all.n; i = end) {
        assert_true(all.spans[i].duration_ns <= longest);
        longest = all.spans[i].duration_ns;
        for (end = i; end < all.n && !memcmp(all.spans[i].trace_id, all.spans[end].trace_id, 16);
             end++) {
            assert_true(all.spans[end].longest_ns == longest);
            assert_true(end == i || all.spans[end].duration_ns <= all.spans[end - 1].duration_ns);
        }
        for (size_t k = end; k < all.n && i % 50 == 0; k++)
            assert_memory_not_equal(all.spans[i].trace_id, all.spans[k].trace_id, 16);
    }
}

/* CPU time */

static void the_busiest_are_listed(void **state)
{
    static struct history_busy_trace traces[TRACES];
    struct history_busiest list;
    size_t n = 0;
    (void)state;
    for (uint64_t i = 0; i < TRACES; i++) {
        uint64_t cpu_ns = 0;
        trace_id_of(traces[n].trace_id, i);
        for (size_t k = 0; k < SPANS; k++)
            if (!memcmp(spans[k].trace_id, traces[n].trace_id, 16))
                cpu_ns += spans[k].cpu_ns;
        traces[n].cpu_ns = cpu_ns;
        n += cpu_ns != 0;
    }
    qsort(traces, n, sizeof(*traces), history_busiest_compare);
    assert_int_equal(history_busiest_open(&list, body_of(HISTORY_PART_BUSIEST)), 0);
    assert_false(list.is_all);
    assert_in_range(list.left, 20, HISTORY_BUSIEST_MAX);
    for (size_t i = 0; history_busiest_next(&list) == 1; i++) {
        assert_memory_equal(list.trace.trace_id, traces[i].trace_id, 16);
        assert_int_equal(list.trace.cpu_ns, traces[i].cpu_ns);
    }
    assert_false(list.in.bad || list.in.left.len);
}

static void few_are_listed_all(void **state)
{
    struct history_busy_trace traces[3] = {
        {{3}, UINT64_MAX}, {{2}, 5}, {{1}, 5}}; /* whatever a program sends */
    struct blob_writer out _cleanup_blob_ = {0}, none _cleanup_blob_ = {0};
    struct history_busiest list;
    (void)state;
    assert_int_equal(history_busiest_encode(&out, traces, 3), 0);
    assert_int_equal(history_busiest_open(&list, buf_bytes(&out.buf)), 0);
    assert_true(list.is_all);
    for (uint8_t i = 3; i; i--) {
        assert_int_equal(history_busiest_next(&list), 1);
        assert_int_equal(list.trace.trace_id[0], i == 3 ? 3 : 3 - i);
        assert_true(list.trace.cpu_ns == (i == 3 ? UINT64_MAX : 5));
    }
    assert_int_equal(history_busiest_next(&list), 0);
    assert_int_equal(history_busiest_encode(&none, traces, 0), 0);
    assert_int_equal(history_busiest_open(&list, buf_bytes(&none.buf)), 0);
    assert_true(list.is_all);
    assert_int_equal(history_busiest_next(&list), 0);
    assert_true(history_busiest_open(&list, BYTES(NULL, 0)) < 0);
}

/* What a trace has adds up over blocks, and a flood of others does not wash away one with much. */
static void totals_add_up(void **state)
{
    struct history_totals *own;
    uint8_t id[16], other[16];
    (void)state;
    assert_int_equal(history_totals_open(&own), 0);
    trace_id_of(id, 1);
    assert_int_equal(history_totals_get(own, id), 0);
    struct history_block_span span = {.samples = 300, .cpu_ns = 300 * PERIOD};
    memcpy(span.trace_id, id, 16);
    const struct history_content content = {.spans = &span, .n_spans = 1};
    for (uint64_t block = 1; block <= 50; block++) {
        history_encode_total(own, &content);
        assert_int_equal(history_totals_get(own, id), block * 300 * PERIOD);
        for (uint64_t i = 0; i < 9000; i++) {
            trace_id_of(other, block * 10000 + i);
            history_totals_set(own, other, i % 2 ? PERIOD : 100000 * PERIOD, i % 2 == 0);
        }
    }
    for (uint64_t block = 0; block < 100; block++) { /* long gone: others may have its place */
        history_totals_age(own);
        for (uint64_t i = 0; i < 9000; i++) {
            trace_id_of(other, block * 10000 + i);
            history_totals_set(own, other, i % 2 ? PERIOD : 100000 * PERIOD, i % 2 == 0);
        }
    }
    assert_int_equal(history_totals_get(own, id), 0);
    history_totals_close(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_is_in_its_chunk_and_the_tail),
        cmocka_unit_test(traces_stand_by_their_longest_span),
        cmocka_unit_test(the_busiest_are_listed),
        cmocka_unit_test(few_are_listed_all),
        cmocka_unit_test(totals_add_up),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
