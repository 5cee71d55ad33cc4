/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which publishers of thread contexts an ELF file holds: found by what it exports, never by its
 * name, and once a file. Symbolizer only; reads nothing but through its argument. Sources: OTEP
 * 4947; elastic/apm, specs/agents/universal-profiling-integration.md; polarsignals/custom-labels,
 * custom-labels-v1.md; go_binary.h.
 */
#include "agent-bpf/contexts/go_binary.h"
#include "agent-bpf/contexts/thread_local.h"

#define CUSTOM_LABELS_ABI 1 /* the only one there is */

struct publishers {
    unsigned sources;                /* CONTEXT_BIT() of those that are there (record.h) */
    bool sets_trace_flags;           /* the OpenTelemetry writer is known to fill the flags */
    struct thread_local_symbol otel; /* each of these with its bit alone */
    struct thread_local_symbol elastic;
    uint64_t elastic_storage; /* vaddr of the pointer to the process storage */
    struct thread_local_symbol custom_labels;
    uint64_t custom_labels_abi; /* vaddr of the version, u32 */
    struct go_binary go;
};

/* NULL: it holds none. The caller frees it with free(). 0 or negative errno; a file that is
 * malformed holds none. */
int publishers_find(const struct elf *elf, struct publishers **publishers);
