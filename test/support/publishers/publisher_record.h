/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a thread publishes while it works on a span, in the form of each ABI. Sources of the
 * formats: OTEP 4947; elastic/apm, specs/agents/universal-profiling-integration.md;
 * polarsignals/custom-labels, custom-labels-v1.md; OBI's map traces_ctx_v1.
 */
#include <stdint.h>

enum publisher_abi { PUBLISHER_OTEL, PUBLISHER_ELASTIC_V1, PUBLISHER_LABELS_V1, PUBLISHER_OBI };

struct publisher_span {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t root_id[8];
    char route[24];  /* attribute or label 0 */
    char tenant[24]; /* attribute 1; empty: none */
};

struct publisher_records; /* of one thread and one ABI */

/* Ends the program when memory does; never freed: what a pointer led to stays. */
struct publisher_records *publisher_records_new(enum publisher_abi abi);
/* slot: the thread's pointer, or (OBI) its descriptor of the map. NULL span: it works on none. */
void publisher_show(struct publisher_records *records, void *volatile *slot,
                    const struct publisher_span *span);
