/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A large Export request in parts, so that others need not wait for all of it. Each part is a
 * request by itself: the next spans (profiles, metrics, log records) in their order, behind what
 * lies around them (Resource, scope, dictionary, schema_url, unknown fields), which is repeated.
 * Work and bytes of all parts are linear in the request: what is repeated is at most half of a
 * part. Pure; thread: any, one at a time.
 */
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"

struct otlp_parts { /* private; all bytes are borrowed from the request */
    struct wire_reader request, resource, scope; /* what is left of each */
    bool in_resource, in_scope;
    struct buf request_rest, resource_rest, scope_rest; /* what is repeated */
};

/* The request should have passed otlp_items_check(), and outlives the parts. OTLP_OK,
 * OTLP_MALFORMED, -ENOMEM. */
int otlp_parts_open(struct otlp_parts *parts, struct bytes request);
void otlp_parts_close(struct otlp_parts *parts); /* may be called twice */
/* The next part replaces what is in `out`. It ends with the span that brings it to part_bytes, so
 * it is larger only by that span, or by what is repeated. OTLP_OK, OTLP_MALFORMED, -ENOMEM. */
int otlp_parts_next(struct otlp_parts *parts, size_t part_bytes, struct buf *out);
bool otlp_parts_left(struct otlp_parts *parts); /* there is another part */
