/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A thread of this program that publishes a context, and what its samples must say. */
#include "sampler_fixture.h"

/* ---- what programs have in their memory ---- */

struct custom_set {
    const void *storage;
    uint64_t count, capacity;
};

struct custom_label {
    uint64_t key_size;
    const void *key;
    uint64_t value_size;
    const void *value;
};

struct elastic { /* 37 bytes, as its specification has them */
    uint16_t minor_version;
    uint8_t valid, present, flags;
    uint8_t trace_id[16], span_id[8], local_root_id[8];
} __attribute__((packed));

static __attribute__((unused)) struct elastic some_elastic(void)
{
    struct elastic record = {.minor_version = 1, .valid = 1, .present = 1, .flags = 1};
    for (uint8_t i = 0; i < 16; i++)
        record.trace_id[i] = (uint8_t)(0x10 + i);
    for (uint8_t i = 0; i < 8; i++) {
        record.span_id[i] = (uint8_t)(0x30 + i);
        record.local_root_id[i] = (uint8_t)(0x50 + i);
    }
    return record;
}

/* ---- what samples say ---- */

/* What a sample of the burner must say; `torn` and `cut` as flags. */
struct expected {
    uint8_t source, attributes_source, trace_flags;
    bool torn, cut, changed;
    uint8_t trace_id[16], span_id[8], local_root_id[8];
    size_t size;
    uint8_t attributes[RECORD_MAX_ATTRIBUTES];
};

struct verdict {
    const struct expected *expected;
    uint32_t tid;
    unsigned samples, exact;
    struct record_header other; /* the last that was not as expected */
    uint8_t attributes[RECORD_MAX_ATTRIBUTES];
};

static uint8_t expected_flags(const struct expected *expected)
{
    return (uint8_t)((expected->torn ? RECORD_FLAG_CONTEXT_TORN : 0) |
                     (expected->cut ? RECORD_FLAG_LABELS_CUT : 0) |
                     (expected->changed ? RECORD_FLAG_CONTEXT_CHANGED : 0));
}

static bool as_expected(const struct expected *expected, const struct record_header *record)
{
    const uint8_t flags =
        RECORD_FLAG_CONTEXT_TORN | RECORD_FLAG_LABELS_CUT | RECORD_FLAG_CONTEXT_CHANGED;
    const uint8_t *attributes = record_attributes(record);
    for (size_t i = record->attributes_size; i % 8; i++)
        if (attributes[i])
            return false; /* nothing of another sample may leak into what pads */
    return record->context_source == expected->source &&
           record->attributes_source == expected->attributes_source &&
           record->trace_flags == expected->trace_flags &&
           (record->flags & flags) == expected_flags(expected) &&
           !memcmp(record->trace_id, expected->trace_id, 16) &&
           !memcmp(record->span_id, expected->span_id, 8) &&
           !memcmp(record->local_root_id, expected->local_root_id, 8) &&
           record->attributes_size == expected->size &&
           !memcmp(attributes, expected->attributes, expected->size);
}

static void judge_context(void *context, const struct record_header *record)
{
    struct verdict *verdict = context;
    if (record->pid != (uint32_t)getpid() || record->tid != verdict->tid)
        return;
    verdict->samples++;
    if (as_expected(verdict->expected, record)) {
        verdict->exact++;
        return;
    }
    verdict->other = *record;
    memcpy(verdict->attributes, record_attributes(record), record->attributes_size);
}

static void tell_other(const struct verdict *verdict)
{
    const struct record_header *other = &verdict->other;
    printf("%u samples, %u as expected; another: source %u, attributes of %u: %u bytes, flags %#x, "
           "trace %02x.., span %02x.., root %02x.., trace flags %u\n",
           verdict->samples, verdict->exact, other->context_source, other->attributes_source,
           other->attributes_size, other->flags, other->trace_id[0], other->span_id[0],
           other->local_root_id[0], other->trace_flags);
    for (size_t i = 0; i < other->attributes_size; i++)
        printf(verdict->attributes[i] > 32 && verdict->attributes[i] < 127 ? "%c" : "\\%o",
               verdict->attributes[i]);
    printf("\n");
}

static __attribute__((unused)) void drain_for(struct fixture *fixture, ring_record_fn call,
                                              void *context, unsigned ms)
{
    struct ring_counts counts;
    for (unsigned waited = 0; waited < ms; waited += 25) {
        sleep_ms(25);
        ring_drain(fixture->ring, ring_position(fixture->ring), call, context, &counts);
        assert_int_equal(counts.malformed, 0);
    }
}

static __attribute__((unused)) void check_burner(struct fixture *fixture, const char *what,
                                                 struct burner *burner,
                                                 const struct expected *expected)
{
    burner_start(burner);
    struct verdict verdict = {.expected = expected, .tid = UINT32_MAX};
    drain_for(fixture, judge_context, &verdict, 1); /* from before it had set both */
    verdict.tid = burner->tid;
    for (int i = 0; i < 40 && verdict.samples < 40; i++)
        drain_for(fixture, judge_context, &verdict, 50);
    burner_stop(burner);
    if (verdict.samples >= 20 && verdict.exact == verdict.samples)
        return;
    tell_other(&verdict);
    fail_msg("%s", what);
}

/* All samples of a thread whose variables point to `first` and `second` are as expected. */
static __attribute__((unused)) void check(struct fixture *fixture, const char *what, void *first,
                                          void *second, const struct expected *expected)
{
    struct burner burner = {.context = first, .second = second, .cpu = -1};
    check_burner(fixture, what, &burner, expected);
}

static struct context_variable static_variable(uint8_t source, const volatile void *address)
{
    return (struct context_variable){.source = source,
                                     .thread_local_model = THREAD_LOCAL_STATIC,
                                     .offset = (const volatile char *)address - thread_pointer()};
}

static __attribute__((unused)) void publish_source(struct fixture *fixture, uint8_t source)
{
    struct context_process process = {.count = 1};
    process.variables[0] = static_variable(source, &current_context);
    publish_reader(fixture, (uint32_t)getpid(), &process);
}

static const struct expected __attribute__((unused)) nothing, torn = {.torn = true};

/* One label behind those that are expected already. */
static __attribute__((unused)) void expect_label(struct expected *expected, const void *key,
                                                 size_t key_size, const void *value,
                                                 size_t value_size)
{
    uint8_t *at = expected->attributes + expected->size;
    assert_true(expected->size + 2 + key_size + value_size <= RECORD_MAX_ATTRIBUTES);
    at[0] = (uint8_t)key_size;
    at[1] = (uint8_t)value_size;
    memcpy(at + 2, key, key_size);
    memcpy(at + 2 + key_size, value, value_size);
    expected->size += 2 + key_size + value_size;
}
