/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three walks over the request. The first visits the spans and gathers what is added to each. The
 * second packs bodies without writing them, so that a span too big for any body, or a lack of room
 * for all bodies, is found before anything is emitted. The third walk writes the bodies, with the
 * same decisions. A request that has to be split is packed without writing ahead of them, too: what
 * is too big without additions is refused before its spans are visited.
 */
#include "proto/otlp/otlp_spans_pack.h"
#include "proto/otlp/otlp_spans_walk.h"

#include <assert.h>
#include <stdatomic.h>

struct visitor {
    const struct otlp_rewrite *rewrite;
    struct edits *edits;
    struct bytes resource;
    uint64_t resource_number;
    uint64_t span;
};

/* The only state here: numbers of one request must not come again in the next one. */
static atomic_uint_fast64_t resources_visited;

#define TAG(number, type) ((number) << 3 | (type))

static int parse_span(struct bytes raw, struct otlp_span *span)
{
    struct wire_reader reader = wire_read(raw);
    struct wire_field field;
    int got;
    while ((got = wire_next(&reader, &field)) == WIRE_FIELD) {
        switch (TAG(field.number, field.type)) {
        case TAG(1, WIRE_BYTES):
            span->trace_id = field.bytes;
            break;
        case TAG(2, WIRE_BYTES):
            span->span_id = field.bytes;
            break;
        case TAG(4, WIRE_BYTES):
            span->parent_span_id = field.bytes;
            break;
        case TAG(5, WIRE_BYTES):
            span->name = field.bytes;
            break;
        case TAG(6, WIRE_VARINT):
            span->kind = (uint32_t)field.value;
            break;
        case TAG(7, WIRE_FIXED64):
            span->start_unix_ns = field.value;
            break;
        case TAG(8, WIRE_FIXED64):
            span->end_unix_ns = field.value;
            break;
        case TAG(16, WIRE_FIXED32):
            span->flags = (uint32_t)field.value;
            break;
        default:
            break;
        }
    }
    return got;
}

static int visit_resource(void *context, struct bytes resource_spans, struct bytes resource)
{
    struct visitor *visitor = context;
    (void)resource_spans;
    visitor->resource = resource;
    visitor->resource_number =
        atomic_fetch_add_explicit(&resources_visited, 1, memory_order_relaxed) + 1;
    return 0;
}

static void assert_attributes(struct bytes added)
{
    struct wire_reader reader = wire_read(added);
    struct wire_field field;
    int got;
    while ((got = wire_next(&reader, &field)) == WIRE_FIELD)
        assert(spans_nested(&field, OTLP_SPAN_ATTRIBUTES));
    assert(got == WIRE_END);
}

static int visit_span(void *context, struct bytes raw)
{
    struct visitor *visitor = context;
    struct buf *added = &visitor->edits->added;
    struct otlp_span span = {
        .raw = raw, .resource = visitor->resource, .resource_number = visitor->resource_number};
    struct edit edit = {.span = visitor->span++, .offset = added->len};
    int outcome = visitor->rewrite->visit ? parse_span(raw, &span) : 0;
    if (outcome || !visitor->rewrite->visit)
        return outcome;
    outcome = visitor->rewrite->visit(visitor->rewrite->context, &span, added);
    assert(outcome || added->len >= edit.offset);
    if (outcome || added->len == edit.offset)
        return outcome;
    edit.len = added->len - edit.offset;
    assert_attributes(BYTES(added->data + edit.offset, edit.len));
    return buf_append(&visitor->edits->list, &edit, sizeof(edit));
}

static int make_room(const struct otlp_rewrite *rewrite, uint64_t bytes)
{
    return rewrite->room ? rewrite->room(rewrite->context, bytes) : 0;
}

/* Without edits, which only make it larger. */
int otlp_spans_fit(struct bytes request, size_t max_body_bytes)
{
    const struct otlp_rewrite dry = {.max_body_bytes = max_body_bytes};
    const struct edits none = {BUF_INIT(0), BUF_INIT(0)};
    uint64_t bytes;
    return request.len <= max_body_bytes ? 0 : spans_pack(&dry, request, &none, &bytes);
}

static int rewrite_with(const struct otlp_rewrite *rewrite, struct bytes request,
                        struct edits *edits)
{
    struct visitor visitor = {.rewrite = rewrite, .edits = edits};
    struct spans_walk walk = {visit_resource, NULL, visit_span, &visitor};
    int outcome = otlp_spans_fit(request, rewrite->max_body_bytes);
    if (!outcome)
        outcome = spans_walk(request, &walk);
    if (outcome)
        return outcome;
    if (edits->list.len == 0 && request.len <= rewrite->max_body_bytes) {
        outcome = make_room(rewrite, request.len);
        return outcome ? outcome : rewrite->emit(rewrite->context, request, visitor.span);
    }
    uint64_t bytes = 0;
    outcome = spans_pack(rewrite, request, edits, &bytes);
    if (!outcome)
        outcome = make_room(rewrite, bytes);
    return outcome ? outcome : spans_pack(rewrite, request, edits, NULL);
}

int otlp_spans_rewrite(struct bytes request, const struct otlp_rewrite *rewrite)
{
    struct edits edits = {BUF_INIT(0), BUF_INIT(0)};
    int outcome = rewrite_with(rewrite, request, &edits);
    buf_close(&edits.added);
    buf_close(&edits.list);
    return outcome;
}
