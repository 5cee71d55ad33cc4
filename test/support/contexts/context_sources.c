/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/contexts/context_sources.h"
#include "context/context_layout.h"

#define PUBLISHED __attribute__((visibility("default")))

extern void *elastic_apm_profiling_correlation_process_storage_v1;
extern _Thread_local void *elastic_apm_profiling_correlation_tls_v1;
extern uint32_t custom_labels_abi_version;
extern _Thread_local void *custom_labels_current_set;
extern _Thread_local struct otel_nodejs_thread otel_thread_ctx_nodejs_v1;
extern const struct context_sources context_sources;

PUBLISHED void *elastic_apm_profiling_correlation_process_storage_v1;
PUBLISHED _Thread_local void *elastic_apm_profiling_correlation_tls_v1;
PUBLISHED uint32_t custom_labels_abi_version = 1;
PUBLISHED _Thread_local void *custom_labels_current_set;
PUBLISHED _Thread_local struct otel_nodejs_thread otel_thread_ctx_nodejs_v1;

static uint64_t elastic_variable(void)
{
    return (uint64_t)(uintptr_t)&elastic_apm_profiling_correlation_tls_v1;
}

static uint64_t labels_variable(void)
{
    return (uint64_t)(uintptr_t)&custom_labels_current_set;
}

static uint64_t nodejs_variable(void)
{
    return (uint64_t)(uintptr_t)&otel_thread_ctx_nodejs_v1;
}

PUBLISHED const struct context_sources context_sources = {
    .elastic_storage = &elastic_apm_profiling_correlation_process_storage_v1,
    .labels_version = &custom_labels_abi_version,
    .elastic_variable = elastic_variable,
    .labels_variable = labels_variable,
    .nodejs_variable = nodejs_variable,
};
