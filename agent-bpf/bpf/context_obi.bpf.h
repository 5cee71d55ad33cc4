/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * The context that OpenTelemetry eBPF Instrumentation publishes for a thread, in a map of its own
 * that user space puts into the slot here (obi_map.h). Source of the format: its
 * devdocs/trace-profile-correlation.
 */
#include "agent-bpf/bpf/record_builder.bpf.h"

union obi_context {
    struct {
        __u8 trace_id[16];
        __u8 span_id[8];
    };
    __u64 words[3];
};

_Static_assert(sizeof(union obi_context) == 24, "value of OBI's map");

struct obi_map { /* the form that any map in the slot has; its size does not matter */
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(__u64)); /* bpf_get_current_pid_tgid() */
    __uint(value_size, sizeof(union obi_context));
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, 1);
    __type(key, __u32);
    __array(values, struct obi_map);
} obi_slot SEC(".maps");

/* A removed entry may be reused for another thread while it is read, so it is looked up twice. */
static __always_inline void context_read_obi(struct build *build)
{
    __u32 zero = 0;
    __u64 thread = bpf_get_current_pid_tgid();
    void *map = bpf_map_lookup_elem(&obi_slot, &zero);
    const union obi_context *found = map ? bpf_map_lookup_elem(map, &thread) : (void *)0;
    if (!found)
        return;
    union obi_context seen = *found;
    found = bpf_map_lookup_elem(map, &thread);
    if (!found || found->words[0] != seen.words[0] || found->words[1] != seen.words[1] ||
        found->words[2] != seen.words[2])
        return;
    if (!(seen.words[0] | seen.words[1]) || !seen.words[2])
        return;
    struct record_header *header = &build->header;
    __builtin_memcpy(header->trace_id, seen.trace_id, sizeof(header->trace_id));
    __builtin_memcpy(header->span_id, seen.span_id, sizeof(header->span_id));
    header->context_source = CONTEXT_OBI;
}
