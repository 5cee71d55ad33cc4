/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Phases are 60 to 140 ms, drawn at random: a fixed length could fall in step with the sampler's
 * ticks. Each function is its own code, so that neither compiler nor linker folds them into one.
 */
#include "test/support/workloads/workload_burn.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define CHUNK_STEPS     50000 /* some 50 us between two looks at the clock, the work of others */
#define PHASE_MIN_NS    60000000u
#define PHASE_SPREAD_NS 80000000u

const char *const burn_names[BURN_FUNCTIONS] = {"burn_alpha", "burn_beta", "burn_gamma",
                                                "burn_delta"};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t burn_thread_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t burn_wall_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t burn_unix_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

/* Outside names, so that they stay in the symbol table as they are. */
void burn_alpha(uint64_t cpu_end_ns, uint64_t wall_deadline_ns);
void burn_beta(uint64_t cpu_end_ns, uint64_t wall_deadline_ns);
void burn_gamma(uint64_t cpu_end_ns, uint64_t wall_deadline_ns);
void burn_delta(uint64_t cpu_end_ns, uint64_t wall_deadline_ns);

#define BURN_FUNCTION(name, step)                                                                  \
    __attribute__((noinline)) void name(uint64_t cpu_end_ns, uint64_t wall_deadline_ns)            \
    {                                                                                              \
        volatile uint64_t sink = 1;                                                                \
        while (burn_thread_cpu_ns() < cpu_end_ns && burn_wall_ns() < wall_deadline_ns)             \
            for (unsigned i = 0; i < CHUNK_STEPS; i++)                                             \
                sink = (step);                                                                     \
    }

BURN_FUNCTION(burn_alpha, sink * 6364136223846793005u + 1442695040888963407u)
BURN_FUNCTION(burn_beta, (sink ^ (sink >> 7)) + 0x9e3779b97f4a7c15u)
BURN_FUNCTION(burn_gamma, (sink << 13) ^ (sink >> 11) ^ 0x5851f42du)
BURN_FUNCTION(burn_delta, sink + (sink << 3) + 0x2545f491u)

void burn(unsigned function, uint64_t cpu_ns, uint64_t wall_deadline_ns)
{
    static void (*const functions[BURN_FUNCTIONS])(uint64_t, uint64_t) = {burn_alpha, burn_beta,
                                                                          burn_gamma, burn_delta};
    functions[function % BURN_FUNCTIONS](burn_thread_cpu_ns() + cpu_ns, wall_deadline_ns);
}

void burn_sleep_until(uint64_t wall_ns)
{
    struct timespec until = {.tv_sec = (time_t)(wall_ns / 1000000000u),
                             .tv_nsec = (long)(wall_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

void burn_duty(unsigned function, unsigned percent, uint64_t wall_deadline_ns)
{
    unsigned seed = (unsigned)burn_wall_ns();
    for (uint64_t start; (start = burn_wall_ns()) < wall_deadline_ns;) {
        uint64_t phase = PHASE_MIN_NS + (unsigned)rand_r(&seed) % PHASE_SPREAD_NS;
        uint64_t end = start + phase < wall_deadline_ns ? start + phase : wall_deadline_ns;
        burn(function, (end - start) * percent / 100, end);
        burn_sleep_until(end);
    }
}
