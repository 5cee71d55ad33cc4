/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/otlp_spans_walk.h"

_Static_assert((int)WIRE_END == OTLP_OK && (int)WIRE_MALFORMED == OTLP_MALFORMED,
               "the end of a loop over fields is an outcome as it stands");

/* The Resource may come after the spans that it belongs to. It may even come in parts: those are
 * one message when put together, which is how protobuf merges. */
static int find_resource(struct bytes resource_spans, struct buf *merged, struct bytes *resource)
{
    struct wire_reader reader = wire_read(resource_spans);
    struct wire_field field;
    int got;
    *resource = BYTES(NULL, 0);
    buf_clear(merged);
    while ((got = wire_next(&reader, &field)) == WIRE_FIELD) {
        if (!spans_nested(&field, RESOURCE_SPANS_RESOURCE) || field.bytes.len == 0)
            continue;
        if (resource->len == 0) {
            *resource = field.bytes;
            continue;
        }
        int error = merged->len == 0 ? buf_append_bytes(merged, *resource) : 0;
        if (!error)
            error = buf_append_bytes(merged, field.bytes);
        if (error)
            return error;
        *resource = buf_bytes(merged);
    }
    return got;
}

static int walk_scope_spans(struct bytes scope_spans, const struct spans_walk *walk)
{
    int outcome = walk->scope_spans ? walk->scope_spans(walk->context, scope_spans) : 0;
    if (outcome)
        return outcome;
    struct wire_reader reader = wire_read(scope_spans);
    struct wire_field field;
    int got;
    while ((got = wire_next(&reader, &field)) == WIRE_FIELD) {
        if (!walk->span || !spans_nested(&field, SCOPE_SPANS_SPANS))
            continue;
        outcome = walk->span(walk->context, field.bytes);
        if (outcome)
            return outcome;
    }
    return got;
}

static int walk_resource_spans(struct bytes resource_spans, const struct spans_walk *walk,
                               struct buf *merged)
{
    int outcome = 0;
    if (walk->resource_spans) {
        struct bytes resource;
        outcome = find_resource(resource_spans, merged, &resource);
        if (!outcome)
            outcome = walk->resource_spans(walk->context, resource_spans, resource);
    }
    if (outcome)
        return outcome;
    struct wire_reader reader = wire_read(resource_spans);
    struct wire_field field;
    int got;
    while ((got = wire_next(&reader, &field)) == WIRE_FIELD) {
        if (!spans_nested(&field, RESOURCE_SPANS_SCOPE_SPANS))
            continue;
        outcome = walk_scope_spans(field.bytes, walk);
        if (outcome)
            return outcome;
    }
    return got;
}

int spans_walk(struct bytes request, const struct spans_walk *walk)
{
    _cleanup_buf_ struct buf merged = BUF_INIT(0); /* no larger than the request */
    struct wire_reader reader = wire_read(request);
    struct wire_field field;
    int got;
    while ((got = wire_next(&reader, &field)) == WIRE_FIELD) {
        if (!spans_nested(&field, REQUEST_RESOURCE_SPANS))
            continue;
        int outcome = walk_resource_spans(field.bytes, walk, &merged);
        if (outcome)
            return outcome;
    }
    return got;
}

int spans_copy_rest(struct bytes message, uint32_t number, size_t *size, struct buf *out)
{
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    int got;
    *size = 0;
    while ((got = wire_next(&reader, &field)) == WIRE_FIELD) {
        if (spans_nested(&field, number))
            continue;
        *size += field.raw.len;
        int error = out ? buf_append_bytes(out, field.raw) : 0;
        if (error)
            return error;
    }
    return got;
}
