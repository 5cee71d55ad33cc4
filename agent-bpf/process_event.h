/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Events of processes, in order of time: from the kernel's perf stream (procstream.h) and, for
 * processes older than the stream, from the symbolizer's scan of /proc. Applied to the process
 * table by the writer (process.h). pids are those of spanprof's own PID namespace, as in
 * record_header.pid.
 */
#include "base/bytes.h"

enum process_event_kind {
    PROCESS_FORKED, /* pid, parent_pid */
    PROCESS_EXECED, /* pid: all its mappings are gone */
    PROCESS_EXITED, /* pid: no thread is left; seen at time_ns, some time after it */
    PROCESS_MAPPED, /* pid, mapping */
    PROCESS_LOST,   /* events were lost on a CPU: tables may be stale, a scan is due */
};

#define PROCESS_MAPPINGS_MAX 4096 /* of a process */
#define VDSO_PATH            "[vdso]"

/* An executable mapping as the kernel reports it. */
struct process_mapping {
    uint64_t start;
    uint64_t length;
    uint64_t file_offset;
    uint32_t device_major; /* of the file system, as the kernel has it: not always what stat says */
    uint32_t device_minor;
    uint64_t inode;
    uint64_t inode_generation; /* 0: none, or not known */
    const char *path; /* as in /proc/PID/maps: file, "[vdso]", "//anon"; borrowed for the call */
};

struct process_event {
    enum process_event_kind kind;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint32_t pid;
    uint32_t parent_pid;
    struct process_mapping mapping;
};
