/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What an Elastic APM agent publishes about its process. Pure; any thread. The socket on which it
 * receives samples: elastic_socket.h. Source of the format: elastic/apm,
 * specs/agents/universal-profiling-integration.md.
 */
#include "agent-bpf/contexts/elastic_socket.h"
#include "base/bytes.h"

#define ELASTIC_PROCESS_SYMBOL "elastic_apm_profiling_correlation_process_storage_v1"
#define ELASTIC_THREAD_SYMBOL  "elastic_apm_profiling_correlation_tls_v1"
#define ELASTIC_STORAGE_MAX    4096 /* bytes read of a process storage */
#define ELASTIC_TEXT_MAX       1024 /* bytes of each of its texts; a longer one counts as empty */

struct elastic_storage { /* borrowed; valid UTF-8, else empty */
    uint16_t minor_version;
    struct bytes service_name;
    struct bytes service_environment;
    struct bytes socket_path; /* raw, absolute, without NUL; empty: no usable one */
};

enum { ELASTIC_MALFORMED = 1 };

/* data: the first bytes of the storage, up to ELASTIC_STORAGE_MAX; bytes after its fields are
 * ignored. 0, ELASTIC_MALFORMED. */
int elastic_storage_decode(struct bytes data, struct elastic_storage *storage);
