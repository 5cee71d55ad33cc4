/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which CPUs are online, and news of those that come and go (the kernel's uevents).
 * Thread: whoever holds the struct.
 */
#include <stdbool.h>
#include <stdint.h>

#define CPUS_MAX 4096

struct cpus {
    uint64_t bits[CPUS_MAX / 64];
};

static inline bool cpus_has(const struct cpus *cpus, uint32_t cpu)
{
    return cpu < CPUS_MAX && (cpus->bits[cpu / 64] >> (cpu % 64) & 1);
}

static inline void cpus_add(struct cpus *cpus, uint32_t cpu)
{
    if (cpu < CPUS_MAX)
        cpus->bits[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

/* The kernel's list form: "0-3,7". 0 or -EINVAL. */
int cpus_parse(const char *text, struct cpus *cpus);
int cpus_online(struct cpus *cpus); /* 0 or negative errno */

/* A non-blocking socket that tells of CPUs; fd or negative errno. */
int cpus_watch(void);
/* Adds each CPU that went or came since the last call; CPUS_ALL: news were lost, any may have. */
enum { CPUS_ALL = 1 };
int cpus_changed(int fd, struct cpus *changed);
