/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Process by process: does it tell which span it works for, and do its spans come here? For whoever
 * asks why a process has no spans. In memory alone.
 * Thread: the writer notes; coverage_list() any. A lock guards it and not a job of the writer,
 * since one who asks what is wrong must not wait for a writer that hangs.
 * Limits: COVERAGE_PROCESSES_MAX and COVERAGE_SERVICES_MAX, those noted last.
 */
#include "base/bytes.h"

#define COVERAGE_PROCESSES_MAX 1024
#define COVERAGE_SERVICES_MAX  256
#define COVERAGE_NAME_MAX      64 /* bytes, with the NUL; longer ones are cut */

struct coverage;

struct coverage_sample {
    uint32_t pid; /* as spanprof sees it */
    uint32_t own_pid;
    uint64_t start_ns;     /* of the process: tells a reused pid apart */
    struct bytes resource; /* what the process says of itself; may be empty */
    bool publishes;        /* it has a library that tells of spans */
    bool attached;         /* which is read */
    bool has_ids;          /* this sample has a trace or span */
    bool unsampled;        /* which is known not to be sent */
    bool unreadable;
};

struct coverage_process {
    uint32_t pid, own_pid;
    uint64_t start_ns;
    char service[COVERAGE_NAME_MAX]; /* "": not known */
    bool publishes, attached;        /* at the last sample */
    uint64_t samples, has_ids, unsampled, unreadable;
    uint64_t spans; /* that came of its service */
    uint64_t seen_ns;
};

int coverage_open(struct coverage **coverage);  /* 0 or -ENOMEM */
void coverage_close(struct coverage *coverage); /* NULL is fine */

/* These two: NULL is fine, nothing happens. now_ns: any clock, the same for both. */
void coverage_sample(struct coverage *coverage, const struct coverage_sample *sample,
                     uint64_t now_ns);
/* Spans came with this Resource. */
void coverage_spans(struct coverage *coverage, struct bytes resource, uint64_t n, uint64_t now_ns);

/* Copies at most max processes, in no order; how many. */
size_t coverage_list(struct coverage *coverage, struct coverage_process *processes, size_t max);
