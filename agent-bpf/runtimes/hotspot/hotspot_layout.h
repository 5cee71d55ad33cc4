/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From HotSpot's tables to the offsets that walking and naming need. Versions are told apart by
 * which fields exist. What is missing or out of bounds leads to a refusal, never to a guess. Tested
 * with 8, 11, 17, 21 and 25; 23, 24 and 26 follow HotSpot's sources.
 */
#include "agent-bpf/runtimes/hotspot_process.h"
#include "agent-bpf/runtimes/hotspot/hotspot_tables.h"

/* Of what attaching reads itself. Addresses in the process; 0: it has no such variable. */
struct hotspot_statics {
    uint64_t heaps; /* of a pointer to a GrowableArray of CodeHeap pointers */
    uint64_t heap;  /* 8: of a pointer to the only CodeHeap */
    uint64_t interpreter;
    uint64_t call_stub_return;
    uint64_t jdk_version; /* its first byte is the major version; up to 21 */
    uint64_t vm_version;  /* int */
    uint16_t array_length;
    uint16_t array_data;
    uint16_t heap_memory; /* of VirtualSpace in CodeHeap */
    uint16_t heap_segmap;
    uint16_t heap_log2_segment;
    uint16_t space_low; /* reserved */
    uint16_t space_high;
    uint16_t queue_buffer; /* of StubQueue */
    uint16_t queue_limit;
    uint16_t queue_stubs;
    uint16_t codelet_size;
    uint16_t codelet_description;
    uint16_t codelet_bytes;
};

/* Fills blob, method and names of the process. 0; -ENOTSUP. */
int hotspot_layout_find(const struct hotspot_tables *tables, struct hotspot_process *process,
                        struct hotspot_statics *statics);
/* True: what is read of objects by these offsets lies within the room for it. */
bool hotspot_layout_is_bounded(const struct hotspot_process *process);
/* What depends on the version alone. */
void hotspot_layout_set_major(struct hotspot_process *process, unsigned major);
