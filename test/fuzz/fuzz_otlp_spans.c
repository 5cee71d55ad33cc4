/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of a stranger: checked, visited, attributes added to some spans, split to a limit. What
 * comes out is a request, within its limit, with the same spans; and so are the parts of it. The
 * first two bytes set the limit and which spans are added to.
 */
#include "proto/otlp/otlp_parts.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    bool checked;
    unsigned every;
    size_t max_body_bytes;
    uint64_t visited;
    uint64_t emitted;
    size_t bytes_in;
    size_t bytes_out;
    bool told;
    uint64_t room_bytes; /* that is left of what was told */
};

static void require(bool holds)
{
    if (!holds)
        abort();
}

static int visit(void *context, const struct otlp_span *span, struct buf *added)
{
    struct run *run = context;
    struct bytes pair, text;
    int64_t number;
    otlp_span_is_local_root(span);
    if (otlp_span_attribute(span, "k", &pair) && !otlp_key_value_string(pair, &text))
        otlp_key_value_int(pair, &number);
    if (otlp_resource_attribute(span->resource, "service.name", &pair))
        otlp_key_value_string(pair, &text);
    run->bytes_in += span->raw.len;
    if (run->every == 0 || run->visited++ % run->every)
        return 0;
    size_t before = added->len;
    int error = otlp_attribute_int(added, 9, "cpu", (int64_t)run->visited);
    run->bytes_in += added->len - before;
    return error;
}

static int count_bytes(void *context, const struct otlp_span *span, struct buf *added)
{
    (void)added;
    ((struct run *)context)->bytes_out += span->raw.len;
    return 0;
}

static int ignore(void *context, struct bytes body, uint64_t n_spans)
{
    (void)context;
    (void)body;
    (void)n_spans;
    return 0;
}

static int room(void *context, uint64_t bytes)
{
    struct run *run = context;
    require(!run->told && run->emitted == 0);
    run->told = true;
    run->room_bytes = bytes;
    return 0;
}

static int emit(void *context, struct bytes body, uint64_t n_spans)
{
    struct run *run = context;
    struct otlp_rewrite read_back = {count_bytes, ignore, run, SIZE_MAX, NULL};
    require(body.len <= run->max_body_bytes);
    require(run->told && body.len <= run->room_bytes);
    run->room_bytes -= body.len;
    require(otlp_spans_count(body) == n_spans);
    require(!run->checked || otlp_spans_check(body) != OTLP_MALFORMED);
    require(otlp_spans_rewrite(body, &read_back) == OTLP_OK);
    run->emitted += n_spans;
    return 0;
}

/* What is repeated is at most half of a part, so they are not much larger than the request. */
static void take_parts(struct bytes request, bool checked, size_t part_bytes)
{
    _cleanup_buf_ struct buf part = BUF_INIT(0);
    struct otlp_parts parts;
    uint64_t n_spans = 0, bytes = 0;
    int outcome = otlp_parts_open(&parts, request);
    while (!outcome && otlp_parts_left(&parts)) {
        outcome = otlp_parts_next(&parts, part_bytes, &part);
        require(outcome || !checked || otlp_spans_check(buf_bytes(&part)) != OTLP_MALFORMED);
        n_spans += outcome ? 0 : otlp_spans_count(buf_bytes(&part));
        bytes += part.len;
    }
    otlp_parts_close(&parts);
    require(outcome == OTLP_OK || (outcome == OTLP_MALFORMED && !checked));
    require(outcome || n_spans == otlp_spans_count(request));
    require(bytes <= 8 * request.len + 8 * part_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct bytes request = BYTES(data + 2, size - 2);
    struct run run = {.checked = otlp_spans_check(request) == OTLP_OK,
                      .every = data[1] % 4,
                      .max_body_bytes = 16 + (size_t)data[0] * 8};
    struct otlp_rewrite rewrite = {visit, emit, &run, run.max_body_bytes, room};
    take_parts(request, run.checked, run.max_body_bytes);
    int outcome = otlp_spans_rewrite(request, &rewrite);
    require(outcome == OTLP_OK || outcome == OTLP_MALFORMED || outcome == OTLP_TOO_BIG);
    require(!run.checked || outcome != OTLP_MALFORMED);
    require(outcome == OTLP_OK || run.emitted == 0);
    if (outcome == OTLP_OK) {
        require(run.emitted == otlp_spans_count(request));
        require(run.bytes_in == run.bytes_out);
    }
    return 0;
}
