/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Facts about sampled processes, kept as long as samples refer to them. Writer thread only. A
 * process whose facts change (for example because its context is published late) gets a new row;
 * older samples keep the old row. Limits: PROCESSES_CACHE rows in memory; on disk the rows used in
 * this generation or the previous one, or referred to. Texts beyond PROCESSES_TEXT_MAX are cut, a
 * Resource beyond PROCESSES_RESOURCE_MAX is left out; both are counted. Errors: negative errno of
 * db.h.
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
    uint32_t own_pid;  /* in the process's own PID namespace */
    struct bytes executable_name;
    struct bytes executable_path;
    struct bytes container_id;
    struct bytes pod_uid; /* of Kubernetes */
    /* The Resource that the process publishes (OTEL_CTX): bytes of an
     * opentelemetry.proto.resource.v1.Resource; empty if none. */
    struct bytes resource;
    bool sets_trace_flags;
    uint64_t cgroup_id; /* of the unified hierarchy; 0 = not known */
    uint32_t uid; /* that its sockets belong to, in the root user namespace; only with a cgroup */
};

int processes_open(struct db *db, struct processes **processes);
void processes_close(struct processes *processes); /* NULL is fine */
int processes_reload(struct processes *processes); /* after a rolled-back transaction */
/* Interns by content. Ids are never reused. */
int processes_put(struct processes *processes, const struct process_facts *facts, int64_t *id);
/* Borrowed until the next call. -ENOENT. */
int processes_get(struct processes *processes, int64_t id, const struct process_facts **facts);
/* Begins a new generation, and a sweep of older rows that nothing refers to. referred: sealed;
 * ownership passes to processes. Each call of processes_collect() then removes a bounded number of
 * rows. */
int processes_collect_begin(struct processes *processes, struct id_set *referred);
int processes_collect(struct processes *processes);
