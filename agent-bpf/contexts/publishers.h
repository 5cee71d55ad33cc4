/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Finds the publishers of thread contexts in an ELF file, by the symbols that it exports, never by
 * its name. Called once per file. Symbolizer only; reads only through its argument. Sources: OTEP
 * 4947; elastic/apm, specs/agents/universal-profiling-integration.md; polarsignals/custom-labels,
 * custom-labels-v1.md; go_binary.h.
 */
#include "agent-bpf/contexts/go_binary.h"
#include "agent-bpf/contexts/thread_local.h"

#define CUSTOM_LABELS_ABI 1 /* the only version */

struct publishers {
    unsigned sources;                /* CONTEXT_BIT()s (record.h) of those found */
    bool sets_trace_flags;           /* the OpenTelemetry writer is known to fill the flags */
    struct thread_local_symbol otel; /* each of these is set only with its bit */
    struct thread_local_symbol otel_nodejs;
    struct thread_local_symbol elastic;
    uint64_t elastic_storage; /* vaddr of the pointer to the process storage */
    struct thread_local_symbol custom_labels;
    uint64_t custom_labels_abi; /* vaddr of the version, u32 */
    struct go_binary go;
};

/* NULL: it has none. The caller frees it with free(). 0 or negative errno; a malformed file has
 *  none. */
int publishers_find(const struct elf *elf, struct publishers **publishers);
