/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Time in nanoseconds. The kernel stamps samples with CLOCK_MONOTONIC; telemetry speaks of Unix
 * time. Thread: any.
 */
#include <stdint.h>
#include <time.h>

#define NS_PER_SEC UINT64_C(1000000000)
#define NS_PER_MS  UINT64_C(1000000)

uint64_t clock_monotonic_ns(void);
uint64_t clock_unix_ns(void);
uint64_t clock_thread_ns(void); /* CPU time of this thread */
struct timespec clock_timespec(uint64_t ns);
/* The present offset between both clocks. Read it again for each drain, so that a stepped clock
 * moves new samples only. It is the smallest of a few readings, so that an interruption between two
 * clock reads does not count. */
int64_t clock_unix_offset_ns(void);
