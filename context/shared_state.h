/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The data that every copy of this library in a process works on, found through exported symbols
 * that the dynamic linker binds to one definition. Their layout is fixed by the version in their
 * names: a change gets new names.
 *
 *   otel_thread_ctx_v1            TLS, the ABI's pointer to the thread's active record
 *   spanprof_context_records_v1   TLS, the two records that the pointer alternates between
 *   spanprof_context_process_v1   what is published about the process
 *
 * A fork may hit the process state at any point of a change made by another thread. So each change
 * is prepared aside and takes effect with one store (active_table, n_keys).
 */
#include "context/context_layout.h"
#include "context/spanprof_context.h"
#include <stdatomic.h>

#define SHARED_RECORD_BYTES  240
#define SHARED_RECORDS_BYTES 488
#define SHARED_PROCESS_BYTES 41016

/* With the pointer it stays below the 512 bytes that glibc lets libraries loaded by dlopen() have
 * of its static TLS, where the simplest readers find it and no thread has to allocate. */
struct shared_records {
    uint8_t records[2][SHARED_RECORD_BYTES];
    volatile uint32_t busy; /* a change is under way: a signal handler must not begin one */
    uint32_t spare;
};

struct shared_table { /* resource attributes: key length u16, value length u16, key, value */
    uint32_t n_attributes;
    uint32_t size;
    uint8_t data[SPANPROF_RESOURCE_BYTES_MAX];
};

struct shared_process {
    _Atomic int32_t lock; /* pid of the holder, 0 = free */
    int32_t pid;          /* who published; another pid than ours: before a fork */
    uint32_t users;
    uint32_t active_table;
    uint64_t published_at_ns;
    struct otel_process_header *mapping; /* of pid; NULL = not published */
    uint32_t active_slot;
    uint32_t n_keys;
    uint8_t keys[SPANPROF_CONTEXT_KEY_BYTES_MAX]; /* length u8, name */
    struct shared_table tables[2];
};

_Static_assert(sizeof(struct shared_records) == SHARED_RECORDS_BYTES, "defined in assembly");
_Static_assert(sizeof(struct shared_process) == SHARED_PROCESS_BYTES, "defined in assembly");
_Static_assert(SHARED_RECORD_BYTES >= OTEL_THREAD_RECORD_HEAD + SPANPROF_CONTEXT_ATTRIBUTES_MAX,
               "");

#define SHARED_SYMBOL __attribute__((visibility("default")))
#define SHARED_TLS    SHARED_SYMBOL __attribute__((tls_model("global-dynamic")))

extern SHARED_TLS _Thread_local struct otel_thread_record *otel_thread_ctx_v1;
extern SHARED_TLS _Thread_local struct shared_records spanprof_context_records_v1;
extern SHARED_SYMBOL struct shared_process spanprof_context_process_v1;
