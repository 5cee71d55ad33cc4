/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Programs whose stacks are known: STACKS_PROGRAM MODE MILLISECONDS [MORE ...] says "ready", waits
 * for a line or the end of its input, and spends that much CPU time in burn(), below functions that
 * depend on the mode. It then prints "burned NANOSECONDS". Built in many ways, see CMakeLists.txt.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#ifdef __cplusplus
#define STACKS_C extern "C"
#else
#define STACKS_C
#endif

#ifdef __clang__
#define OWN_FRAME __attribute__((noinline))
#else
#define OWN_FRAME __attribute__((noinline, noclone, noipa))
#endif
#define WITHOUT_FRAME __attribute__((always_inline))
/* Some 100 us between two looks at the clock, which is not burn's own time. */
#define BURN_STEPS 100000

static volatile int sum; /* added to behind each call, so that none becomes a jump */
static uint64_t burn_ns;

static inline WITHOUT_FRAME uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

STACKS_C OWN_FRAME void burn(void);
void burn(void)
{
    uint64_t start = cpu_ns();
    while (cpu_ns() - start < burn_ns)
        for (int i = 0; i < BURN_STEPS; i++)
            sum = i;
    printf("burned %llu\n", (unsigned long long)(cpu_ns() - start));
    fflush(stdout);
}

struct stacks_mode {
    const char *name;
    void (*run)(void);
};

/* False: there is no such mode. */
static inline WITHOUT_FRAME int stacks_run(const struct stacks_mode *modes, const char *name)
{
    int found = 0;
    printf("ready\n");
    fflush(stdout);
    getchar();
    for (; modes->name; modes++)
        if (!strcmp(modes->name, name)) {
            found = 1;
            modes->run();
        }
    return found;
}
