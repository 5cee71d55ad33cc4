/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Places in compiled code: which functions were inlined there, from the nmethod's debug
 * information. Memory is the caller's arena's.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_decode.h"
#include "agent-bpf/runtimes/hotspot/hotspot_fetch.h"
#include "agent-bpf/runtimes/runtime_reader.h"

struct hotspot_function { /* at a place */
    uint64_t method;
    bool has_bci;
    uint16_t bci;
};

struct hotspot_compiled {
    uint64_t pc;
    uint64_t blob;
    uint32_t compile_id;
    /* Results: */
    enum runtime_outcome outcome; /* RUNTIME_FRAME_NAMED: functions are known */
    uint32_t n_functions;         /* innermost first */
    struct hotspot_function functions[RUNTIME_LINES_MAX];
    bool lives; /* after the check: the nmethod is in use, so all that was read was its own */
    /* Private: */
    bool read, used_read, method_read;
    uint8_t used; /* both as they were in the end */
    uint64_t method;
    uint8_t bytes[HOTSPOT_BLOB_BYTES]; /* the nmethod's header */
    uint64_t pcs;                      /* PcDescs in the process */
    uint32_t low, high;                /* of them: the wanted one is within, or behind all */
    uint32_t n_pcs;
    uint64_t scopes; /* data in the process */
    uint32_t scopes_size;
    uint64_t metadata;
    uint32_t target; /* offset of pc in the code */
    uint32_t scope;  /* offset of the scope that is next; 0: none */
    uint32_t chunk_at, chunk_size;
    uint8_t *chunk;
};

/* Finds the functions of all. 0; -ENOMEM; errors of reading. */
int hotspot_compiled_find(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                          struct hotspot_compiled *places, size_t n, struct arena *arena);
/* Looks once more whether each nmethod is still the one it was, and in use. */
int hotspot_compiled_check(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                           struct hotspot_compiled *places, size_t n);
