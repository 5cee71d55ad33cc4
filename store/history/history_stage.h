/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Spans and samples since the last block, in memory, and the texts that they share. Thread: the
 * writer. Limits: HISTORY_BLOCK_SPANS_MAX, HISTORY_BLOCK_SAMPLES_MAX, STAGE_BYTES_MAX of texts.
 */
#include "base/arena.h"
#include "store/history/history_contents.h"
#include "store/history/history_samples.h"
#include "store/join/join.h"

#define STAGE_BYTES_MAX ((size_t)12 << 20)

struct stage_texts { /* distinct texts, numbered from 1; 0 is "" */
    struct history_contents known;
    struct bytes *texts;
    size_t n, cap;
};

struct staged_span {
    struct history_block_span row;       /* without attributes_*; series: 0 = not looked for, or no
                                            room */
    uint32_t resource, name, attributes; /* numbers of texts */
    uint32_t pid;                        /* of the process that made it; 0 = not known */
    uint8_t kind;                        /* enum otlp_span_kind */
    uint64_t tenant;                     /* the cgroup that sent it; 0 = not known */
    bool counts;                         /* its samples are added when they leave the join */
};

struct history_stage {
    struct arena arena;
    struct stage_texts resources, names, attributes;
    struct history_contents span_numbers; /* by trace and span id */
    struct staged_span *spans;            /* by number, in order of arrival */
    size_t n_spans, cap_spans;
    struct history_sample *samples; /* context.span: number of a staged span */
    size_t n_samples, cap_samples;
    uint64_t latest_resource; /* otlp_span.resource_number of the latest span; 0: not known */
    uint32_t latest_resource_text;
};

void stage_open(struct history_stage *stage);
void stage_close(struct history_stage *stage);
void stage_clear(struct history_stage *stage);

enum { STAGE_FULL = 1 };

struct stage_new_span {
    const uint8_t *trace_id, *span_id, *parent_id; /* parent: NULL = none */
    struct bytes resource, name, attributes;
    uint64_t resource_number; /* as otlp_span's */
    uint64_t start_unix_ns, end_unix_ns, cpu_ns, samples;
    uint32_t kind, pid;
    uint64_t tenant;
    bool error, local_root, counts;
};
/* 0 and its number; replaces a span with the same ids, unless that one has more samples.
 * STAGE_FULL; -ENOMEM. */
int stage_span(struct history_stage *stage, const struct stage_new_span *span, uint32_t *number);
/* HISTORY_NO_SPAN: not staged. */
uint32_t stage_find_span(const struct history_stage *stage, const uint8_t trace_id[16],
                         const uint8_t span_id[8]);
/* attributes: two parts, concatenated. STAGE_FULL; -ENOMEM. */
int stage_sample(struct history_stage *stage, const struct history_sample *sample,
                 const struct bytes attributes[2]);
