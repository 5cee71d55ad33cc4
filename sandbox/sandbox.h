/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a process gives up for ever: paths and ports by Landlock, system calls by seccomp. Each
 * process has one table of the calls that it may make, in one file of its room; what is not in
 * there ends the process, which logs the call's name first.
 *
 * Landlock depends on the kernel (5.13; ports from 6.7): what it has is used, and what it lacks is
 * logged by the caller. A build with a sanitizer has neither, since sanitizers read /proc, start
 * programs and trace. Thread: the only one of its process.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/* ---- system calls ---- */

enum sandbox_rule {
    SANDBOX_ALLOW,
    SANDBOX_ALLOW_IF, /* (argument & mask) == value, in its lower 32 bits; rows of one call are
                         alternatives */
    SANDBOX_REFUSE, /* fails with errno `value`, for calls that libraries try and can do without */
};

struct sandbox_call {
    uint32_t number;
    enum sandbox_rule rule;
    uint32_t argument;
    uint32_t mask, value;
};

struct sandbox_table {
    const struct sandbox_call *calls;
    size_t n;
};

#define SANDBOX_TABLE(calls)                                                                       \
    {                                                                                              \
        (calls), sizeof(calls) / sizeof(*(calls))                                                  \
    }

#define SANDBOX_CALL(name)                                                                         \
    {                                                                                              \
        .number = SYS_##name, .rule = SANDBOX_ALLOW                                                \
    }
#define SANDBOX_CALL_IF(name, n, m, v)                                                             \
    {                                                                                              \
        .number = SYS_##name, .rule = SANDBOX_ALLOW_IF, .argument = (n), .mask = (m), .value = (v) \
    }
#define SANDBOX_CALL_IS(name, n, v) SANDBOX_CALL_IF(name, n, UINT32_MAX, v)
#define SANDBOX_CALL_FAILS(name, error)                                                            \
    {                                                                                              \
        .number = SYS_##name, .rule = SANDBOX_REFUSE, .value = (error)                             \
    }
/* With its own pid as the first argument, for abort(). */
#define SANDBOX_CALL_SELF(name)                                                                    \
    {                                                                                              \
        .number = SYS_##name, .rule = SANDBOX_ALLOW_IF, .mask = 0, .value = 1                      \
    }

/* From here on this process and its threads make no call but these, and their children neither. 0
 * or negative errno. */
int sandbox_calls(const struct sandbox_call *calls, size_t n);
/* As `strace` calls it; NULL: there is no such call. */
const char *sandbox_call_name(uint32_t number);

/* ---- paths and ports ---- */

enum sandbox_access { SANDBOX_READ, SANDBOX_WRITE /* and read */ };

struct sandbox_path {
    const char *path; /* and what is below; ignored if it is missing */
    enum sandbox_access access;
};

struct sandbox_places {
    const struct sandbox_path *paths;
    size_t n_paths;
    const uint16_t *ports; /* of TCP, to connect to; to none may be bound */
    size_t n_ports;
};

enum sandbox_support { SANDBOX_NONE, SANDBOX_PATHS, SANDBOX_PATHS_AND_PORTS };

/* From here on this process can open these paths alone, if its user may. Descriptors that are open
 * already stay. *support: what of that the kernel can do. 0 or negative errno. */
int sandbox_places(const struct sandbox_places *places, enum sandbox_support *support);
