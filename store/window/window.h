/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The profile window: samples that are settled (joined, without context, or done waiting) become
 * OTLP profile requests in the outbox; their pending bits are cleared in the same transaction.
 * Writer thread only.
 *
 * A sample's Resource has, each where those before it do not say it: what its span's Resource says;
 * what its process published (but service.* only if it is the same service); process.pid,
 * process.executable.name, process.executable.path and container.id as found here; service.name
 * unknown_service:EXECUTABLE. Sample attributes: thread.name,
 * thread.id, cpu.logical_number; spanprof.stack.id (public id, hex); with a context
 * spanprof.context.source, spanprof.local_root.span_id (hex) and the context's attributes; of a
 * joined span span.name, span.kind and the chosen attributes.
 */
#include "store/join/join.h"

struct outbox;
struct span_cpu;
struct history;

struct window_settings {
    size_t max_request_bytes; /* a request stays under this; several are made if need be */
    uint32_t
        destinations; /* outbox destination mask; 0: samples go nowhere, counted by the outbox */
    const char *scope_version; /* spanprof's own */
    struct span_cpu *span_cpu; /* NULL: nobody asks; what is rolled back counts again */
    struct history *history;   /* gets what leaves, too; NULL: none */
    bool unsent;               /* it alone does, for the outbox is full; counted */
};

/* Where samples come from, and where they go. */
struct window_store {
    struct join *join;
    struct stacks *stacks;
    struct processes *processes;
    struct outbox *outbox;
};

/* Closes the window at now. *n_samples: exported. -ENOSPC: nothing was done, the samples wait for
 * room. -EAGAIN: it ended in the middle, roll back. */
int window_close(const struct window_store *store, const struct window_settings *settings,
                 uint64_t now_unix_ns, size_t *n_samples);
