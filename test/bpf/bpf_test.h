/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the tests on the real kernel share: whether they can run at all, and waiting. */
#include "base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BPF_TEST_SKIP 77

static inline bool bpf_test_possible(void)
{
    const char *why = NULL;
    if (geteuid() != 0)
        why = "root is needed";
    else if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
        why = "the kernel has no BTF (/sys/kernel/btf/vmlinux)";
    if (why)
        printf("skipped: %s\n", why);
    return !why;
}

static inline void sleep_ms(uint64_t ms)
{
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&time, &time) < 0)
        ;
}

/* Factor on what is waited for: SPANPROF_SLOWNESS, on emulated CPUs more than 1. */
static inline uint64_t bpf_test_slowness(void)
{
    const char *text = getenv("SPANPROF_SLOWNESS");
    return text ? strtoull(text, NULL, 10) : 1;
}

/* Polls a condition; false when it did not come true in time. */
#define WAIT_FOR(condition, timeout_ms)                                                            \
    __extension__({                                                                                \
        uint64_t wait_ns_ = (uint64_t)(timeout_ms)*bpf_test_slowness() * NS_PER_MS;                \
        uint64_t wait_end_ = clock_monotonic_ns() + wait_ns_;                                      \
        bool wait_true_;                                                                           \
        while (!(wait_true_ = (condition)) && clock_monotonic_ns() < wait_end_)                    \
            sleep_ms(5);                                                                           \
        wait_true_;                                                                                \
    })
