/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes are upper bounds: nested lengths count with their largest size, and are shortened when
 * written. A dry run makes the same decisions without writing.
 */
#include "proto/otlp/otlp_spans_pack.h"
#include "proto/otlp/otlp_spans_walk.h"

#include <assert.h>

struct level { /* ResourceSpans or ScopeSpans that the walk is in */
    struct bytes message;
    size_t rest_bytes; /* its fields other than the level below */
    bool entered;
    bool placed; /* in some body, perhaps an earlier one */
    bool open;   /* in this body */
    struct wire_nest nest;
};

struct packer {
    const struct otlp_rewrite *rewrite;
    const struct edits *edits;
    bool dry; /* decides only */
    struct bytes request;
    size_t request_rest_bytes;
    size_t header_bytes; /* at most, of a level */
    struct level resource;
    struct level scope;
    uint64_t span; /* ordinal of the next */
    size_t edit;   /* index of the next */
    struct buf body;
    size_t body_bound; /* body.len at most, when all levels are closed */
    uint64_t body_spans;
    uint64_t bytes; /* of all bodies so far, at most */
};

static struct bytes next_edit(struct packer *packer)
{
    const struct buf *list = &packer->edits->list;
    struct edit edit;
    uint64_t span = packer->span++;
    if (packer->edit == list->len / sizeof(edit))
        return BYTES(NULL, 0);
    memcpy(&edit, list->data + packer->edit * sizeof(edit), sizeof(edit));
    if (edit.span != span)
        return BYTES(NULL, 0);
    packer->edit++;
    return BYTES(packer->edits->added.data + edit.offset, edit.len);
}

static size_t level_bytes(const struct packer *packer, const struct level *level)
{
    return packer->header_bytes + level->rest_bytes;
}

static int open_level(struct packer *packer, struct level *level, uint32_t number, uint32_t below)
{
    if (level->open)
        return 0;
    level->open = level->placed = true;
    packer->body_bound += level_bytes(packer, level);
    if (packer->dry)
        return 0;
    size_t size;
    int error = wire_begin(&packer->body, number, packer->rewrite->max_body_bytes, &level->nest);
    return error ? error : spans_copy_rest(level->message, below, &size, &packer->body);
}

static void close_level(struct packer *packer, struct level *level)
{
    if (level->open && !packer->dry)
        wire_end(&packer->body, &level->nest);
    level->open = false;
}

static int begin_body(struct packer *packer)
{
    size_t size;
    packer->body_bound = packer->request_rest_bytes;
    packer->body_spans = 0;
    buf_clear(&packer->body);
    if (packer->dry)
        return 0;
    return spans_copy_rest(packer->request, REQUEST_RESOURCE_SPANS, &size, &packer->body);
}

static int end_body(struct packer *packer)
{
    close_level(packer, &packer->scope);
    close_level(packer, &packer->resource);
    packer->bytes += packer->body_bound;
    if (packer->dry)
        return 0;
    assert(packer->body.len <= packer->body_bound);
    assert(packer->body_bound <= packer->rewrite->max_body_bytes);
    return packer->rewrite->emit(packer->rewrite->context, buf_bytes(&packer->body),
                                 packer->body_spans);
}

/* With what must be opened for it. */
static bool packer_fits(const struct packer *packer, bool in_scope, size_t size)
{
    size_t need = packer->body_bound + size;
    if (!packer->resource.open)
        need += level_bytes(packer, &packer->resource);
    if (in_scope && !packer->scope.open)
        need += level_bytes(packer, &packer->scope);
    return need <= packer->rewrite->max_body_bytes;
}

static int next_body(struct packer *packer)
{
    size_t repeated = packer->request_rest_bytes;
    if (packer->resource.placed)
        repeated += level_bytes(packer, &packer->resource);
    if (packer->scope.placed)
        repeated += level_bytes(packer, &packer->scope);
    if (repeated > packer->rewrite->max_body_bytes / 2)
        return OTLP_TOO_BIG;
    int outcome = end_body(packer);
    return outcome ? outcome : begin_body(packer);
}

/* Makes room for `size` bytes inside the current levels, in a new body if this one is too full. */
static int packer_place(struct packer *packer, bool in_scope, size_t size)
{
    int outcome = 0;
    if (!packer_fits(packer, in_scope, size) && packer->body_bound > packer->request_rest_bytes)
        outcome = next_body(packer);
    if (!outcome && !packer_fits(packer, in_scope, size))
        outcome = OTLP_TOO_BIG;
    if (!outcome)
        outcome = open_level(packer, &packer->resource, REQUEST_RESOURCE_SPANS,
                             RESOURCE_SPANS_SCOPE_SPANS);
    if (!outcome && in_scope)
        outcome = open_level(packer, &packer->scope, RESOURCE_SPANS_SCOPE_SPANS, SCOPE_SPANS_SPANS);
    if (!outcome)
        packer->body_bound += size;
    return outcome;
}

static int leave_scope(struct packer *packer)
{
    int outcome = 0;
    if (packer->scope.entered && !packer->scope.placed) /* it has no spans: kept all the same */
        outcome = packer_place(packer, true, 0);
    close_level(packer, &packer->scope);
    packer->scope.entered = packer->scope.placed = false;
    return outcome;
}

static int leave_resource(struct packer *packer)
{
    int outcome = leave_scope(packer);
    if (!outcome && packer->resource.entered && !packer->resource.placed)
        outcome = packer_place(packer, false, 0);
    close_level(packer, &packer->resource);
    packer->resource.entered = packer->resource.placed = false;
    return outcome;
}

static int enter_resource(void *context, struct bytes resource_spans, struct bytes resource)
{
    struct packer *packer = context;
    (void)resource;
    int outcome = leave_resource(packer);
    if (outcome)
        return outcome;
    packer->resource = (struct level){.message = resource_spans, .entered = true};
    return spans_copy_rest(resource_spans, RESOURCE_SPANS_SCOPE_SPANS, &packer->resource.rest_bytes,
                           NULL);
}

static int enter_scope(void *context, struct bytes scope_spans)
{
    struct packer *packer = context;
    int outcome = leave_scope(packer);
    if (outcome)
        return outcome;
    packer->scope = (struct level){.message = scope_spans, .entered = true};
    return spans_copy_rest(scope_spans, SCOPE_SPANS_SPANS, &packer->scope.rest_bytes, NULL);
}

static int pack_span(void *context, struct bytes span)
{
    struct packer *packer = context;
    struct bytes added = next_edit(packer);
    size_t len = span.len + added.len;
    int outcome = packer_place(packer, true, wire_bytes_size(SCOPE_SPANS_SPANS, len));
    if (outcome)
        return outcome;
    packer->body_spans++;
    if (packer->dry)
        return 0;
    outcome = wire_put_header(&packer->body, SCOPE_SPANS_SPANS, len);
    if (!outcome)
        outcome = buf_append_bytes(&packer->body, span);
    return outcome ? outcome : buf_append_bytes(&packer->body, added);
}

int spans_pack(const struct otlp_rewrite *rewrite, struct bytes request, const struct edits *edits,
               uint64_t *bytes)
{
    struct packer packer = {.rewrite = rewrite,
                            .edits = edits,
                            .dry = bytes != NULL,
                            .request = request,
                            .header_bytes = 1 + wire_varint_size(rewrite->max_body_bytes)};
    struct spans_walk walk = {enter_resource, enter_scope, pack_span, &packer};
    int outcome =
        spans_copy_rest(request, REQUEST_RESOURCE_SPANS, &packer.request_rest_bytes, NULL);
    if (!outcome && packer.request_rest_bytes > rewrite->max_body_bytes)
        outcome = OTLP_TOO_BIG;
    if (!outcome)
        outcome = begin_body(&packer);
    if (!outcome)
        outcome = spans_walk(request, &walk);
    if (!outcome)
        outcome = leave_resource(&packer);
    if (!outcome)
        outcome = end_body(&packer);
    if (bytes)
        *bytes = packer.bytes;
    buf_close(&packer.body);
    return outcome;
}
