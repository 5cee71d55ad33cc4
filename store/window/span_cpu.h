/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * CPU time by service and span name, as counters for Prometheus: of samples that were joined with
 * a span, as they leave. In memory alone: a restart begins at 0, as counters may.
 * Thread: the writer adds; span_cpu_openmetrics() any.
 * Limits: SPAN_CPU_SERIES_MAX pairs; what comes beyond is summed up in one with empty names.
 * Source of the format: OpenMetrics 1.0, for its exemplars: the trace sampled last.
 */
#include "base/buf.h"

#define SPAN_CPU_SERIES_MAX 1000
#define SPAN_CPU_NAME_MAX   256 /* bytes; longer names are cut */

struct span_cpu;
struct join_span_facts;
struct sample;

int span_cpu_open(struct span_cpu **cpu);  /* 0 or -ENOMEM */
void span_cpu_close(struct span_cpu *cpu); /* NULL is fine */
/* A sample that leaves; span may be NULL. 0 or -ENOMEM: it is counted with the rest. */
void span_cpu_add(struct span_cpu *cpu, const struct sample *sample,
                  const struct join_span_facts *span);
/* The whole exposition. 0, BUF_FULL, -ENOMEM. */
int span_cpu_openmetrics(struct span_cpu *cpu, struct buf *out);
