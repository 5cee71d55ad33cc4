/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The latest spans that came without samples: who made each, and when it was over. A thread that
 * still names such a span afterwards does not work for it. Of each span there are only hashes, in
 * memory: after a restart nothing is known of spans from before.
 *
 * Limits: ENDED_SPANS_BYTES. A hash of the cgroup chooses one of 15 parts, in which newer spans
 * overwrite older ones. Spans whose maker is known by their Resource alone, which anybody may send,
 * have the remaining part. Thread: the writer.
 */
#include "base/peer.h"
#include "proto/otlp/otlp_spans.h"
#include "store/join/owner.h"
#include "store/join/sample.h"

#define ENDED_SPANS_PARTS 16
#define ENDED_SPANS_SETS  256 /* of a part */
#define ENDED_SPANS_WAYS  4
#define ENDED_SPANS_BYTES                                                                          \
    (ENDED_SPANS_PARTS * ENDED_SPANS_SETS * ENDED_SPANS_WAYS * sizeof(struct ended_span))

struct ended_span {
    uint64_t hash; /* of the span and of who made it; 0: none */
    uint64_t over_unix_ns;
};

struct ended_spans {
    struct ended_span *table; /* [part][set][way] */
    uint32_t turn;            /* of the ways */
    bool has_claims;          /* there is something in the part of Resources */
    uint8_t hash_key[16];
    uint64_t latest_resource; /* otlp_span.resource_number that latest_mark is of; 0: none */
    struct owner_mark latest_mark;
};

int ended_spans_open(struct ended_spans *spans); /* negative errno */
void ended_spans_close(struct ended_spans *spans);
/* span: with both ids. */
void ended_spans_add(struct ended_spans *spans, const struct otlp_span *span,
                     const struct peer *sender);
/* Whether the span that the sample names was over by then, and made by the sample's process.
 * */
bool ended_spans_has(const struct ended_spans *spans, const struct sample *sample,
                     const struct process_facts *process);
