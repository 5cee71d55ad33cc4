/* SPDX-License-Identifier: Apache-2.0 */
/* OpenTelemetry's context of Node.js while it changes, and where it is noise: no id is wrong. */
#define FREQUENCY  1000
#define SWAPS_MIN  100
#define ROUNDS_MAX 10
#include "nodejs_fixture.h"

struct turns {
    struct burner burner;
    struct heap *heaps[2];
    uint64_t taken;
};

struct turn_total {
    uint32_t tid;
    unsigned samples, found[2], torn, wrong;
};

static void judge_turns(void *context, const struct record_header *record)
{
    struct turn_total *total = context;
    uint8_t trace = record->trace_id[0], span = record->span_id[0];
    if (record->tid != total->tid)
        return;
    total->samples++;
    total->torn += (record->flags & RECORD_FLAG_CONTEXT_TORN) != 0;
    if (!record->context_source)
        return;
    bool known = (trace == 0x40 || trace == 0x60) && span == trace + 1 &&
                 record->context_source == CONTEXT_OTEL_NODEJS;
    total->found[trace == 0x60] += known;
    total->wrong += !known;
}

/* Another thread switches between two frames that share nothing but the key, and replaces their
 * tables, at full speed: V8 does not allow it, so it is the worst that a collector could do. */
static void *turns_main(void *argument)
{
    struct turns *turns = argument;
    volatile uint64_t *frame = &turns->heaps[0]->frame;
    while (!stop_burning) {
        struct heap *next = turns->heaps[++turns->taken % 2];
        volatile struct table *table = &next->table;
        table->heads[HASH % BUCKETS] = smi(1);
        table->elements = tagged(&next->large.table);
        *frame = tagged(&next->map);
        table->elements = smi(2);
        table->heads[HASH % BUCKETS] = smi(2);
    }
    return NULL;
}

static void test_frames_that_take_turns(void **state)
{
    struct fixture fixture;
    pthread_t thread;
    (void)state;
    setup_size(&fixture, 4 << 20);
    struct turns turns = {.heaps = {heap_new(0x40), heap_new(0x60)}};
    turns.heaps[1]->table.entries[0].key = tagged(&turns.heaps[0]->key);
    turns.burner = (struct burner){.second = turns.heaps[0], .cpu = -1, .begin = begin};
    publish_heap(&fixture, turns.heaps[0]);
    burner_start(&turns.burner);
    assert_int_equal(pthread_create(&thread, NULL, turns_main, &turns), 0);
    struct turn_total total = {.tid = turns.burner.tid};
    for (int i = 0; i < ROUNDS_MAX && (total.found[0] < SWAPS_MIN || total.found[1] < SWAPS_MIN);
         i++)
        drain_for(&fixture, judge_turns, &total, 1000);
    burner_stop(&turns.burner);
    pthread_join(thread, NULL);
    printf("%u samples, %u and %u with ids, %u torn, %u wrong; %llu turns\n", total.samples,
           total.found[0], total.found[1], total.torn, total.wrong,
           (unsigned long long)turns.taken);
    assert_true(total.found[0] >= SWAPS_MIN && total.found[1] >= SWAPS_MIN);
    assert_int_equal(total.wrong, 0);
    free(turns.heaps[0]);
    free(turns.heaps[1]);
    teardown(&fixture);
}

/* Every word of the walk but those of the one record is noise that looks like V8's: whatever is
 * read, ids are those of that record. */
static uint64_t some_word(const struct heap *heap, uint64_t noise)
{
    const void *const places[] = {&heap->map,       &heap->table,       &heap->key,
                                  &heap->value,     heap->owner,        &heap->frame,
                                  &heap->undefined, &heap->large.table, &heap->handle};
    uint64_t place = word_of(places[(noise >> 8) % (sizeof(places) / sizeof(*places))]);
    switch (noise % 8) {
    case 0:
        return noise;
    case 1:
        return smi((int64_t)(noise >> 40) % 64 - 4);
    case 2:
        return 0;
    case 3:
        return smi(INT64_C(1) << ((noise >> 16) % 32));
    default:
        return place + 1;
    }
}

static void test_noise(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_size(&fixture, 4 << 20);
    uint64_t noise = 88172645463325252ULL;
    unsigned samples = 0, torn_ones = 0;
    for (int round = 0; round < 120; round++) {
        struct heap *heap = heap_new(0x40);
        uint64_t *words = &heap->frame;
        size_t n = (offsetof(struct heap, record) - offsetof(struct heap, frame)) / sizeof(*words);
        for (int change = 0; change < 1 + round / 4; change++) {
            noise ^= noise << 13, noise ^= noise >> 7, noise ^= noise << 17;
            words[(noise >> 20) % n] = some_word(heap, noise);
        }
        heap->entry.nodejs_form = (uint8_t)(1 + round % 4);
        heap->entry.nodejs_slot = (uint16_t)(24 + 8 * (round % 3));
        struct burner burner = {.second = heap, .cpu = -1, .begin = begin};
        publish_heap(&fixture, heap);
        burner_start(&burner);
        struct turn_total total = {.tid = burner.tid};
        drain_for(&fixture, judge_turns, &total, 50);
        burner_stop(&burner);
        samples += total.samples;
        torn_ones += total.torn;
        assert_int_equal(total.wrong, 0);
        free(heap);
    }
    printf("%u samples, %u torn\n", samples, torn_ones);
    assert_true(samples > 500 && torn_ones > 50);
    teardown(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_that_take_turns),
        cmocka_unit_test(test_noise),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
