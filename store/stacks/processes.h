/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is known of a sampled process, kept as long as samples refer to it. Writer thread only.
 * A process whose facts change (its context comes late) gets a new row; samples keep theirs.
 * Limits: PROCESSES_CACHE in memory; on disk those used in this generation or the one before, or
 * referred to. Texts beyond PROCESSES_TEXT_MAX are cut, a larger Resource is left out; counted.
 * Errors: negative errno of db.h.
 */
#include "base/bytes.h"

struct db;
struct processes;
struct id_set;

#define PROCESSES_CACHE        512
#define PROCESSES_TEXT_MAX     4096
#define PROCESSES_RESOURCE_MAX 16384

struct process_facts {
    uint64_t start_ns; /* tells a reused pid apart */
    uint32_t pid;      /* in spanprof's PID namespace */
    uint32_t own_pid;  /* in its own */
    struct bytes executable_name;
    struct bytes executable_path;
    struct bytes container_id;
    struct bytes pod_uid; /* of Kubernetes */
    /* Attributes of the process's own Resource as published (OTEL_CTX), protobuf: the bytes of an
     * opentelemetry.proto.resource.v1.Resource; empty if none. */
    struct bytes resource;
    bool sets_trace_flags;
};

int processes_open(struct db *db, struct processes **processes);
void processes_close(struct processes *processes); /* NULL is fine */
int processes_reload(struct processes *processes); /* after a rolled-back transaction */
/* Interns by content. Ids are never used again. */
int processes_put(struct processes *processes, const struct process_facts *facts, int64_t *id);
/* Borrowed until the next call. -ENOENT. */
int processes_get(struct processes *processes, int64_t id, const struct process_facts **facts);
/* Begins a new generation and a sweep over what is older and not referred to. referred: sealed;
 * taken over. Then processes_collect() removes a bounded number each call. */
int processes_collect_begin(struct processes *processes, struct id_set *referred);
int processes_collect(struct processes *processes);
