/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The profile window: settled samples (joined, without context, or timed out) become OTLP profile
 * requests in the outbox; the same transaction clears their pending bits. Writer thread only.
 *
 * A sample's Resource takes each attribute from the first source that has it: the span's Resource;
 * the Resource that the process publishes (service.* only if it is the same service); process.pid,
 * process.executable.name, process.executable.path and container.id as found on this node;
 * service.name = unknown_service:EXECUTABLE. Sample attributes: thread.name, thread.id,
 * cpu.logical_number; with a context spanprof.context.source, spanprof.stack.id (public id, hex),
 * spanprof.local_root.span_id (hex) and the context's attributes; with a joined span span.name,
 * span.kind and the configured attributes.
 */
#include "store/join/join.h"

struct outbox;
struct span_cpu;
struct history;

struct window_settings {
    size_t max_request_bytes;  /* limit of a request; a window may make several requests */
    uint32_t destinations;     /* outbox mask; 0: no destination, counted by the outbox */
    const char *scope_version; /* spanprof's own */
    struct span_cpu
        *span_cpu; /* may be NULL; a sample counts twice if its transaction is rolled back */
    struct history *history; /* also gets the samples; may be NULL */
    bool unsent;             /* the outbox is full: only history gets the samples; counted */
    size_t max_samples;      /* of a transaction, to the end of a batch; 0: no limit */
};

/* Where samples come from, and where they go. */
struct window_store {
    struct join *join;
    struct stacks *stacks;
    struct processes *processes;
    struct outbox *outbox;
};

enum { WINDOW_MORE = JOIN_LEAVE_MORE };

/* Closes the window at now_unix_ns. *n_samples: exported samples. WINDOW_MORE: samples are left for
 * another transaction. -ENOSPC: nothing was done, the samples wait for room. -EAGAIN: a part was
 * done, roll back. */
int window_close(const struct window_store *store, const struct window_settings *settings,
                 uint64_t now_unix_ns, size_t *n_samples);
