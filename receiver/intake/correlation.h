/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Feedback to Elastic agents: reports which stacks were seen under which local root span. The agent
 * writes the stacks' public ids on that span (`elastic.profiler_stack_trace_ids`).
 *
 * The loop owns the agents' sockets, by process; the writer counts samples (correlation_counts.h).
 * Every CORRELATION_FLUSH_NS a writer job makes messages from the counts; its done() sends them,
 * once their public ids are committed. The registration message is sent when an agent's socket
 * arrives: at first contact, and again after a restart of the service, since a new symbolizer scans
 * every process again.
 *
 * Limits: CORRELATION_SOCKETS_MAX sockets, but no more than a quarter of the file limit (the one
 * least recently used is closed); CORRELATION_WAITING_MAX messages that wait for an agent. Beyond,
 * samples are counted as lost, by reason.
 */
#include "agent-bpf/symbolizer_messages.h"
#include "agent-bpf/record.h"
#include "base/worker.h"

#define CORRELATION_FLUSH_NS    UINT64_C(250000000)
#define CORRELATION_SOCKETS_MAX 1024
#define CORRELATION_WAITING_MAX 2048  /* of one agent */
#define CORRELATION_TOTAL_MAX   65536 /* waiting, of all */
#define CORRELATION_STOP_NS     UINT64_C(500000000)

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
/* LOOP: a process that exits or execs has no agent any more. */
void correlation_event(struct correlation *correlation, const struct process_event *event);
/* LOOP: reports what is counted, without holding anything back, and calls stopped(context) when the
 * agents have taken all of it: agents read from time to time, and the kernel keeps ten messages.
 * After CORRELATION_STOP_NS it is called all the same. May call it at once. */
void correlation_stop(struct correlation *correlation, void (*stopped)(void *context),
                      void *context);

/* WRITER: a sample and the row of its stack, within the store's batch. */
void correlation_add(struct correlation *correlation, const struct record_header *record,
                     int64_t stack);
