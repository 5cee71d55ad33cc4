/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of a damaged database. The first byte says which; a block's two parts lie one behind the
 * other, the second byte times 16 says where the second begins. */
#include "store/history/history_busiest.h"
#include "store/history/history_minute.h"
#include "store/history/history_samples.h"
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_samples(struct bytes body, const struct history_block_spans *spans)
{
    struct history_samples in;
    const struct history_sample_group *group;
    uint64_t n = 0, time, value;
    if (!history_samples_open(&in, body, spans->spans, spans->n)) {
        while (history_samples_next(&in, &group) == 1) {
            struct history_group_times times = history_times_of(&in, group);
            assert(group->series >= 0 && group->stack >= 0 && group->n);
            assert(group->context.span == HISTORY_NO_SPAN || group->context.span < spans->n);
            while (history_times_next(&times, &time, &value))
                n++;
            assert(!times.left);
        }
    }
    assert(n <= HISTORY_BLOCK_SAMPLES_MAX);
    history_samples_close(&in);
}

static void read_block(struct bytes body)
{
    struct history_block_spans spans = {0};
    size_t split = body.len ? (size_t)body.data[0] * 16 : 0;
    if (!body.len || split > body.len - 1)
        return;
    struct bytes first = {body.data + 1, split};
    struct bytes second = {first.data + split, body.len - 1 - split};
    history_spans_decode(&spans, first, false, HISTORY_BLOCK_SPANS_MAX, 3);
    history_spans_decode(&spans, first, true, HISTORY_BLOCK_SPANS_MAX, HISTORY_BLOCK_SPANS_MAX);
    for (size_t i = 0; i < spans.n; i++) {
        const struct history_block_span *span = &spans.spans[i];
        struct bytes attributes = history_span_attributes(span, first);
        assert(!attributes.len || (attributes.data >= first.data &&
                                   attributes.data + attributes.len <= first.data + first.len));
        assert(span->start_unix_ns + span->duration_ns >= span->start_unix_ns);
        assert(span->duration_ns <= span->longest_ns);
        assert(!i || span->longest_ns <= span[-1].longest_ns);
    }
    read_samples(second, &spans);
    history_spans_close(&spans);
}

static void read_minute(struct bytes body)
{
    struct history_minute_entries in;
    struct history_minute_entry entry;
    if (!history_minute_open(&in, body))
        while (history_minute_next(&in, &entry) == 1)
            assert(entry.series >= 0 && entry.stack >= 0);
}

static void read_stacks(struct bytes body)
{
    struct blob_reader in = {.left = body};
    int64_t stack = 0;
    while (history_stacks_next(&in, &stack) == 1)
        assert(stack >= 0);
}

static void read_index(struct bytes body)
{
    static struct history_index index;
    static const uint8_t trace_id[16] = {1, 2, 3};
    struct history_where where;
    uint64_t place, before = 0;
    history_index_may_have(body, trace_id);
    if (history_index_open(&index, body))
        return;
    assert(index.chunks.n <= HISTORY_CHUNKS_MAX);
    for (size_t i = 0; i < index.chunks.n; i++)
        assert(index.chunks.of[i].first_span <= index.chunks.of[i + 1].first_span &&
               index.chunks.of[i].spans_at <= index.chunks.of[i + 1].spans_at &&
               index.chunks.of[i].samples_at <= index.chunks.of[i + 1].samples_at);
    while (history_index_next(&index, &place, &where) == 1) {
        assert(place >= before);
        assert(where.chunk == HISTORY_NO_CHUNK || where.chunk < index.chunks.n);
        before = place;
    }
}

static void read_busiest(struct bytes body)
{
    struct history_busiest busiest;
    uint64_t before = UINT64_MAX;
    if (history_busiest_open(&busiest, body))
        return;
    while (history_busiest_next(&busiest) == 1) {
        assert(busiest.trace.cpu_ns <= before);
        before = busiest.trace.cpu_ns;
    }
}

/* As chunks: the head of the spans, spans, samples of them. */
static void read_chunk(struct bytes body)
{
    struct history_block_spans spans = {0};
    const struct history_sample_group *group;
    struct history_samples in;
    if (body.len < HISTORY_SPANS_HEAD + 1)
        return;
    struct bytes head = {body.data + 1, HISTORY_SPANS_HEAD};
    struct bytes rest = {head.data + head.len, body.len - 1 - head.len};
    size_t split = (size_t)body.data[0] * 16 < rest.len ? (size_t)body.data[0] * 16 : rest.len;
    history_spans_decode_chunk(&spans, head, BYTES(rest.data, split), 300);
    for (size_t i = 0; i < spans.n; i++)
        assert(!spans.spans[i].attributes_len);
    history_samples_open_chunk(&in, BYTES(rest.data + split, rest.len - split), spans.spans, 1000,
                               spans.n);
    while (history_samples_next(&in, &group) == 1)
        assert(group->context.span == HISTORY_NO_SPAN ||
               (group->context.span >= 1000 && group->context.span - 1000 < spans.n));
    history_samples_close(&in);
    history_spans_close(&spans);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct history_series_facts facts;
    if (!size)
        return 0;
    struct bytes body = {data + 1, size - 1};
    switch (data[0] % 7) {
    case 0:
        read_block(body);
        break;
    case 1:
        read_minute(body);
        break;
    case 2:
        read_stacks(body);
        break;
    case 3:
        if (!history_series_decode(body, &facts))
            assert(facts.resource >= 0 && facts.executable >= 0);
        break;
    case 4:
        read_busiest(body);
        break;
    case 5:
        read_chunk(body);
        break;
    default:
        read_index(body);
    }
    return 0;
}
