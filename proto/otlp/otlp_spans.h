/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * ExportTraceServiceRequest, read and rewritten on the wire: ids, times and attributes of spans
 * without decoding the rest; attributes appended to a span without re-encoding it, so that
 * everything else stays byte for byte as received, unknown fields included. Pure; thread: any.
 * Source of the format: opentelemetry-proto 1.11, trace/v1/trace.proto.
 */
#include "base/buf.h"

enum otlp_outcome {
    OTLP_OK = 0,
    OTLP_MALFORMED = 1, /* not the message it should be, or nested deeper than PB_DEPTH_MAX */
    OTLP_TOO_BIG =
        2, /* one span with its envelope alone passes the limit, see otlp_spans_rewrite() */
};

#define OTLP_SPAN_ATTRIBUTES 9 /* number of the field Span.attributes */

enum otlp_span_kind {
    SPAN_UNSPECIFIED,
    SPAN_INTERNAL,
    SPAN_SERVER,
    SPAN_CLIENT,
    SPAN_PRODUCER,
    SPAN_CONSUMER
};

struct otlp_span {         /* all bytes are borrowed from the request */
    struct bytes trace_id; /* 16 bytes, else the span cannot be joined: any length comes through */
    struct bytes span_id;  /* 8 */
    struct bytes parent_span_id; /* 8 or empty */
    struct bytes name;
    uint32_t kind;
    uint32_t flags;
    uint64_t start_unix_ns;
    uint64_t end_unix_ns;
    struct bytes raw; /* the Span message */
    struct bytes
        resource; /* the Resource message of its ResourceSpans; may be empty; valid while visited */
    /* Of the ResourceSpans, unique in this process: spans with the same number have the same
     * Resource, which need not be compared. 0: not known. */
    uint64_t resource_number;
};

/* No parent, or the parent is known to be remote, or (if that is not known) kind server or
 * consumer. */
bool otlp_span_is_local_root(const struct otlp_span *span);
/* Whether the span's status code is error. */
bool otlp_span_is_error(const struct otlp_span *span);
/* The KeyValue message with this key among the span's attributes; false if there is none. */
bool otlp_span_attribute(const struct otlp_span *span, const char *key, struct bytes *key_value);
/* The same for a Resource message. */
bool otlp_resource_attribute(struct bytes resource, const char *key, struct bytes *key_value);
bool otlp_resource_has(struct bytes resource, struct bytes key);
/* Appends the Resource in at most `max` bytes. Of a larger one the attributes that identify it come
 * first, then the others as far as they fit; dropped_attributes_count counts the rest. 0 or
 * -ENOMEM. */
int otlp_resource_keep(struct bytes resource, size_t max, struct buf *out);
/* The parts of a KeyValue message. string/int: false if the value is of another type. */
struct bytes otlp_key_value_key(struct bytes key_value); /* empty if it has none */
bool otlp_key_value_string(struct bytes key_value, struct bytes *text);
bool otlp_key_value_int(struct bytes key_value, int64_t *number);

/* The whole request is well-formed to its last nested field, by the generated descriptors. */
int otlp_spans_check(struct bytes request); /* OTLP_OK, OTLP_MALFORMED, OTLP_TOO_BIG */

/*
 * Calls visit (unless that is NULL) for each span in order; it may append attributes (each framed
 * as Span field 9: use otlp_attribute_*) to `added`, which holds those of earlier spans already:
 * append, and cut back no further than its length at the call. Then emits the request in one or
 * more bodies of at most max_body_bytes, each with its count of spans. A request with nothing added
 * and within the limit is emitted as it came (an empty one too); else each body repeats what lies
 * around its spans (Resource, scope, schema_url, unknown fields), ahead of them. Before the first
 * emit, room is called with an upper bound of all bodies' bytes: all bodies are emitted, or none.
 *
 * Memory: the additions, and one body. The request should have passed otlp_spans_check(): a fault
 * met here comes to light only after the spans before it were visited.
 *
 * OTLP_OK; OTLP_MALFORMED; OTLP_TOO_BIG (both: nothing was emitted), also when a split would repeat
 * an envelope of more than half a body, which would let a request swell without bound; -ENOMEM; or
 * what visit, room or emit returned if not 0.
 */
struct otlp_rewrite {
    int (*visit)(void *context, const struct otlp_span *span, struct buf *added);
    int (*emit)(void *context, struct bytes body, uint64_t n_spans);
    void *context;
    size_t max_body_bytes;
    int (*room)(void *context, uint64_t bytes); /* may be NULL */
};
int otlp_spans_rewrite(struct bytes request, const struct otlp_rewrite *rewrite);
/* Whether it is OTLP_TOO_BIG without additions. OTLP_OK, OTLP_TOO_BIG, OTLP_MALFORMED. */
int otlp_spans_fit(struct bytes request, size_t max_body_bytes);
uint64_t otlp_spans_count(struct bytes request); /* of a checked request */

/* One attribute as field `field` (9 in Span, 1 in Resource) of the message being built: tag,
 * length, KeyValue. Text must be UTF-8 (bytes_sanitize() makes it so). 0, BUF_FULL, -ENOMEM; on
 * failure nothing was appended. */
int otlp_attribute_string(struct buf *out, uint32_t field, const char *key, struct bytes value);
int otlp_attribute_int(struct buf *out, uint32_t field, const char *key, int64_t value);
int otlp_attribute_strings(struct buf *out, uint32_t field, const char *key,
                           const struct bytes *values, size_t n);
