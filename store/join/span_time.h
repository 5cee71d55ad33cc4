/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A sample's time against a span's, which is of the SDK's clock. Both clocks are this node's: 10 ms
 * may lie between them, and a thousandth of the span's time (NTP slews by half of that). Pure;
 * thread: any.
 */
#include <stdbool.h>
#include <stdint.h>

/* It lies within the span's time, or 10 ms beside it. */
bool span_time_has(uint64_t start_unix_ns, uint64_t end_unix_ns, uint64_t time_unix_ns);
/* Samples from after this time are not the span's. UINT64_MAX: an end that cannot be is none. */
uint64_t span_time_over(uint64_t start_unix_ns, uint64_t end_unix_ns);
