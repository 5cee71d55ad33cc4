/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which CPUs are online, and notifications of changes (the kernel's uevents). Thread: the owner's.
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

/* A non-blocking socket for uevents of CPUs; fd or negative errno. */
int cpus_watch(void);
/* Adds each CPU that came or went since the last call; CPUS_ALL: notifications were lost, any CPU
 * may have changed. */
enum { CPUS_ALL = 1 };
int cpus_changed(int fd, struct cpus *changed);
