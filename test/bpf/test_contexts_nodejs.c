/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenTelemetry's context of Node.js, on the real kernel: a thread of this program has in its
 * memory what V8 and a publisher have there, right or wrong in one place at a time.
 */
#define FREQUENCY 1000
#include "nodejs_fixture.h"

#define WILD       0xdeadbeef000
#define IN_KERNEL  0xffffffff81000000
#define LONG_CHAIN 17 /* entries; more than are followed */

static struct expected expect_record(const struct published *record)
{
    struct expected expected = {.source = CONTEXT_OTEL_NODEJS,
                                .attributes_source = CONTEXT_OTEL_NODEJS,
                                .trace_flags = record->flags,
                                .size = record->attributes_size};
    memcpy(expected.trace_id, record->trace_id, 16);
    memcpy(expected.span_id, record->span_id, 8);
    memcpy(expected.attributes, record->attributes, record->attributes_size);
    return expected;
}

static void check_heap(struct fixture *fixture, const char *what, struct heap *heap,
                       const struct expected *expected)
{
    struct burner burner = {.second = heap, .cpu = -1, .begin = begin};
    publish_heap(fixture, heap);
    check_burner(fixture, what, &burner, expected);
}

/* ---- how writers lay it out ---- */

static void slot_of_node_22(struct heap *heap)
{
    heap->variable.record_slot = 24;
    heap->value.words[0] = heap->value.words[1];
    heap->value.words[1] = tagged(&heap->map); /* what follows the object */
}

static void slot_is_published(struct heap *heap)
{
    slot_of_node_22(heap);
    heap->entry.nodejs_form = NODEJS_SLOT;
    heap->entry.nodejs_slot = 24;
    heap->variable.record_slot = 0;
}

/* Node.js 24 has a word of its own, 0, where writers of then say that the record is. */
static void slot_is_one_behind(struct heap *heap)
{
    slot_is_published(heap);
    heap->value.words[1] = heap->value.words[0];
    heap->value.words[0] = 0;
}

static void owner_has_it(struct heap *heap)
{
    slot_is_published(heap);
    heap->entry.nodejs_form = NODEJS_SLOT_OF_OWNER;
    heap->value.words[0] = word_of(heap->owner);
    heap->owner[0] = word_of(&heap->record);
}

static void owner_has_it_behind(struct heap *heap)
{
    slot_is_one_behind(heap);
    heap->entry.nodejs_form = NODEJS_SLOT_OF_OWNER;
    heap->entry.nodejs_owner = 24;
    heap->value.words[1] = word_of(heap->owner);
    heap->owner[3] = word_of(&heap->record);
}

static void only_entry(struct heap *heap)
{
    heap->table.heads[HASH % BUCKETS] = smi(0);
    heap->table.elements = smi(1);
    heap->table.deleted = smi(0);
}

static void no_attributes(struct heap *heap)
{
    heap->record.attributes_size = 0;
}

/* ---- nothing is published ---- */

static void gate_is_closed(struct heap *heap)
{
    heap->variable.cped_slot = 0;
}

static void no_frame(struct heap *heap)
{
    heap->frame = tagged(&heap->undefined);
}

static void not_in_the_map(struct heap *heap)
{
    heap->table.entries[0].key = tagged(&heap->other_keys[1]);
}

static void empty_bucket(struct heap *heap)
{
    heap->table.heads[HASH % BUCKETS] = NO_ENTRY;
}

static void another_bucket(struct heap *heap)
{
    heap->variable.als_hash = HASH + 1;
}

static void detached(struct heap *heap)
{
    heap->table.entries[0].value = tagged(&heap->undefined);
}

static void record_is_gone(struct heap *heap)
{
    heap->value.words[1] = 0;
}

static void owner_is_gone(struct heap *heap)
{
    owner_has_it(heap);
    heap->value.words[0] = heap->value.words[1] = 0;
}

static void owner_has_none(struct heap *heap)
{
    owner_has_it(heap);
    heap->owner[0] = 0;
}

static void span_has_ended(struct heap *heap)
{
    heap->record.valid = 0;
}

/* ---- nonsense ---- */

static void frame_slot_is_wild(struct heap *heap)
{
    heap->variable.cped_slot = WILD;
}

static void frame_slot_is_in_the_kernel(struct heap *heap)
{
    heap->variable.cped_slot = IN_KERNEL;
}

static void frame_is_a_number(struct heap *heap)
{
    heap->frame = smi(7);
}

static void frame_is_weak(struct heap *heap)
{
    heap->frame |= 3;
}

static void frame_is_wild(struct heap *heap)
{
    heap->frame = WILD + 1;
}

static void table_is_a_number(struct heap *heap)
{
    heap->map.words[0] = smi(1);
}

static void table_is_in_the_kernel(struct heap *heap)
{
    heap->map.words[0] = IN_KERNEL + 1;
}

static void handle_is_wild(struct heap *heap)
{
    heap->variable.als_handle = WILD;
}

static void handle_has_a_number(struct heap *heap)
{
    heap->handle = smi(3);
}

static void no_buckets(struct heap *heap)
{
    heap->table.buckets = smi(0);
}

static void odd_buckets(struct heap *heap)
{
    heap->table.buckets = smi(3);
}

static void negative_buckets(struct heap *heap)
{
    heap->table.buckets = smi(INT32_MIN);
}

static void huge_buckets(struct heap *heap)
{
    heap->table.buckets = smi(1 << 30);
    heap->table.length = smi(INT32_MAX);
}

static void buckets_are_an_object(struct heap *heap)
{
    heap->table.buckets = tagged(&heap->map);
}

/* As the table's last moment is when it is replaced: the count is the new table. */
static void count_is_an_object(struct heap *heap)
{
    heap->table.elements = tagged(&heap->large.table);
}

static void negative_count(struct heap *heap)
{
    heap->table.elements = smi(-5);
}

static void too_many_deleted(struct heap *heap)
{
    heap->table.deleted = smi(CAPACITY);
}

static void too_short(struct heap *heap)
{
    heap->table.length = smi(3 + BUCKETS + 3 * CAPACITY - 1);
}

static void length_is_an_object(struct heap *heap)
{
    heap->table.length = tagged(&heap->map);
}

static void head_is_an_object(struct heap *heap)
{
    heap->table.heads[HASH % BUCKETS] = tagged(&heap->value);
}

static void head_is_too_large(struct heap *heap)
{
    heap->table.heads[HASH % BUCKETS] = smi(3);
}

static void head_is_negative(struct heap *heap)
{
    heap->table.heads[HASH % BUCKETS] = smi(-2);
}

static void chain_is_a_circle(struct heap *heap)
{
    heap->table.entries[1].next = smi(2);
}

static void chain_has_itself(struct heap *heap)
{
    heap->table.entries[2].next = smi(2);
}

static void chain_is_too_long(struct heap *heap)
{
    struct table *table = &heap->large.table;
    *table = heap->table;
    heap->map.words[0] = tagged(table);
    table->buckets = smi(16);
    table->length = smi(3 + 16 + 3 * 32);
    table->elements = smi(LONG_CHAIN);
    table->deleted = smi(0);
    uint64_t *words = table->heads;
    words[HASH % 16] = smi(LONG_CHAIN - 1);
    struct entry *entries = (struct entry *)(words + 16);
    for (int i = 0; i < LONG_CHAIN; i++)
        entries[i] = (struct entry){tagged(&heap->other_keys[0]), tagged(&heap->value), smi(i - 1)};
    entries[0] = heap->table.entries[0];
}

static void value_is_a_number(struct heap *heap)
{
    heap->table.entries[0].value = smi(5);
}

static void value_is_wild(struct heap *heap)
{
    heap->table.entries[0].value = WILD + 1;
}

static void no_slot(struct heap *heap)
{
    heap->variable.record_slot = 0;
}

static void slot_is_in_the_head(struct heap *heap)
{
    heap->variable.record_slot = 16;
}

static void slot_is_crooked(struct heap *heap)
{
    heap->variable.record_slot = SLOT + 1;
}

static void record_is_odd(struct heap *heap)
{
    heap->value.words[1] |= 1;
}

static void record_is_wild(struct heap *heap)
{
    heap->value.words[1] = WILD;
}

static void record_is_in_the_kernel(struct heap *heap)
{
    heap->value.words[1] = IN_KERNEL;
}

static void owner_is_wild(struct heap *heap)
{
    owner_has_it(heap);
    heap->value.words[0] = WILD;
}

static void owner_is_odd(struct heap *heap)
{
    owner_has_it(heap);
    heap->value.words[0] |= 1;
}

static void strange_validity(struct heap *heap)
{
    heap->record.valid = 2;
}

static void no_trace_id(struct heap *heap)
{
    memset(heap->record.trace_id, 0, 16);
}

static void no_span_id(struct heap *heap)
{
    memset(heap->record.span_id, 0, 8);
}

enum kind { READ, NOTHING, TORN };

#define CASE(kind, change)                                                                         \
    {                                                                                              \
#change, change, kind                                                                      \
    }
static const struct {
    const char *what;
    void (*change)(struct heap *heap);
    enum kind kind;
} cases[] = {
    CASE(READ, slot_of_node_22),
    CASE(READ, slot_is_published),
    CASE(READ, slot_is_one_behind),
    CASE(READ, owner_has_it),
    CASE(READ, owner_has_it_behind),
    CASE(READ, only_entry),
    CASE(READ, no_attributes),
    CASE(NOTHING, gate_is_closed),
    CASE(NOTHING, no_frame),
    CASE(NOTHING, not_in_the_map),
    CASE(NOTHING, empty_bucket),
    CASE(NOTHING, another_bucket),
    CASE(NOTHING, detached),
    CASE(NOTHING, record_is_gone),
    CASE(NOTHING, owner_is_gone),
    CASE(NOTHING, owner_has_none),
    CASE(NOTHING, span_has_ended),
    CASE(TORN, frame_slot_is_wild),
    CASE(TORN, frame_slot_is_in_the_kernel),
    CASE(TORN, frame_is_a_number),
    CASE(TORN, frame_is_weak),
    CASE(TORN, frame_is_wild),
    CASE(TORN, table_is_a_number),
    CASE(TORN, table_is_in_the_kernel),
    CASE(TORN, handle_is_wild),
    CASE(TORN, handle_has_a_number),
    CASE(TORN, no_buckets),
    CASE(TORN, odd_buckets),
    CASE(TORN, negative_buckets),
    CASE(TORN, huge_buckets),
    CASE(TORN, buckets_are_an_object),
    CASE(TORN, count_is_an_object),
    CASE(TORN, negative_count),
    CASE(TORN, too_many_deleted),
    CASE(TORN, too_short),
    CASE(TORN, length_is_an_object),
    CASE(TORN, head_is_an_object),
    CASE(TORN, head_is_too_large),
    CASE(TORN, head_is_negative),
    CASE(TORN, chain_is_a_circle),
    CASE(TORN, chain_has_itself),
    CASE(TORN, chain_is_too_long),
    CASE(TORN, value_is_a_number),
    CASE(TORN, value_is_wild),
    CASE(TORN, no_slot),
    CASE(TORN, slot_is_in_the_head),
    CASE(TORN, slot_is_crooked),
    CASE(TORN, record_is_odd),
    CASE(TORN, record_is_wild),
    CASE(TORN, record_is_in_the_kernel),
    CASE(TORN, owner_is_wild),
    CASE(TORN, owner_is_odd),
    CASE(TORN, strange_validity),
    CASE(TORN, no_trace_id),
    CASE(TORN, no_span_id),
};

static void test_cases(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_size(&fixture, 4 << 20);
    struct heap *good = heap_new(0x40);
    struct expected expected = expect_record(&good->record);
    check_heap(&fixture, "as V8 has it", good, &expected);
    free(good);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct heap *heap = heap_new(0x40);
        cases[i].change(heap);
        expected = expect_record(&heap->record);
        if (!expected.size)
            expected.attributes_source = CONTEXT_NONE;
        check_heap(&fixture, cases[i].what, heap,
                   cases[i].kind == READ      ? &expected
                   : cases[i].kind == NOTHING ? &nothing
                                              : &torn);
        free(heap);
    }
    teardown(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
