/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The way back to Elastic agents: they are told which stacks were seen under which local root span,
 * and write the stacks' public ids on it (`elastic.profiler_stack_trace_ids`).
 *
 * The loop owns the agents' sockets, by process; the writer counts samples
 * (correlation_counts.h). Each CORRELATION_FLUSH_NS a job of the writer makes messages of the
 * counts; they are sent from its done(), once the public ids in them are committed.
 * An agent is registered with when its socket comes: at first contact, and again after a restart of
 * the service, since a new symbolizer looks at every process again.
 *
 * Limits: CORRELATION_SOCKETS_MAX sockets, but no more than a quarter of the file limit (the one
 * that was used longest ago goes); CORRELATION_WAITING_MAX messages that an agent has no room for.
 * Beyond, samples are counted as lost, by reason.
 */
#include "agent-bpf/symbolizer_messages.h"
#include "agent-bpf/record.h"
#include "base/worker.h"

#define CORRELATION_FLUSH_NS    UINT64_C(250000000)
#define CORRELATION_SOCKETS_MAX 1024
#define CORRELATION_WAITING_MAX 2048  /* of one agent */
#define CORRELATION_TOTAL_MAX   65536 /* waiting, of all */

struct correlation;
struct store;

struct correlation_settings {
    struct loop *loop;
    struct worker *writer;
    struct store *store;
    uint64_t drain_interval_ns;
};

int correlation_open(const struct correlation_settings *settings, struct correlation **correlation);
/* After the writer is closed. NULL is fine. */
void correlation_close(struct correlation *correlation);

/* LOOP: a datagram socket connected to the agent in that process; owned from now on. */
void correlation_attach(struct correlation *correlation, const struct symbolizer_process *process,
                        int fd);
/* LOOP: a process that ends, or becomes another, has no agent any more. */
void correlation_event(struct correlation *correlation, const struct process_event *event);
/* LOOP: what is counted is flushed once more, and no more after that. */
void correlation_stop(struct correlation *correlation);

/* WRITER: a sample and the row of its stack, within the store's batch. */
void correlation_add(struct correlation *correlation, const struct record_header *record,
                     int64_t stack);
