/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reads the OTEL_CTX mapping of another process: its Resource and what is needed to read its thread
 * records. Source of the format: OTEP 4719, OTEP 4947 (context/context_layout.h). Symbolizer only;
 * otel_context_decode() is pure. Limits: payload of 1..65536 bytes, keys as the ABI.
 */
#include "agent-bpf/contexts/nodejs_layout.h"
#include "base/bytes.h"

#define OTEL_CONTEXT_KEYS_MAX 256

enum otel_schema {
    OTEL_SCHEMA_NONE,         /* no thread context */
    OTEL_SCHEMA_THREAD_LOCAL, /* otel_thread_ctx_v1: tlsdesc_v1_dev or tls_v1 */
    OTEL_SCHEMA_GO_LABELS,    /* go_pprof_labels_v1: the labels of goroutines */
    OTEL_SCHEMA_NODEJS,       /* otel_thread_ctx_nodejs_v1: nodejs_v1_dev or nodejs_v1 */
    OTEL_SCHEMA_OTHER,        /* not supported */
};

enum {
    OTEL_CONTEXT_MALFORMED = 1,
    OTEL_CONTEXT_BUSY = 2, /* it changed during each attempt: try again later */
};

struct otel_context {
    uint64_t published_ns; /* CLOCK_BOOTTIME; never 0 */
    struct bytes resource; /* Resource message, checked; borrowed from the payload; may be empty */
    enum otel_schema schema;
    bool schema_final; /* tls_v1, whose writers must set the trace flags */
    struct nodejs_layout nodejs;
    uint32_t n_keys;
    struct bytes keys[OTEL_CONTEXT_KEYS_MAX]; /* borrowed; valid UTF-8 */
};

/* True: a mapping of that name (as in /proc/PID/maps) may hold the header. */
bool otel_context_named(struct bytes path);

/* The publication time at address; 0, OTEL_CONTEXT_MALFORMED (no header there), _BUSY, negative
 * errno as reader_memory(). */
int otel_context_poll(uint32_t pid, uint64_t address, uint64_t *published_ns);

/* maps, mounts: texts, used to refuse memory that may block (proc_maps_harmless). payload:
 * OTEL_PROCESS_PAYLOAD_MAX bytes from which the result borrows. Outcomes as above. */
struct otel_context_source {
    uint32_t pid;
    uint64_t address;
    struct bytes maps;
    struct bytes mounts;
};
int otel_context_read(const struct otel_context_source *source, uint8_t *payload,
                      struct otel_context *context);

/* Decodes a ProcessContext message: all fields but published_ns. 0 or OTEL_CONTEXT_MALFORMED. */
int otel_context_decode(struct bytes message, struct otel_context *context);
