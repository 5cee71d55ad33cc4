/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A library that uses libspanprof-context, to be loaded by dlopen(): what it shows of itself. */
#include "context/spanprof_context.h"

struct context_user {
    int (*publish)(const struct spanprof_attribute *attributes, size_t n);
    int (*update)(const struct spanprof_attribute *attributes, size_t n);
    int (*withdraw)(void);
    int (*key)(const char *name);
    int (*enter)(const uint8_t trace_id[16], const uint8_t span_id[8], uint8_t trace_flags,
                 struct spanprof_context *previous);
    int (*attach)(const struct spanprof_context *context);
    int (*clear)(void);
    void (*get)(struct spanprof_context *context);
    int (*set_attribute)(int key, const void *value, size_t size);
    void *(*thread_symbol)(void); /* &otel_thread_ctx_v1 as this library is bound to it */
};

extern const struct context_user context_user; /* the one symbol that the library exports */
