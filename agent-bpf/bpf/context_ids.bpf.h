/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Sources that give ids: a thread-local pointer to a record, NULL if the thread has no span. A
 * record belongs to its thread, which is stopped while it is read. Another thread that writes to it
 * violates the ABI, but is noticed: the record is read twice, and both copies must be the same.
 * Formats: OpenTelemetry thread context, OTEP 4947; Elastic's, elastic/apm,
 * specs/agents/universal-profiling-integration.md.
 */
#include "agent-bpf/bpf/record_builder.bpf.h"

enum context_outcome { CONTEXT_FOUND, CONTEXT_ABSENT, CONTEXT_TORN };

struct otel_thread_record {
    __u8 trace_id[16];
    __u8 span_id[8];
    __u8 valid; /* 1 = usable, anything else is not */
    __u8 trace_flags;
    __u16 attributes_size;
} __attribute__((packed));

_Static_assert(sizeof(struct otel_thread_record) == 28, "OTEP 4947");

union otel_thread_words {
    struct otel_thread_record record;
    struct {
        __u64 trace[2];
        __u64 span;
        __u32 rest;
    };
};

struct elastic_thread_record {
    __u16 minor_version; /* 1; later ones append */
    __u8 valid;          /* 0 = being changed */
    __u8 trace_present;
    __u8 trace_flags;
    __u8 trace_id[16];
    __u8 span_id[8];
    __u8 local_root_id[8];
} __attribute__((packed));

_Static_assert(sizeof(struct elastic_thread_record) == 37, "its specification");

union elastic_thread_words {
    struct {
        __u8 before[3]; /* so that the ids are aligned */
        struct elastic_thread_record record;
    } __attribute__((packed));
    __u64 words[5];
    struct {
        __u64 head;
        __u64 trace[2];
        __u64 span;
        __u64 local_root;
    };
};

_Static_assert(sizeof(union elastic_thread_words) == 40, "no gap");

/* Cut at RECORD_MAX_ATTRIBUTES: parsers stop at an incomplete attribute. */
static __always_inline enum context_outcome context_read_attributes(struct build *build,
                                                                    __u64 record, __u16 size)
{
    if (size == 0 || build->header.attributes_source) /* labels of higher precedence are there */
        return CONTEXT_FOUND;
    __u32 wanted = size;
    if (wanted > RECORD_MAX_ATTRIBUTES)
        wanted = RECORD_MAX_ATTRIBUTES;
    void *from = (void *)(record + sizeof(struct otel_thread_record));
    *(__u64 *)(build->rest + (wanted & BUILD_AT_MASK)) = 0; /* what pads the last word */
    if (bpf_probe_read_user(build->rest, wanted, from))
        return CONTEXT_TORN;
    build->header.attributes_size = (__u16)wanted;
    build->header.attributes_source = CONTEXT_OTEL_THREAD;
    return CONTEXT_FOUND;
}

static __always_inline bool otel_same(const union otel_thread_words *a,
                                      const union otel_thread_words *b)
{
    return a->trace[0] == b->trace[0] && a->trace[1] == b->trace[1] && a->span == b->span &&
           a->rest == b->rest;
}

static __always_inline enum context_outcome otel_read_record(struct build *build, __u64 record)
{
    struct record_header *header = &build->header;
    const __u32 size = sizeof(struct otel_thread_record);
    union otel_thread_words seen, again;
    if (bpf_probe_read_user(&seen, size, (void *)record) || seen.record.valid != 1)
        return CONTEXT_TORN;
    bool trace = (seen.trace[0] | seen.trace[1]) != 0;
    if (!trace && !seen.span)
        return CONTEXT_ABSENT;
    if (!trace || !seen.span)
        return CONTEXT_TORN;
    if (context_read_attributes(build, record, seen.record.attributes_size))
        return CONTEXT_TORN;
    if (bpf_probe_read_user(&again, size, (void *)record) || !otel_same(&seen, &again))
        return CONTEXT_TORN;
    __builtin_memcpy(header->trace_id, seen.record.trace_id, sizeof(header->trace_id));
    __builtin_memcpy(header->span_id, seen.record.span_id, sizeof(header->span_id));
    header->trace_flags = seen.record.trace_flags;
    header->context_source = CONTEXT_OTEL_THREAD;
    return CONTEXT_FOUND;
}

/* A global function, as are all readers, so that it is verified once. record: not 0. */
__noinline int context_read_otel(struct build *build, __u64 record)
{
    if (!build)
        return CONTEXT_ABSENT;
    int outcome = otel_read_record(build, record);
    if (outcome != CONTEXT_FOUND && build->header.attributes_source == CONTEXT_OTEL_THREAD)
        build->header.attributes_size = build->header.attributes_source = 0;
    return outcome;
}

static __always_inline bool elastic_same(const union elastic_thread_words *a,
                                         const union elastic_thread_words *b)
{
    return a->head == b->head && a->trace[0] == b->trace[0] && a->trace[1] == b->trace[1] &&
           a->span == b->span && a->local_root == b->local_root;
}

__noinline int context_read_elastic(struct build *build, __u64 record)
{
    const __u32 size = sizeof(struct elastic_thread_record);
    union elastic_thread_words seen = {.words = {0}}, again = {.words = {0}};
    if (!build)
        return CONTEXT_ABSENT;
    if (bpf_probe_read_user(&seen.record, size, (void *)record) || !seen.record.minor_version ||
        !seen.record.valid)
        return CONTEXT_TORN;
    if (!seen.record.trace_present)
        return CONTEXT_ABSENT;
    if (seen.record.trace_present != 1 || !(seen.trace[0] | seen.trace[1]) || !seen.span)
        return CONTEXT_TORN;
    if (bpf_probe_read_user(&again.record, size, (void *)record) || !elastic_same(&seen, &again))
        return CONTEXT_TORN;
    struct record_header *header = &build->header;
    __builtin_memcpy(header->trace_id, seen.trace, sizeof(header->trace_id));
    __builtin_memcpy(header->span_id, &seen.span, sizeof(header->span_id));
    __builtin_memcpy(header->local_root_id, &seen.local_root, sizeof(header->local_root_id));
    header->trace_flags = seen.record.trace_flags;
    header->context_source = CONTEXT_ELASTIC;
    return CONTEXT_FOUND;
}
