/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of the history: what is encoded comes back, of any prefix, and no damage does harm. */
#include "store/history/history_minute.h"
#include "proto/otlp/otlp_spans.h"
#include "store/history/history_samples.h"
#include "store/join/sample.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define SPANS   500
#define SAMPLES 4000
#define BASE    UINT64_C(1795284000000000000)
#define PERIOD  UINT64_C(10309278)

static struct history_chunks chunks; /* of the spans that were encoded */
static uint64_t random_state = 88172645463325252U;

static uint64_t any(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static void fill_id(uint8_t *id, size_t size, uint64_t number)
{
    memset(id, 0, size);
    memcpy(id, &number, sizeof(number));
    id[size - 1] |= 1;
}

static struct buf attributes; /* of all spans and samples here: "aaaa", "bbbb", ... */

static void fill_attributes(void)
{
    buf_clear(&attributes);
    for (int i = 0; i < 26; i++)
        for (int k = 0; k < 4; k++)
            assert_int_equal(buf_append(&attributes, &(char){(char)('a' + i)}, 1), 0);
}

static void make_spans(struct history_block_span spans[SPANS])
{
    for (size_t i = 0; i < SPANS; i++) {
        struct history_block_span *span = &spans[i];
        *span = (struct history_block_span){.series = (int64_t)any(300),
                                            .start_unix_ns = BASE + any(5000000000),
                                            .duration_ns = any(4) ? any(1000000000) : any(3),
                                            .error = any(2),
                                            .local_root = any(2)};
        fill_id(span->trace_id, 16, any(100));
        fill_id(span->span_id, 8, i + 1000);
        if (any(4))
            fill_id(span->parent_id, 8, any(2) ? 1000 + any(SPANS) : any(1000000));
        if (any(2))
            span->samples = any(20);
        span->cpu_ns = span->samples * (PERIOD + any(2));
        if (any(2)) {
            span->attributes_at = (uint32_t)any(25) * 4;
            span->attributes_len = any(2) ? 4 : 8;
        }
    }
    spans[0].start_unix_ns = 0; /* whatever a program sends */
    spans[0].duration_ns = UINT64_MAX;
    spans[1].start_unix_ns = UINT64_MAX;
    spans[1].duration_ns = 0;
    spans[2].cpu_ns = UINT64_MAX;
    spans[2].samples = UINT64_MAX;
    assert_int_equal(history_spans_sort(spans, SPANS, NULL), 0);
}

static void same_span(const struct history_block_span *a, struct bytes a_body,
                      const struct history_block_span *b, struct bytes b_body)
{
    assert_memory_equal(a->trace_id, b->trace_id, 16);
    assert_memory_equal(a->span_id, b->span_id, 8);
    assert_memory_equal(a->parent_id, b->parent_id, 8);
    assert_int_equal(a->series, b->series);
    assert_true(a->start_unix_ns == b->start_unix_ns && a->duration_ns == b->duration_ns);
    assert_true(a->samples == b->samples);
    assert_true(a->cpu_ns == (a->samples ? b->cpu_ns : 0));
    assert_true(a->longest_ns == b->longest_ns);
    assert_int_equal(a->error, b->error);
    assert_int_equal(a->local_root, b->local_root);
    assert_true(
        bytes_equal(history_span_attributes(a, a_body), history_span_attributes(b, b_body)));
}

static void test_spans(void **state)
{
    static struct history_block_span spans[SPANS];
    struct blob_writer out _cleanup_blob_ = {0};
    struct history_block_spans back = {0};
    (void)state;
    make_spans(spans);
    assert_int_equal(history_spans_encode(&out, spans, SPANS, buf_bytes(&attributes), &chunks), 0);
    struct bytes body = buf_bytes(&out.buf);
    assert_int_equal(history_spans_decode(&back, body, true, SPANS, SIZE_MAX), 0);
    assert_int_equal(back.n, SPANS);
    for (size_t i = 0; i < SPANS; i++)
        same_span(&back.spans[i], body, &spans[i], buf_bytes(&attributes));
    history_spans_close(&back);
}

/* Any prefix gives the spans that lie in it, and more of the body those that come next. */
static void test_prefixes(void **state)
{
    static struct history_block_span spans[SPANS];
    struct blob_writer out _cleanup_blob_ = {0};
    struct history_block_spans back = {0}, few = {0};
    (void)state;
    make_spans(spans);
    assert_int_equal(history_spans_encode(&out, spans, SPANS, buf_bytes(&attributes), &chunks), 0);
    struct bytes body = buf_bytes(&out.buf);
    for (size_t len = 0; len <= body.len; len += 1 + any(40)) {
        uint8_t *prefix = malloc(len + 1); /* of its own: nothing behind it is read */
        assert_non_null(prefix);
        memcpy(prefix, body.data, len);
        size_t before = back.n;
        assert_int_equal(history_spans_decode(&back, BYTES(prefix, len), false, SPANS, SPANS), 0);
        assert_true(back.n >= before);
        for (size_t i = before; i < back.n; i++)
            same_span(&back.spans[i], body, &spans[i], buf_bytes(&attributes));
        free(prefix);
    }
    assert_int_equal(history_spans_decode(&back, body, true, SPANS, SPANS), 0);
    assert_int_equal(back.n, SPANS);
    history_spans_close(&back);
    assert_int_equal(history_spans_decode(&few, body, true, SPANS, 10), 0);
    assert_int_equal(few.n, 10);
    assert_int_equal(history_spans_decode(&few, BYTES(body.data, body.len - 1), true, SPANS, SPANS),
                     -EUCLEAN);
    history_spans_close(&few);
}

static void make_samples(struct history_sample samples[SAMPLES],
                         const struct history_block_span *spans)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        struct history_sample *sample = &samples[i];
        *sample = (struct history_sample){.context.span = HISTORY_NO_SPAN,
                                          .series = (int64_t)any(20),
                                          .stack = (int64_t)any(50),
                                          .time_unix_ns = BASE + any(60000000000),
                                          .value_ns = PERIOD,
                                          .period_ns = any(9) ? PERIOD : PERIOD / 2,
                                          .tid = (uint32_t)any(5),
                                          .attributes = any(3) ? 0 : (uint32_t)any(5) + 1};
        struct history_context *context = &sample->context;
        if (!any(3))
            continue;
        if (any(2)) {
            context->matched = true;
            context->span = (uint32_t)any(SPANS);
            memcpy(context->trace_id, spans[context->span].trace_id, 16);
            memcpy(context->span_id, spans[context->span].span_id, 8);
        } else {
            context->matched = any(2);
            if (any(4))
                fill_id(context->trace_id, 16, any(100));
            if (any(4))
                fill_id(context->span_id, 8, any(100));
        }
        if (any(2))
            memcpy(context->local_root_id, context->span_id, 8);
        else if (context->span != HISTORY_NO_SPAN && any(2))
            memcpy(context->local_root_id, spans[context->span].parent_id, 8);
        else if (any(2))
            fill_id(context->local_root_id, 8, any(5));
    }
}

struct told { /* a sample as it came back */
    struct history_context context;
    int64_t series, stack;
    uint64_t ticks, value_ns, period_ns;
    uint32_t tid;
    char attributes[8];
};

static int compare_told(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct told));
}

static size_t tell_group(const struct history_samples *in, const struct history_sample_group *group,
                         struct told *told)
{
    struct history_group_times times = history_times_of(in, group);
    uint64_t time, value, sum = 0, before = 0;
    size_t n = 0;
    while (history_times_next(&times, &time, &value)) {
        memset(&told[n], 0, sizeof(told[n]));
        told[n].context = group->context;
        told[n].series = group->series;
        told[n].stack = group->stack;
        told[n].ticks = (time - BASE) / 1000000;
        told[n].value_ns = value;
        told[n].period_ns = group->period_ns;
        told[n].tid = group->tid;
        assert_true(group->attributes.len <= 4);
        if (group->attributes.len)
            memcpy(told[n].attributes, group->attributes.data, group->attributes.len);
        assert_true(time >= before);
        before = time;
        sum += value;
        n++;
    }
    assert_int_equal(n, group->n);
    assert_true(sum == group->value_ns);
    return n;
}

static void test_samples(void **state)
{
    static struct history_block_span spans[SPANS];
    static struct history_sample samples[SAMPLES];
    static struct told told[SAMPLES], meant[SAMPLES];
    static struct bytes texts[5];
    struct blob_writer out _cleanup_blob_ = {0};
    struct history_samples in;
    const struct history_sample_group *group;
    size_t n = 0;
    (void)state;
    make_spans(spans);
    make_samples(samples, spans);
    for (size_t i = 0; i < 5; i++)
        texts[i] = BYTES(attributes.data + 4 * i, 4);
    assert_int_equal(history_samples_encode(&out, samples, SAMPLES, spans, texts, 5, &chunks), 0);
    for (size_t i = 0; i < SAMPLES; i++) {
        memset(&meant[i], 0, sizeof(meant[i]));
        meant[i].context = samples[i].context;
        meant[i].series = samples[i].series;
        meant[i].stack = samples[i].stack;
        meant[i].ticks = 0;
        meant[i].value_ns = samples[i].value_ns;
        meant[i].period_ns = samples[i].period_ns;
        meant[i].tid = samples[i].tid;
        if (samples[i].attributes)
            memcpy(meant[i].attributes, texts[samples[i].attributes - 1].data, 4);
    }
    assert_int_equal(history_samples_open(&in, buf_bytes(&out.buf), spans, SPANS), 0);
    int outcome;
    while ((outcome = history_samples_next(&in, &group)) == 1)
        n += tell_group(&in, group, &told[n]);
    assert_int_equal(outcome, 0);
    assert_int_equal(n, SAMPLES);
    history_samples_close(&in);
    for (size_t i = 0; i < SAMPLES; i++)
        told[i].ticks = 0; /* see test_times() */
    qsort(told, SAMPLES, sizeof(*told), compare_told);
    qsort(meant, SAMPLES, sizeof(*meant), compare_told);
    assert_memory_equal(told, meant, sizeof(told));
}

/* Each within a tick of what it was, and none moved past another. */
static void test_times(void **state)
{
    struct history_sample samples[100];
    uint64_t meant[100], time, value;
    struct blob_writer out _cleanup_blob_ = {0};
    struct history_samples in;
    const struct history_sample_group *group;
    (void)state;
    meant[0] = BASE + 12345;
    for (size_t i = 0; i < 100; i++) {
        meant[i] = i ? meant[i - 1] + any(30000000) : meant[0];
        samples[99 - i] = (struct history_sample){.context.span = HISTORY_NO_SPAN,
                                                  .series = 1,
                                                  .stack = 1,
                                                  .time_unix_ns = meant[i],
                                                  .value_ns = i,
                                                  .period_ns = PERIOD};
    }
    assert_int_equal(history_samples_encode(&out, samples, 100, NULL, NULL, 0, &chunks), 0);
    assert_int_equal(history_samples_open(&in, buf_bytes(&out.buf), NULL, 0), 0);
    assert_int_equal(history_samples_next(&in, &group), 1);
    struct history_group_times times = history_times_of(&in, group);
    for (size_t i = 0; i < 100; i++) {
        assert_true(history_times_next(&times, &time, &value));
        assert_true(time <= meant[i] && meant[i] - time < HISTORY_TICK_NS);
    }
    assert_false(history_times_next(&times, &time, &value));
    assert_int_equal(history_samples_next(&in, &group), 0);
    history_samples_close(&in);
}

static void test_traces(void **state)
{
    static struct history_index_trace traces[3000];
    const struct history_where nowhere = {.chunk = HISTORY_NO_CHUNK};
    struct blob_writer out _cleanup_blob_ = {0}, none _cleanup_blob_ = {0};
    uint8_t other[16], id[16];
    unsigned wrong = 0;
    (void)state;
    chunks = (struct history_chunks){0};
    for (size_t i = 0; i < 3000; i++) { /* small numbers, as some programs make them */
        fill_id(traces[i].trace_id, 16, i / 2);
        traces[i].where = nowhere;
    }
    assert_int_equal(history_index_encode(&out, &chunks, traces, 3000), 0);
    assert_true(out.buf.len < 3000 * 3 / 2);
    for (size_t i = 0; i < 3000; i++) {
        fill_id(id, 16, i / 2);
        assert_true(history_index_may_have(buf_bytes(&out.buf), id));
    }
    for (uint64_t i = 0; i < 100000; i++) {
        fill_id(other, 16, i + 5000);
        wrong += history_index_may_have(buf_bytes(&out.buf), other);
    }
    assert_true(wrong < 1500); /* one in 100 is meant */
    assert_int_equal(history_index_encode(&none, &chunks, NULL, 0), 0);
    assert_false(history_index_may_have(buf_bytes(&none.buf), id));
    assert_true(history_index_may_have(BYTES(NULL, 0), id));
}

static void test_minute(void **state)
{
    static struct history_minute_entry entries[1000];
    struct blob_writer out _cleanup_blob_ = {0}, stacks_out _cleanup_blob_ = {0};
    struct history_minute_entries in;
    struct history_minute_entry entry, before = {0};
    struct id_set stacks = {0};
    uint64_t samples = 0, value = 0, stack_n = 0;
    int64_t stack = 0;
    (void)state;
    for (size_t i = 0; i < 1000; i++) {
        size_t mixed = i * 7 % 1000;
        entries[i] = (struct history_minute_entry){(int64_t)(mixed / 50), (int64_t)(mixed % 50) * 3,
                                                   i + 1, (i + 1) * PERIOD + any(5)};
        samples += entries[i].samples;
        value += entries[i].value_ns;
        assert_int_equal(id_set_add(&stacks, entries[i].stack), 0);
    }
    history_minute_encode(&out, entries, 1000, PERIOD);
    assert_int_equal(history_minute_open(&in, buf_bytes(&out.buf)), 0);
    assert_true(in.period_ns == PERIOD);
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(history_minute_next(&in, &entry), 1);
        assert_true(!i || entry.series > before.series ||
                    (entry.series == before.series && entry.stack > before.stack));
        samples -= entry.samples;
        value -= entry.value_ns;
        before = entry;
    }
    assert_int_equal(history_minute_next(&in, &entry), 0);
    assert_true(!samples && !value);
    id_set_seal(&stacks);
    history_stacks_encode(&stacks_out, &stacks);
    struct blob_reader reader = {.left = buf_bytes(&stacks_out.buf)};
    for (; history_stacks_next(&reader, &stack) == 1; stack_n++)
        assert_int_equal(stack, stacks.ids[stack_n]);
    assert_int_equal(stack_n, 50);
    id_set_close(&stacks);
}

static void test_series(void **state)
{
    const struct history_series_facts facts = {.resource = 1,
                                               .service = 2,
                                               .span_name = 300,
                                               .thread = 4,
                                               .container = 5,
                                               .executable = INT64_MAX / 4,
                                               .pid = 4711,
                                               .span_kind = SPAN_SERVER,
                                               .sample_kind = SAMPLE_CPU,
                                               .context_source = 1};
    struct history_series_facts back;
    struct blob_writer out _cleanup_blob_ = {0};
    (void)state;
    history_series_encode(&out, &facts);
    assert_int_equal(history_series_decode(buf_bytes(&out.buf), &back), 0);
    assert_true(back.resource == 1 && back.service == 2 && back.span_name == 300 &&
                back.thread == 4 && back.container == 5 && back.executable == INT64_MAX / 4 &&
                back.pid == 4711 && back.span_kind == SPAN_SERVER &&
                back.sample_kind == SAMPLE_CPU && back.context_source == 1);
    for (size_t len = 0; len < out.buf.len; len++)
        assert_int_equal(history_series_decode(BYTES(out.buf.data, len), &back), -EUCLEAN);
}

static void read_all(const uint8_t *spans_data, size_t spans_len, const uint8_t *data, size_t len)
{
    struct history_block_spans spans = {0};
    struct history_samples in;
    const struct history_sample_group *group;
    history_spans_decode(&spans, BYTES(spans_data, spans_len), true, SPANS, SPANS);
    if (!history_samples_open(&in, BYTES(data, len), spans.spans, spans.n))
        while (history_samples_next(&in, &group) == 1)
            assert_true(group->n > 0);
    history_samples_close(&in);
    history_spans_close(&spans);
}

/* Each byte changed, and each end: read to where it no longer makes sense (and no further, which
 * the sanitizers watch). */
static void test_damage(void **state)
{
    static struct history_block_span spans[SPANS];
    static struct history_sample samples[SAMPLES];
    struct blob_writer out _cleanup_blob_ = {0}, spans_out _cleanup_blob_ = {0};
    (void)state;
    make_spans(spans);
    make_samples(samples, spans);
    assert_int_equal(history_spans_encode(&spans_out, spans, 40, buf_bytes(&attributes), &chunks),
                     0);
    for (size_t i = 0; i < 200; i++)
        samples[i].context.span = samples[i].context.matched ? (uint32_t)any(40) : HISTORY_NO_SPAN;
    for (size_t i = 0; i < 200; i++)
        samples[i].attributes = 0;
    assert_int_equal(history_samples_encode(&out, samples, 200, spans, NULL, 0, &chunks), 0);
    size_t spans_len = spans_out.buf.len, len = out.buf.len;
    for (size_t i = 0; i < spans_len; i++) {
        uint8_t was = spans_out.buf.data[i];
        spans_out.buf.data[i] ^= (uint8_t)(1U << any(8));
        read_all(spans_out.buf.data, spans_len, out.buf.data, len);
        read_all(spans_out.buf.data, i, out.buf.data, len);
        spans_out.buf.data[i] = was;
    }
    for (size_t i = 0; i < len; i++) {
        uint8_t was = out.buf.data[i];
        out.buf.data[i] ^= (uint8_t)(1U << any(8));
        read_all(spans_out.buf.data, spans_len, out.buf.data, len);
        read_all(spans_out.buf.data, spans_len, out.buf.data, i);
        out.buf.data[i] = was;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans),   cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_samples), cmocka_unit_test(test_times),
        cmocka_unit_test(test_traces),  cmocka_unit_test(test_minute),
        cmocka_unit_test(test_series),  cmocka_unit_test(test_damage),
    };
    fill_attributes();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_close(&attributes);
    return failed;
}
