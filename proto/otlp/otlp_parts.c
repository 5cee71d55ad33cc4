/* SPDX-License-Identifier: Apache-2.0 */
/* The levels of all signals have the same numbers; they are called as those of spans are. */
#include "proto/otlp/otlp_parts.h"
#include "proto/otlp/otlp_spans_walk.h"

#define NESTED_MAX UINT32_MAX /* bytes of a level: what a length can say */

/* Whether another sub-message `number` follows; the reader stands before it then. */
static bool is_left(struct wire_reader *reader, uint32_t number)
{
    struct wire_reader next = *reader;
    struct wire_field field;
    int got;
    while ((got = wire_next(&next, &field)) == WIRE_FIELD && !spans_nested(&field, number))
        *reader = next;
    return got != WIRE_END;
}

/* The next sub-message `number`, which is entered: its other fields are its rest. OTLP_OK: *entered
 * says whether there is one. */
static int parts_enter(struct wire_reader *outer, uint32_t number, uint32_t below,
                       struct wire_reader *inner, struct buf *rest, bool *entered)
{
    struct wire_field field;
    size_t size;
    int got;
    while ((got = wire_next(outer, &field)) == WIRE_FIELD) {
        if (!spans_nested(&field, number))
            continue;
        *inner = wire_read(field.bytes);
        *entered = true;
        buf_clear(rest);
        return spans_copy_rest(field.bytes, below, &size, rest);
    }
    *entered = false;
    return got;
}

static bool part_is_full(const struct otlp_parts *parts, const struct buf *out, size_t part_bytes)
{
    size_t repeated = parts->request_rest.len + parts->resource_rest.len + parts->scope_rest.len;
    return out->len >= part_bytes && out->len / 2 >= repeated;
}

static int part_add_spans(struct otlp_parts *parts, size_t part_bytes, struct buf *out)
{
    struct wire_field field;
    int got;
    do {
        got = wire_next(&parts->scope, &field);
        int error = got == WIRE_FIELD && spans_nested(&field, SCOPE_SPANS_SPANS)
                        ? buf_append_bytes(out, field.raw)
                        : 0;
        if (error)
            return error;
    } while (got == WIRE_FIELD && !part_is_full(parts, out, part_bytes));
    parts->in_scope = is_left(&parts->scope, SCOPE_SPANS_SPANS);
    return got == WIRE_FIELD ? OTLP_OK : got;
}

static int part_add_scopes(struct otlp_parts *parts, size_t part_bytes, struct buf *out)
{
    struct wire_nest nest;
    int outcome = OTLP_OK;
    do {
        if (!parts->in_scope)
            outcome = parts_enter(&parts->resource, RESOURCE_SPANS_SCOPE_SPANS, SCOPE_SPANS_SPANS,
                                  &parts->scope, &parts->scope_rest, &parts->in_scope);
        if (outcome || !parts->in_scope)
            break;
        outcome = wire_begin(out, RESOURCE_SPANS_SCOPE_SPANS, NESTED_MAX, &nest);
        if (!outcome)
            outcome = buf_append_bytes(out, buf_bytes(&parts->scope_rest));
        if (!outcome)
            outcome = part_add_spans(parts, part_bytes, out);
        if (!outcome)
            wire_end(out, &nest);
    } while (!outcome && !part_is_full(parts, out, part_bytes));
    parts->in_resource = parts->in_scope || is_left(&parts->resource, RESOURCE_SPANS_SCOPE_SPANS);
    return outcome;
}

static int part_add_resources(struct otlp_parts *parts, size_t part_bytes, struct buf *out)
{
    struct wire_nest nest;
    int outcome = OTLP_OK;
    do {
        if (!parts->in_resource)
            outcome =
                parts_enter(&parts->request, REQUEST_RESOURCE_SPANS, RESOURCE_SPANS_SCOPE_SPANS,
                            &parts->resource, &parts->resource_rest, &parts->in_resource);
        if (outcome || !parts->in_resource)
            break;
        outcome = wire_begin(out, REQUEST_RESOURCE_SPANS, NESTED_MAX, &nest);
        if (!outcome)
            outcome = buf_append_bytes(out, buf_bytes(&parts->resource_rest));
        if (!outcome)
            outcome = part_add_scopes(parts, part_bytes, out);
        if (!outcome)
            wire_end(out, &nest);
    } while (!outcome && !part_is_full(parts, out, part_bytes));
    return outcome;
}

/* ---- verbs ---- */

int otlp_parts_open(struct otlp_parts *parts, struct bytes request)
{
    size_t size;
    *parts = (struct otlp_parts){.request = wire_read(request)};
    return spans_copy_rest(request, REQUEST_RESOURCE_SPANS, &size, &parts->request_rest);
}

void otlp_parts_close(struct otlp_parts *parts)
{
    buf_close(&parts->request_rest);
    buf_close(&parts->resource_rest);
    buf_close(&parts->scope_rest);
}

int otlp_parts_next(struct otlp_parts *parts, size_t part_bytes, struct buf *out)
{
    buf_clear(out);
    int error = buf_append_bytes(out, buf_bytes(&parts->request_rest));
    return error ? error : part_add_resources(parts, part_bytes, out);
}

bool otlp_parts_left(struct otlp_parts *parts)
{
    return parts->in_resource || is_left(&parts->request, REQUEST_RESOURCE_SPANS);
}
