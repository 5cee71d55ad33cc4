/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Which span does this thread work for? The publisher says so in thread-local storage; here it is
 * read while the thread stands still. Whatever is there may be garbage: each read may fail, sizes
 * are cut, and a record that is not whole gives a flag and no ids.
 * Format of the record: OpenTelemetry thread context, OTEP 4947.
 */

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

enum context_outcome { CONTEXT_FOUND, CONTEXT_ABSENT, CONTEXT_TORN };

/* Address of the thread's variable; 0 = it has none (yet). */
static __always_inline __u64 context_address(const struct context_variable *variable, __u64 tp)
{
    if (variable->tls_model == TLS_STATIC)
        return tp + (__u64)variable->offset;
    if (variable->tls_model != TLS_DYNAMIC)
        return 0;
    __u64 dtv = 0, block = 0;
    if (bpf_probe_read_user(&dtv, sizeof(dtv), (void *)(tp + (__u64)variable->dtv_offset)) || !dtv)
        return 0;
    __u64 entry = dtv + variable->module * variable->dtv_entry_size;
    if (bpf_probe_read_user(&block, sizeof(block), (void *)entry))
        return 0;
    if (!block || block == ~0ULL) /* glibc: not allocated for this thread yet */
        return 0;
    return block + (__u64)variable->offset;
}

/* Cut at RECORD_MAX_ATTRIBUTES: who parses them stops at an incomplete one. */
static __always_inline enum context_outcome context_read_attributes(struct build *build,
                                                                    __u64 record, __u16 size)
{
    if (size == 0)
        return CONTEXT_FOUND;
    __u32 wanted = size;
    if (wanted > RECORD_MAX_ATTRIBUTES)
        wanted = RECORD_MAX_ATTRIBUTES;
    void *from = (void *)(record + sizeof(struct otel_thread_record));
    *(__u64 *)(build->rest + (wanted & UNWIND_AT_MASK)) = 0; /* what pads the last word */
    if (bpf_probe_read_user(build->rest, wanted, from))
        return CONTEXT_TORN;
    build->header.attributes_size = (__u16)wanted;
    build->header.attributes_source = CONTEXT_OTEL_THREAD;
    return CONTEXT_FOUND;
}

static __always_inline bool context_same(const union otel_thread_words *a,
                                         const union otel_thread_words *b)
{
    return a->trace[0] == b->trace[0] && a->trace[1] == b->trace[1] && a->span == b->span &&
           a->rest == b->rest;
}

static __always_inline enum context_outcome context_read_record(struct build *build, __u64 record)
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
    /* The thread stands still, but another one may write to its record: against the ABI, yet cheap
     * to notice in most cases. */
    if (bpf_probe_read_user(&again, size, (void *)record) || !context_same(&seen, &again))
        return CONTEXT_TORN;
    __builtin_memcpy(header->trace_id, seen.record.trace_id, sizeof(header->trace_id));
    __builtin_memcpy(header->span_id, seen.record.span_id, sizeof(header->span_id));
    header->trace_flags = seen.record.trace_flags;
    header->context_source = CONTEXT_OTEL_THREAD;
    return CONTEXT_FOUND;
}

/* A global function, so that it is verified once. variable: the address of the thread's pointer. */
__noinline int context_read_otel(struct build *build, __u64 variable)
{
    __u64 record = 0;
    if (!build)
        return CONTEXT_ABSENT;
    if (bpf_probe_read_user(&record, sizeof(record), (void *)variable))
        return CONTEXT_TORN;
    if (!record)
        return CONTEXT_ABSENT;
    int outcome = context_read_record(build, record);
    if (outcome != CONTEXT_FOUND)
        build->header.attributes_size = build->header.attributes_source = 0;
    return outcome;
}

static __always_inline bool context_stale(const struct context_process *process, __u64 start_ns)
{
    __u64 expected = process->process_start_ns;
    return expected && expected / CONTEXT_START_TICK_NS != start_ns / CONTEXT_START_TICK_NS;
}

/* Fills in ids, flags and attributes; the sources are tried in order, the first valid one counts.
 */
static __always_inline void context_read(const struct context_process *process, __u64 tp,
                                         struct build *build)
{
    struct record_header *header = &build->header;
    header->flags |= RECORD_FLAG_CONTEXT_KNOWN;
    for (__u32 i = 0; i < CONTEXT_MAX_VARIABLES; i++) {
        const struct context_variable *variable = &process->variables[i];
        if (i >= process->count)
            break;
        if (variable->source != CONTEXT_OTEL_THREAD)
            continue;
        __u64 address = context_address(variable, tp);
        if (!address)
            continue;
        int outcome = context_read_otel(build, address);
        if (outcome == CONTEXT_TORN)
            header->flags |= RECORD_FLAG_CONTEXT_TORN;
        if (outcome == CONTEXT_FOUND)
            break;
    }
}
