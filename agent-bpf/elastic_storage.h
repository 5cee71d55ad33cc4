/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What an Elastic APM agent publishes about its process, and the socket on which it wants to hear
 * of samples. Source of the format: elastic/apm, specs/agents/universal-profiling-integration.md.
 * Analyst only, but elastic_storage_decode() is pure.
 */
#include "base/bytes.h"

#define ELASTIC_PROCESS_SYMBOL "elastic_apm_profiling_correlation_process_storage_v1"
#define ELASTIC_THREAD_SYMBOL  "elastic_apm_profiling_correlation_tls_v1"
#define ELASTIC_STORAGE_MAX    4096 /* bytes read of a process storage */

struct elastic_storage { /* borrowed; valid UTF-8, else empty */
    uint16_t minor_version;
    struct bytes service_name;        /* at most 1024 bytes */
    struct bytes service_environment; /* likewise */
    struct bytes socket_path;         /* raw, absolute, 1..1024 bytes; empty: none that is usable */
};

enum { ELASTIC_MALFORMED = 1 };

int elastic_storage_decode(struct bytes data, struct elastic_storage *storage);

enum elastic_socket_outcome {
    ELASTIC_SOCKET_REFUSED = 1, /* not a socket, outside of the process's root, or the process
                                   itself could not write to it */
};
/*
 * A datagram socket connected to `path` as process `pid` sees it (its root, its rights: the kernel
 * is asked in the name of the process's own user and groups). Non-blocking, close-on-exec. Never
 * follows a link out of that root. 0, ELASTIC_SOCKET_REFUSED, negative errno.
 */
int elastic_socket_connect(uint32_t pid, struct bytes path, int *fd);
