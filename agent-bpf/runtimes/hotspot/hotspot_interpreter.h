/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The interpreter's method entries, found in its code: at which address each has made how much of
 * its frame (struct hotspot_entry). Codelets are found by their headers; entries by the description
 * that HotSpot gives them. Limits: HOTSPOT_CODELETS_MAX, HOTSPOT_CODELETS_BYTES_MAX.
 */
#include "agent-bpf/runtimes/hotspot_process.h"
#include "agent-bpf/runtimes/runtime_memory.h"

#define HOTSPOT_CODELETS_MAX       128 /* up to the last method entry; seen: 60 */
#define HOTSPOT_CODELETS_BYTES_MAX (UINT32_C(128) << 10)

struct hotspot_codelets {
    uint16_t size; /* offsets in InterpreterCodelet */
    uint16_t description;
    uint16_t header_bytes; /* sizeof(InterpreterCodelet) */
    uint32_t n;
};

/* Sets entries of the process, whose interpreter is known. 0; -EAGAIN: there are no entries yet;
 * -ENOTSUP: the codelets make no sense; another negative errno. */
int hotspot_interpreter_find_entries(const struct hotspot_codelets *codelets,
                                     struct runtime_memory *memory,
                                     struct hotspot_process *process);
