/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * For Prometheus: GET /metrics, spanprof's own counters, text format 0.0.4; GET /metrics/spans, CPU
 * time by span name, OpenMetrics, if span_cpu is set. Thread: loop. Limits: those of http1_page.h.
 */
#include "base/loop.h"
#include <stddef.h>

struct metrics_page;
struct span_cpu;

/* Listening sockets; taken over (and set to -1) on success only. span_cpu: outlives the page, or
 * NULL. 0 or negative errno. */
int metrics_page_open(struct loop *loop, int *fds, size_t n, struct span_cpu *span_cpu,
                      struct metrics_page **page);
void metrics_page_close(struct metrics_page *page); /* NULL is fine */
