/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The ProcessContext message (protobuf, opentelemetry.proto.processcontext.v1development): Resource
 * with the resource attributes, then schema version and key map of the thread context. Internal.
 */
#include "context/shared_state.h"
#include <stdbool.h>

/* Largest message: each attribute or key takes at most 16 bytes more than in the tables. */
#define PAYLOAD_MAX                                                                                \
    (SPANPROF_RESOURCE_BYTES_MAX + 16 * SPANPROF_RESOURCE_ATTRIBUTES_MAX +                         \
     SPANPROF_CONTEXT_KEY_BYTES_MAX + 6 * OTEL_THREAD_KEYS_MAX + 256)

/* The schema of threads' contexts: OTEL_THREAD_SCHEMA_DEV, unless a publisher has set another one
 * before it publishes. */
extern const char *spanprof_context_schema;

/* Writes the message to out, which has room for PAYLOAD_MAX bytes; returns its size. */
size_t spanprof_context_payload(const struct shared_table *resource, const uint8_t *keys,
                                uint32_t n_keys, uint8_t *out);
/* Text in a message has to be UTF-8, or readers refuse all of it. */
bool spanprof_context_utf8(const char *text, size_t size);
