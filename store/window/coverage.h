/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Per process: whether it publishes its current span, and whether its spans arrive here. Helps to
 * find out why a process has no spans. In memory only. Thread: the writer adds samples and spans;
 * coverage_list() any. A lock, not a job of the writer: the list must work even while the writer
 * hangs. Limits: the latest COVERAGE_PROCESSES_MAX processes and COVERAGE_SERVICES_MAX services.
 */
#include "base/bytes.h"
#include "base/peer.h"
#include "context/runtime_frames.h"

#define COVERAGE_PROCESSES_MAX 1024
#define COVERAGE_SERVICES_MAX  256
#define COVERAGE_NAME_MAX      64 /* bytes, with the NUL; longer ones are cut */

struct coverage;

/* As the symbolizer tells it of the process; zero: not yet. */
struct coverage_program {
    uint8_t runtime;    /* enum runtime */
    uint8_t publisher;  /* enum publisher_state */
    uint8_t unreadable; /* enum context_unreadable */
    uint8_t publishes;  /* CONTEXT_BIT()s */
    struct runtime_frames frames;
};

/* Names of code that lies in no file, when they were asked for last: for samples in such code. */
enum coverage_code_map { COVERAGE_CODE_NOT_SEEN, COVERAGE_CODE_NO_MAP, COVERAGE_CODE_MAP };

struct coverage_sample {
    uint32_t pid; /* as spanprof sees it */
    uint32_t own_pid;
    uint64_t start_ns;     /* start of the process; distinguishes a reused pid */
    uint64_t cgroup_id;    /* 0 = not known */
    struct bytes resource; /* published by the process; may be empty */
    bool publishes;        /* the process publishes its current span */
    bool attached;         /* spanprof reads the published span */
    bool has_ids;          /* this sample has a trace or span */
    bool unsampled;        /* the span is known to be unsampled: it is not exported */
    bool unreadable;
    uint8_t source; /* of its ids: enum context_source; CONTEXT_NONE: it has none */
    struct coverage_program program;
};

struct coverage_process {
    uint32_t pid, own_pid;
    uint64_t start_ns, cgroup_id;
    char service[COVERAGE_NAME_MAX]; /* "": not known */
    bool publishes, attached;        /* at the last sample */
    struct coverage_program program; /* too */
    uint8_t source;                  /* of the last ids; CONTEXT_NONE: there were none */
    uint8_t code_map;                /* enum coverage_code_map */
    bool sends_spans;                /* spans with its pid came from its cgroup */
    uint64_t samples, has_ids, unsampled, unreadable;
    uint64_t spans;    /* spans of its service that arrived */
    uint64_t unproven; /* spans with its ids that came without evidence that it made them */
    uint64_t seen_ns;
};

int coverage_open(struct coverage **coverage);  /* 0 or -ENOMEM */
void coverage_close(struct coverage *coverage); /* NULL is fine */

/* What a Resource says of its service. */
struct coverage_service {
    char name[COVERAGE_NAME_MAX]; /* padded with zeros; "": none */
    bool has_pid;
    int64_t pid;
};

/* Those with a coverage accept NULL and then do nothing. now_ns: any clock, the same for all. */
void coverage_sample(struct coverage *coverage, const struct coverage_sample *sample,
                     uint64_t now_ns);
void coverage_service_of(struct bytes resource, struct coverage_service *service);
/* n spans of this service arrived from the sender. */
void coverage_spans(struct coverage *coverage, const struct peer *sender,
                    const struct coverage_service *service, uint64_t n, uint64_t now_ns);
/* Of the process's code that lies in no file. */
void coverage_code(struct coverage *coverage, uint32_t pid, enum coverage_code_map map);
/* A span did not get the samples of this process, for want of evidence that it made the span. */
void coverage_unproven(struct coverage *coverage, uint32_t pid);

/* Copies at most max processes, unordered. Returns their number. */
size_t coverage_list(struct coverage *coverage, struct coverage_process *processes, size_t max);
