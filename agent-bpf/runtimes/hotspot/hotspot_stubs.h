/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names of code that a JVM makes and that is no method's. Many stubs lie in one CodeBlob; HotSpot
 * lists them one by one, newest first, with their names (StubCodeDesc; the variable is found by its
 * symbol, and has been the same since HotSpot 9). What is not in the list has its CodeBlob's name.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_trail.h"
#include "agent-bpf/runtimes/hotspot_process.h"

#define HOTSPOT_STUB_NAME_MAX 64

struct hotspot_stub {
    uint64_t pc; /* within it */
    uint64_t blob;
    /* Results: */
    bool text_read;
    char text[HOTSPOT_STUB_NAME_MAX + 1];
    struct hotspot_trail trail;
    /* Private: */
    bool read, list_read;
    uint64_t name;
    uint64_t list;
};

/* cache: keeps the list. Those without a CodeBlob are passed over. 0; -ENOMEM; errors of reading.
 */
int hotspot_stubs_find(const struct hotspot_process *process, struct runtime_cache *cache,
                       struct hotspot_fetch *fetch, struct hotspot_stub *stubs, size_t n);
