/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * HotSpot's packed tables: pure functions over bytes of a process, which may hold anything. Each
 * ends within its bytes. Source of the formats: HotSpot's unsigned5, constMethod, debugInfo.
 */
#include "agent-bpf/runtimes/hotspot_process.h"
#include "base/bytes.h"

/* One number; the bytes are consumed. False: it is cut off, or has a byte that none has. */
bool hotspot_unsigned5(struct bytes *bytes, unsigned excluded, uint32_t *value);

struct hotspot_scope { /* one function at a place of compiled code */
    uint32_t sender;   /* offset of the scope it was inlined into; 0: none */
    uint32_t metadata; /* its Method: index + 1 */
    uint16_t bci;
};

bool hotspot_scope_read(struct bytes bytes, unsigned excluded, struct hotspot_scope *scope);

/* The line of a bytecode, from a line table that may be cut off; 0: not known. */
uint32_t hotspot_line_of(struct bytes table, unsigned excluded, uint16_t bci);
