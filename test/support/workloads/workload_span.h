/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Spans as an SDK would keep them: current one of the thread, published to the profiler, exported
 * when ended. Beside that the truth about each is written as JSON lines on stdout:
 *     {"type":"process", "pid", "service", "instance"}
 *     {"type":"start", "trace_id", "span_id", "tid", "name"}
 *     {"type":"on", "tid", "trace_id", "span_id", "from", "to"}      the span was the thread's
 * current one
 *     {"type":"off", "tid", "from", "to"}                             no span was
 *     {"type":"span", ids, "name", "tid", "start", "end", "cpu_ns", "function"}
 * Times in Unix ns; cpu_ns is what the thread used while this span itself was current, without its
 * children, from CLOCK_THREAD_CPUTIME_ID. "on" and "off" lie within the published time, never past
 * it.
 *
 * Thread: a span begins and ends in one thread; spans nest.
 */
#include <stdbool.h>
#include <stdint.h>

struct span_exporter;

struct workload_process {
    const char *service;
    char instance[64];
    struct span_exporter *exporter; /* NULL: spans are not sent */
    bool quiet;                     /* no truth */
    bool unpublished;               /* neither process nor thread context */
};

struct workload_span {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t parent_id[8];
    const char *name;
    const char *function; /* for the truth */
    bool server;
    struct workload_span *outer;
    uint64_t start_unix_ns;
    uint64_t cpu_ns;
    uint64_t on_unix_ns; /* since when it is current */
    uint64_t on_cpu_ns;
};

/* Once; 0 or negative errno. */
int workload_process_open(struct workload_process *process);
/* Fill name, function, server before; ids come from the outer span, or from parent if that is
 * given. */
void workload_span_begin(struct workload_process *process, struct workload_span *span,
                         const struct workload_span *parent);
void workload_span_end(struct workload_process *process, struct workload_span *span);
/* Publishes ids without being a span of ours: claimed from another process. */
void workload_claim(const uint8_t trace_id[16], const uint8_t span_id[8]);
/* Says that the thread was without span since `from`. */
void workload_off(struct workload_process *process, uint64_t from_unix_ns);
void workload_random(void *data, uint64_t size);
