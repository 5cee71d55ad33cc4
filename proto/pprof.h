/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Builder of one pprof profile of CPU time: each sample has a count and nanoseconds. The profile
 * has no duplicates, neither entries nor samples; texts are made valid UTF-8. Thread: any, one at a
 * time. Source of the format: google/pprof, proto/profile.proto. The result is what Go's
 * runtime/pprof serves, except that the caller compresses it.
 *
 * Errors: -ENOMEM; -EMSGSIZE: max_bytes would be passed, the sample was not added; -EINVAL.
 */
#include "base/buf.h"

struct pprof;

#define PPROF_BYTES_MAX  ((size_t)1 << 30) /* of max_bytes */
#define PPROF_FRAMES_MAX 4096
#define PPROF_LABELS_MAX 32

struct pprof_frame {
    struct bytes function; /* empty: none is known, the address alone is given, if there is one */
    struct bytes file;
    int64_t line;          /* 0 = not known */
    struct bytes module;   /* path; empty: no mapping */
    struct bytes build_id; /* raw */
    uint64_t address;      /* in the module */
    bool inlined;          /* into the frame that follows */
};

struct pprof_label {
    const char *key;
    struct bytes text; /* empty: left out */
};

struct pprof_sample {
    const struct pprof_frame *frames; /* leaf first */
    size_t n_frames;
    const struct pprof_label *labels;
    size_t n_labels;
    uint64_t count, cpu_ns;
};

int pprof_open(size_t max_bytes, struct pprof **pprof);
void pprof_close(struct pprof *pprof); /* NULL is fine */
/* Adds a sample; a sample with the same frames and labels is merged. */
int pprof_add(struct pprof *pprof, const struct pprof_sample *sample);

struct pprof_time {
    uint64_t start_unix_ns, duration_ns;
    uint64_t period_ns; /* CPU time between two samples */
};

/* Appends the profile, not compressed; it may also be without samples. 0, BUF_FULL, -ENOMEM. */
int pprof_finish(const struct pprof *pprof, const struct pprof_time *time, struct buf *out);
