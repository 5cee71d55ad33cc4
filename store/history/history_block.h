/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The format of the history in the database: the tables (schema.c) and their small BLOBs. The large
 * BLOBs are described in history_spans.h, history_samples.h, history_index.h (which traces),
 * history_busiest.h and history_minute.h. The writer encodes, readers decode. Pure; thread: any.
 *
 * history_text(id, hash, generation, body): names, and Resource messages. Id 0 stands for "".
 * history_series(id, hash, generation, body): what samples and spans share, history_series
 *   below. Both stay as long as a block refers to them; for a reader, a missing row counts as "".
 *
 * history_block(seq, written_unix_ns, samples_from_unix_ns, samples_to_unix_ns, spans_from_unix_ns,
 *   spans_to_unix_ns, samples, spans, max_duration_ns, bytes): samples that left the join, and
 * spans that arrived, in one profile window. seq counts blocks without a gap, except for removed
 * blocks. The ranges contain the time of every sample, and start and end of every span (0, 0:
 * none). The parts of a block are rows of history_part(id, body), id = history_part_id(seq, part).
 *
 * history_minute(id, minute_unix_ns, through, written_unix_ns, samples, value_ns, period_ns,
 * bytes): sums by series and stack of the samples of one whole minute. A minute may have several
 * rows, because samples may leave the join late. The minute rows up to this one contain exactly the
 * blocks with seq <= through. Invariant: all samples = all minute rows + blocks with seq >
 * max(through). Parts: history_minute_entries(id, body), history_minute_stacks(id, body).
 *
 * Errors of decoders: -ENOMEM; -EUCLEAN: damaged; items decoded before the damage are valid.
 */
#include "store/db/blob.h"

#define HISTORY_TICK_NS            UINT64_C(100000) /* times of samples are rounded down to it */
#define HISTORY_MINUTE_NS          (60 * UINT64_C(1000000000))
#define HISTORY_BLOCK_SPANS_MAX    65536
#define HISTORY_BLOCK_SAMPLES_MAX  65536
#define HISTORY_MINUTE_ENTRIES_MAX 262144

enum history_part {
    HISTORY_PART_SPANS,
    HISTORY_PART_SAMPLES,
    HISTORY_PART_TRACES,
    HISTORY_PART_BUSIEST,
    HISTORY_PARTS
};

static inline int64_t history_part_id(int64_t seq, enum history_part part)
{
    return seq * HISTORY_PARTS + part;
}

/* ---- series ---- */

struct history_series_facts {
    int64_t resource; /* history_text: Resource message, as exported with such samples */
    int64_t service, span_name, thread, container, executable; /* history_text */
    uint32_t pid;        /* as spanprof sees it; of spans: of those with samples; 0 = not known */
    uint8_t span_kind;   /* enum otlp_span_kind */
    uint8_t sample_kind; /* enum sample_kind; 0: a series of spans */
    uint8_t context_source; /* as in struct sample */
};

void history_series_encode(struct blob_writer *out, const struct history_series_facts *facts);
int history_series_decode(struct bytes body, struct history_series_facts *facts);
