/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * CPU time per service and span name, as Prometheus counters. A sample counts when it leaves the
 * join together with its span, a moment before that is committed. In memory only: after a restart
 * the counters begin at 0. Thread: the writer adds; span_cpu_openmetrics() any. Limits:
 * SPAN_CPU_SERIES_MAX pairs; samples beyond them go to one series with empty names. Format:
 * OpenMetrics 1.0, because it has exemplars: each names the trace sampled last.
 */
#include "base/buf.h"

#define SPAN_CPU_SERIES_MAX 1000
#define SPAN_CPU_NAME_MAX   256 /* bytes; longer names are cut */

struct span_cpu;
struct join_span_facts;
struct sample;

int span_cpu_open(struct span_cpu **cpu);  /* 0 or -ENOMEM */
void span_cpu_close(struct span_cpu *cpu); /* NULL is fine */
/* Counts a CPU sample that leaves the join with a span; ignores other samples. span may be NULL. If
 * there is no memory for a new series, the sample goes to the series with empty names. */
void span_cpu_add(struct span_cpu *cpu, const struct sample *sample,
                  const struct join_span_facts *span);
/* Writes the whole exposition. 0, BUF_FULL, -ENOMEM. */
int span_cpu_openmetrics(struct span_cpu *cpu, struct buf *out);
