/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The levels of an ExportTraceServiceRequest, walked on the wire: shared by the parts of
 * otlp_spans. Pure; thread: any.
 */
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"

/* Field numbers of opentelemetry-proto 1.11, trace/v1 and common/v1. */
enum {
    REQUEST_RESOURCE_SPANS = 1,
    RESOURCE_SPANS_RESOURCE = 1,
    RESOURCE_SPANS_SCOPE_SPANS = 2,
    SCOPE_SPANS_SPANS = 2,
    RESOURCE_ATTRIBUTES = 1,
    RESOURCE_DROPPED = 2,
    SPAN_STATUS = 15,
    STATUS_CODE = 3,
    KEY_VALUE_KEY = 1,
    KEY_VALUE_VALUE = 2,
    ANY_VALUE_STRING = 1,
    ANY_VALUE_BOOL = 2,
    ANY_VALUE_INT = 3,
    ANY_VALUE_DOUBLE = 4,
    ANY_VALUE_ARRAY = 5,
    ANY_VALUE_KVLIST = 6,
    ANY_VALUE_BYTES = 7,
    ANY_VALUE_STRINDEX = 8,
    ARRAY_VALUES = 1,
};

/* Each may be NULL, and ends the walk when it does not return 0. */
struct spans_walk {
    int (*resource_spans)(void *context, struct bytes resource_spans, struct bytes resource);
    int (*scope_spans)(void *context, struct bytes scope_spans);
    int (*span)(void *context, struct bytes span);
    void *context;
};

/* OTLP_OK, OTLP_MALFORMED, -ENOMEM (a Resource sent in parts), or what a callback returned. */
int spans_walk(struct bytes request, const struct spans_walk *walk);

/* The field is the sub-message with this number. All others of a message are its rest. */
static inline bool spans_nested(const struct wire_field *field, uint32_t number)
{
    return field->number == number && field->type == WIRE_BYTES;
}

/* The fields of a message other than the sub-messages `number`: their size, and a copy to out
 * unless that is NULL. WIRE_END, WIRE_MALFORMED, BUF_FULL, -ENOMEM. */
int spans_copy_rest(struct bytes message, uint32_t number, size_t *size, struct buf *out);
