/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A sample in the store: the contents of the kernel's record, with stack and process interned.
 * Plain data; identifiers are rowids of this store. Thread: any.
 */
#include "base/bytes.h"
#include "store/db/blob.h"

enum sample_kind { SAMPLE_CPU = 1, SAMPLE_OFF_CPU = 2, SAMPLE_EVENT = 3 };

#define SAMPLE_COMM           16
#define SAMPLE_NO_CPU         UINT32_MAX /* value of sample.cpu: not known */
#define SAMPLE_ATTRIBUTES_MAX 1024
#define SAMPLE_TASK_KEY       "python.asyncio.task.name"

struct sample {
    uint64_t time_unix_ns;
    uint64_t value_ns;
    uint64_t period_ns;
    int64_t stack;   /* stacks.h */
    int64_t process; /* processes.h; 0 = not known */
    uint32_t cpu;
    uint32_t tid; /* in the process's own PID namespace, like the SDK's thread.id */
    uint8_t kind; /* enum sample_kind */
    uint8_t state;
    uint8_t context_source; /* enum context_source; 0 = no context */
    uint8_t trace_flags;
    bool flags_trusted;   /* the writer of this context is known to set trace_flags */
    bool ended;           /* its span, which came without samples, was over before */
    uint8_t trace_id[16]; /* zero = not known */
    uint8_t span_id[8];   /* zero = not known */
    uint8_t local_root_id[8];
    char comm[SAMPLE_COMM];
    /* Context attributes: OTLP KeyValue messages, each framed as Span field 9: tag 0x4a, length,
     * message; borrowed for the call. */
    struct bytes attributes;
};

/* The encoding of samples in a batch: each sample is a difference to the previous one (all zero for
 * the first). */
void sample_encode(struct blob_writer *out, const struct sample *sample,
                   const struct sample *previous);
/* False: malformed. attributes are borrowed from the blob. */
bool sample_decode(struct blob_reader *in, struct sample *sample, const struct sample *previous);
