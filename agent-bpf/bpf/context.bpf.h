/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Reads the span that this thread works for. Its process publishes it in thread-local storage, or
 * OBI in a map; the thread is stopped while it is read. The memory may hold anything: each read may
 * fail, sizes are limited, and an incomplete record gives a flag and no ids.
 */
#include "agent-bpf/bpf/context_ids.bpf.h"
#include "agent-bpf/bpf/context_labels.bpf.h"
#include "agent-bpf/bpf/context_nodejs.bpf.h"

/* All sources have a thread-local pointer; they differ in what it points to. That of Node.js is the
 * first of several words. */
__noinline int context_read_variable(struct build *build, const struct context_variable *variable,
                                     __u64 tp)
{
    if (!build || !variable)
        return CONTEXT_ABSENT;
    __u64 address = thread_local_address(variable, tp), pointer = 0;
    if (address && bpf_probe_read_user(&pointer, sizeof(pointer), (void *)address))
        return CONTEXT_TORN;
    if (!pointer && variable->source == CONTEXT_GO_LABELS)
        pointer = arch_go_g();
    if (!pointer)
        return CONTEXT_ABSENT;
    if (variable->source == CONTEXT_OTEL_THREAD)
        return context_read_otel(build, pointer);
    if (variable->source == CONTEXT_ELASTIC)
        return context_read_elastic(build, pointer);
    if (variable->source == CONTEXT_OTEL_NODEJS)
        return context_read_nodejs(build, variable, address);
    if (build->header.attributes_source) /* of a source with higher precedence */
        return CONTEXT_ABSENT;
    if (variable->source == CONTEXT_GO_LABELS)
        return context_read_go(build, variable, pointer);
    if (variable->source == CONTEXT_CUSTOM_LABELS)
        return context_read_custom(build, pointer);
    return CONTEXT_ABSENT;
}

/* Also if the header is gone: the process may have withdrawn its context. */
static __always_inline bool context_changed(const struct context_process *process)
{
    __u64 address = process->published_address, published_ns = 0;
    if (!address)
        return false;
    return bpf_probe_read_user(&published_ns, sizeof(published_ns), (void *)address) ||
           published_ns != process->published_ns;
}

/* Fills in ids, flags and attributes. */
static __always_inline void context_read(struct context_process *process, __u64 tp,
                                         struct build *build)
{
    struct record_header *header = &build->header;
    header->flags |= RECORD_FLAG_CONTEXT_KNOWN;
    if (context_changed(process))
        header->flags |= RECORD_FLAG_CONTEXT_CHANGED;
    for (__u32 i = 0; i < CONTEXT_MAX_VARIABLES; i++) {
        if (i >= process->count || header->context_source)
            break;
        if (context_read_variable(build, &process->variables[i], tp) == CONTEXT_TORN)
            header->flags |= RECORD_FLAG_CONTEXT_TORN;
    }
    if (header->context_source || header->attributes_source)
        process->n_found++;
    if (header->flags & RECORD_FLAG_CONTEXT_TORN)
        process->n_torn++;
}
