/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a test's bound on time is of: others that want the CPU do not count. */
#include <stdint.h>
#include <time.h>

static inline uint64_t cpu_time_ns(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return (uint64_t)spent.tv_sec * 1000000000 + (uint64_t)spent.tv_nsec;
}
