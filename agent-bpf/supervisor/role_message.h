/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a process is given, as it lies in its memfd: struct role_message, n_streams struct
 * role_stream, and the bytes of its settings. Both ends are one executable, so these are plain
 * structs. Private to role.c and supervisor_start.c.
 */
#include "agent-bpf/supervisor/role.h"
#include "base/log.h"

#define ROLE_ARGUMENT  "--role="
#define ROLE_BYTES_MAX (8u << 20)

struct role_stream { /* a CPU's perf event */
    uint32_t cpu;
    int fd;
    uint64_t buffer_size;
};

struct role_message {
    enum role role;
    pid_t supervisor;
    enum log_level log_level;
    enum log_format log_format;
    int stats_fd;
    struct service_handles service;
    struct symbolizer_handles symbolizer;
    struct broker_handles broker;
    struct reader_handles reader;
    struct config_handles config;
    uint32_t n_streams;
    uint32_t settings_bytes;
};

extern const char *const role_names[ROLES]; /* "service" */
