/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * What a process publishes about itself, byte for byte: the OpenTelemetry process context (OTEP
 * 4719) and thread context (OTEP 4947). Shared by the writer (libspanprof-context) and by readers
 * outside; BPF programs include it after vmlinux.h. Native byte order.
 *
 * Everything here is the publisher's to choose: a reader bounds sizes, pointers and repetitions.
 */
#ifndef __VMLINUX_H__
#include <stddef.h>
#include <stdint.h>
#elif !defined(offsetof)
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif

/*
 * Start of the process context's mapping. Named in /proc/PID/maps: one of these, each followed by
 * nothing or by text that is to be ignored (" (deleted)").
 */
#define OTEL_PROCESS_NAME           "OTEL_CTX" /* of the memfd and of the anonymous mapping */
#define OTEL_PROCESS_MAP_NAME_SHMEM "[anon_shmem:OTEL_CTX]"
#define OTEL_PROCESS_MAP_NAME_MEMFD "/memfd:OTEL_CTX"
#define OTEL_PROCESS_MAP_NAME_ANON  "[anon:OTEL_CTX]"

#define OTEL_PROCESS_SIGNATURE   "OTEL_CTX" /* 8 bytes, without NUL */
#define OTEL_PROCESS_VERSION     2
#define OTEL_PROCESS_PAYLOAD_MAX 65536 /* what readers accept */

struct otel_process_header {
    uint8_t signature[8];
    uint32_t version;
    uint32_t payload_size;    /* bytes */
    uint64_t published_at_ns; /* CLOCK_BOOTTIME, another one at each change; 0 = being changed */
    uint64_t payload;         /* address in the publisher: a ProcessContext message */
};

/* Attributes of the ProcessContext message without which thread records mean nothing. */
#define OTEL_THREAD_SCHEMA_KEY  "threadlocal.schema_version"    /* string */
#define OTEL_THREAD_KEY_MAP_KEY "threadlocal.attribute_key_map" /* array of string, append only */
#define OTEL_THREAD_SCHEMA_DEV  "tlsdesc_v1_dev"                /* what we write; read by all */
#define OTEL_THREAD_SCHEMA      "tls_v1"                        /* announced: read it too */
#define OTEL_THREAD_KEYS_MAX    256

/*
 * Thread context: the TLS symbol holds a pointer to the thread's active record, NULL = none. To be
 * read only while the thread does not run. Aligned to 2 at least.
 */
#define OTEL_THREAD_SYMBOL       "otel_thread_ctx_v1"
#define OTEL_THREAD_RECORD_VALID 1 /* any other value: ignore the record */

struct otel_thread_record {
    uint8_t trace_id[16]; /* network order; zero = none, then span_id is zero too */
    uint8_t span_id[8];
    uint8_t valid;
    uint8_t trace_flags;      /* W3C; older writers leave 0, so 0 does not prove "unsampled" */
    uint16_t attributes_size; /* bytes that follow */
    /* Entries: index into the key map u8, length u8, UTF-8. An index given twice: the last counts.
     */
    uint8_t attributes[];
}; /* no padding: packed by its own layout */

#define OTEL_THREAD_RECORD_HEAD 28  /* bytes in front of the attributes */
#define OTEL_THREAD_RECORD_MAX  640 /* recommended end of a whole record */

/*
 * Node.js, whose threads take turns with many contexts: the record is the value that the current
 * async context has for one AsyncLocalStorage, so it changes without a write here. The TLS symbol
 * holds where to begin; all of V8 without pointer compression and sandbox. Tagged words:
 * lowest bits 01 = a pointer plus 1, low half 0 = a small integer in the high half. Source: the
 * draft in open-telemetry/opentelemetry-ebpf-profiler, design-docs/01861-nodejs-thread-context.
 */
#define OTEL_NODEJS_SYMBOL     "otel_thread_ctx_nodejs_v1"
#define OTEL_NODEJS_SCHEMA_DEV "nodejs_v1_dev" /* of the draft, and of what was before it */
#define OTEL_NODEJS_SCHEMA     "nodejs_v1"     /* announced */

struct otel_nodejs_thread {
    uint64_t cped_slot;  /* address of the word with the current frame; 0 = nothing to read */
    uint64_t als_handle; /* address of the word with the AsyncLocalStorage, the key in the frame */
    int32_t als_hash;    /* of the key, for its bucket */
    uint8_t record_slot; /* in the value, an object: offset of the pointer to the record */
    uint8_t reserved[3];
    uint64_t undefined; /* the tagged word that is no frame, and no value */
};

/* The same in every V8 so built. */
#define OTEL_NODEJS_TAGGED_SIZE  8
#define OTEL_NODEJS_MAP_TABLE    24 /* in a Map: its table */
#define OTEL_NODEJS_TABLE_HEADER 16 /* in front of a table's words */

/* Attributes of the ProcessContext of writers before record_slot (integers). The record is at the
 * first of them, or the second leads to an object that has its address at the third. */
#define OTEL_NODEJS_RECORD_KEY       "threadlocal.js_object_record_offset"
#define OTEL_NODEJS_WRAPPED_KEY      "threadlocal.wrapped_object_offset"
#define OTEL_NODEJS_NATIVE_KEY       "threadlocal.native_wrap_fields_offset"
#define OTEL_NODEJS_TAGGED_SIZE_KEY  "threadlocal.tagged_size"
#define OTEL_NODEJS_MAP_TABLE_KEY    "threadlocal.js_map_table_offset"
#define OTEL_NODEJS_TABLE_HEADER_KEY "threadlocal.ordered_hash_map_header_size"

_Static_assert(sizeof(struct otel_process_header) == 32, "OTEP 4719");
_Static_assert(offsetof(struct otel_process_header, version) == 8, "OTEP 4719");
_Static_assert(offsetof(struct otel_process_header, payload_size) == 12, "OTEP 4719");
_Static_assert(offsetof(struct otel_process_header, published_at_ns) == 16, "OTEP 4719");
_Static_assert(offsetof(struct otel_process_header, payload) == 24, "OTEP 4719");
_Static_assert(sizeof(struct otel_thread_record) == OTEL_THREAD_RECORD_HEAD, "OTEP 4947");
_Static_assert(offsetof(struct otel_thread_record, span_id) == 16, "OTEP 4947");
_Static_assert(offsetof(struct otel_thread_record, valid) == 24, "OTEP 4947");
_Static_assert(offsetof(struct otel_thread_record, trace_flags) == 25, "OTEP 4947");
_Static_assert(offsetof(struct otel_thread_record, attributes_size) == 26, "OTEP 4947");
_Static_assert(offsetof(struct otel_thread_record, attributes) == 28, "OTEP 4947");
_Static_assert(sizeof(struct otel_nodejs_thread) == 32, "its draft");
_Static_assert(offsetof(struct otel_nodejs_thread, als_hash) == 16, "its draft");
_Static_assert(offsetof(struct otel_nodejs_thread, record_slot) == 20, "its draft");
_Static_assert(offsetof(struct otel_nodejs_thread, undefined) == 24, "its draft");
