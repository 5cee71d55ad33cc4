/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Memory as V8 and a publisher of Node.js contexts have it, and a thread whose variable leads
 * there.
 */
#include "contexts_fixture.h"
#include "context/context_layout.h"

#define BUCKETS  4
#define CAPACITY (2 * BUCKETS)
#define HASH     0x12346 /* of the publisher's AsyncLocalStorage: bucket 2 */
#define SLOT     32      /* in the object: where Node.js 24 has the record */
#define NO_ENTRY smi(-1)

static __thread volatile struct otel_nodejs_thread variable
    __attribute__((tls_model("local-exec")));

struct entry {
    uint64_t key, value, next;
};

struct table { /* an OrderedHashMap: an array of words */
    uint64_t map, length;
    uint64_t elements, deleted, buckets;
    uint64_t heads[BUCKETS];
    struct entry entries[CAPACITY];
};

struct object {
    uint64_t map, properties, elements;
    uint64_t words[4];
};

/* What the walk goes through. Aligned to 8, as V8's objects are. */
struct heap {
    struct otel_nodejs_thread variable;
    uint64_t frame;    /* the isolate's slot */
    uint64_t handle;   /* what als_handle leads to */
    struct object map; /* the AsyncContextFrame; its table is words[0] */
    struct table table;
    struct object key, other_keys[2], value, undefined;
    uint64_t owner[4]; /* of the record, in older writers */
    struct published record;
    struct context_variable entry; /* what the symbolizer enters */
    struct {
        struct table table;
        struct entry more[64];
    } large;
};

static uint64_t smi(int64_t number)
{
    return (uint64_t)number << 32;
}

static uint64_t tagged(const void *object)
{
    return (uint64_t)(uintptr_t)object + 1;
}

static uint64_t word_of(const void *address)
{
    return (uint64_t)(uintptr_t)address;
}

/* Three entries in one bucket; the publisher's was the first, so it is the last of the chain. */
static void fill_table(struct heap *heap)
{
    struct table *table = &heap->table;
    table->map = tagged(&heap->undefined);
    table->length = smi(3 + BUCKETS + 3 * CAPACITY);
    table->elements = smi(2);
    table->deleted = smi(1);
    table->buckets = smi(BUCKETS);
    for (int i = 0; i < BUCKETS; i++)
        table->heads[i] = NO_ENTRY;
    for (int i = 0; i < CAPACITY; i++)
        table->entries[i] = (struct entry){smi(0x55), smi(0x66), NO_ENTRY};
    table->entries[0] = (struct entry){tagged(&heap->key), tagged(&heap->value), NO_ENTRY};
    table->entries[1] = (struct entry){tagged(&heap->undefined), tagged(&heap->undefined), smi(0)};
    table->entries[2] = (struct entry){tagged(&heap->other_keys[0]), tagged(&heap->map), smi(1)};
    table->heads[HASH % BUCKETS] = smi(2);
}

static struct heap *heap_new(uint8_t seed)
{
    struct heap *heap = calloc(1, sizeof(*heap));
    assert_non_null(heap);
    heap->variable = (struct otel_nodejs_thread){.cped_slot = word_of(&heap->frame),
                                                 .als_handle = word_of(&heap->handle),
                                                 .als_hash = HASH,
                                                 .record_slot = SLOT,
                                                 .undefined = tagged(&heap->undefined)};
    heap->frame = tagged(&heap->map);
    heap->handle = tagged(&heap->key);
    heap->map.words[0] = tagged(&heap->table);
    fill_table(heap);
    heap->record = some_context(seed);
    heap->value.words[(SLOT - 24) / 8] = word_of(&heap->record);
    heap->entry = static_variable(CONTEXT_OTEL_NODEJS, &variable);
    heap->entry.nodejs_form = NODEJS_SLOT_IN_VARIABLE;
    return heap;
}

static void begin(struct burner *burner)
{
    const struct heap *heap = burner->second;
    variable.cped_slot = 0;
    variable.als_handle = heap->variable.als_handle;
    variable.als_hash = heap->variable.als_hash;
    variable.record_slot = heap->variable.record_slot;
    variable.undefined = heap->variable.undefined;
    variable.cped_slot = heap->variable.cped_slot;
}

static void publish_heap(struct fixture *fixture, const struct heap *heap)
{
    struct context_process process = {.count = 1, .variables = {heap->entry}};
    publish_reader(fixture, (uint32_t)getpid(), &process);
}
