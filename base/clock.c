/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

static uint64_t read_clock(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now); /* cannot fail for these clocks */
    return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_unix_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

uint64_t clock_thread_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

struct timespec clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_SEC),
                             .tv_nsec = (long)(ns % NS_PER_SEC)};
}

int64_t clock_unix_offset_ns(void)
{
    uint64_t least = UINT64_MAX;
    int64_t offset = 0;
    for (int i = 0; i < 5; i++) {
        uint64_t before = clock_monotonic_ns(), unix_ns = clock_unix_ns();
        uint64_t took = clock_monotonic_ns() - before;
        if (took < least) {
            least = took;
            offset = (int64_t)(unix_ns - (before + took / 2));
        }
    }
    return offset;
}
