/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/publishers/publisher_slot.h"

#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

/* The variable is in the symbol table alone, and in none once the file is stripped. */
#ifdef PUBLISHER_HIDDEN
#define SEEN __attribute__((visibility("hidden")))
#else
#define SEEN EXPORTED
#endif

#if defined(PUBLISHER_ELASTIC)
#define THREAD_VARIABLE elastic_apm_profiling_correlation_tls_v1
extern void *volatile elastic_apm_profiling_correlation_process_storage_v1;
EXPORTED void *volatile elastic_apm_profiling_correlation_process_storage_v1;
#define PROCESS_STORAGE &elastic_apm_profiling_correlation_process_storage_v1
#elif defined(PUBLISHER_LABELS)
#define THREAD_VARIABLE custom_labels_current_set
extern const uint32_t custom_labels_abi_version;
EXPORTED const uint32_t custom_labels_abi_version = 1;
#define PROCESS_STORAGE NULL
#else
#define THREAD_VARIABLE otel_thread_ctx_v1
#define PROCESS_STORAGE NULL
#endif

/* More than the static TLS that loaders keep free for libraries loaded late. */
#ifdef PUBLISHER_BALLAST
extern _Thread_local char publisher_ballast[PUBLISHER_BALLAST];
EXPORTED _Thread_local char publisher_ballast[PUBLISHER_BALLAST];
#endif

/* Initialized data lies first in the segment, so the variable's place in it is not 0. */
#ifdef PUBLISHER_BEFORE
extern _Thread_local char publisher_before[];
SEEN _Thread_local char publisher_before[PUBLISHER_BEFORE] = {1};
#endif

/* A segment whose end is padded. */
#ifdef PUBLISHER_ALIGNED
extern _Thread_local char publisher_aligned[];
SEEN _Thread_local char publisher_aligned[3] __attribute__((aligned(PUBLISHER_ALIGNED)));
#endif

extern _Thread_local void *volatile THREAD_VARIABLE;
SEEN _Thread_local void *volatile THREAD_VARIABLE;

EXPORTED void *volatile *publisher_slot_of_thread(void)
{
#ifdef PUBLISHER_BEFORE
    publisher_before[1] = 1; /* of two variables the block is used, where the model has one */
#endif
    return &THREAD_VARIABLE;
}

EXPORTED void *volatile *publisher_slot_process_storage(void)
{
    return PROCESS_STORAGE;
}
