/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * spanprof's own counters for Prometheus: GET /metrics, text format 0.0.4.
 * Thread: loop. Limits: 16 connections, 4 KiB of headers, 10 s idle.
 */
#include "base/loop.h"
#include <stddef.h>

struct metrics_page;

/* Listening sockets; taken over (and set to -1) on success only. 0 or negative errno. */
int metrics_page_open(struct loop *loop, int *fds, size_t n, struct metrics_page **page);
void metrics_page_close(struct metrics_page *page); /* NULL is fine */
