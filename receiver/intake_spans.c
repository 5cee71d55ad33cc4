/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request is checked whole before the first span is joined, so that a malformed one changes
 * nothing. What is appended to a span are facts of its samples; the rest goes on byte for byte.
 */
#include "receiver/intake_spans.h"
#include "base/stats.h"
#include "proto/codec.h"
#include "proto/otlp_spans.h"
#include <errno.h>

STAT_COUNTER(spans_received, "spanprof_spans_received_total", "", "Spans in accepted requests.");
STAT_COUNTER(spans_annotated, "spanprof_spans_annotated_total", "",
             "Spans that had samples and were annotated.");
STAT_COUNTER(requests_malformed, "spanprof_requests_refused_total",
             "signal=\"traces\",reason=\"malformed\"",
             "Requests refused for good or for now, by reason.");
STAT_COUNTER(requests_too_big, "spanprof_requests_refused_total",
             "signal=\"traces\",reason=\"too_big\"",
             "Requests refused for good or for now, by reason.");

#define SPAN_ATTRIBUTES 9 /* Span.attributes */

struct visit {
    struct store *store;
    const struct intake_spans_settings *settings;
    uint64_t n_annotated;
};

static int refuse(struct intake_request *request, enum intake_outcome outcome, const char *message)
{
    request->outcome = outcome;
    request->message = message;
    stat_add(outcome == INTAKE_MALFORMED ? &requests_malformed : &requests_too_big, 1);
    return 0;
}

static int annotate(struct buf *added, const struct join_result *result)
{
    char hex[JOIN_TOP_STACKS_MAX][33];
    struct bytes ids[JOIN_TOP_STACKS_MAX];
    for (size_t i = 0; i < result->n_stacks; i++) {
        bytes_to_hex(BYTES(result->stack_ids[i], 16), hex[i]);
        ids[i] = BYTES(hex[i], 32);
    }
    int error =
        otlp_attribute_int(added, SPAN_ATTRIBUTES, "spanprof.cpu.time_ns", (int64_t)result->cpu_ns);
    if (!error)
        error = otlp_attribute_int(added, SPAN_ATTRIBUTES, "spanprof.samples",
                                   (int64_t)result->samples);
    if (!error && result->n_stacks)
        error = otlp_attribute_strings(added, SPAN_ATTRIBUTES, "spanprof.stack_ids", ids,
                                       result->n_stacks);
    return error == BUF_FULL ? -ENOMEM : error;
}

static int visit_span(void *context, const struct otlp_span *span, struct buf *added)
{
    struct visit *visit = context;
    struct join_result result;
    int outcome = join_span(store_join(visit->store), span, &result);
    if (outcome != JOIN_MATCHED)
        return outcome;
    visit->n_annotated++;
    return annotate(added, &result);
}

static int visit_nothing(void *context, const struct otlp_span *span, struct buf *added)
{
    (void)context, (void)span, (void)added;
    return 0;
}

static int emit_body(void *context, struct bytes body, uint64_t n_spans)
{
    struct visit *visit = context;
    return outbox_put(store_outbox(visit->store), SIGNAL_TRACES, n_spans,
                      visit->settings->destinations, body);
}

/* CODEC_OK and the bytes to read: the body itself or what it inflated to. */
static int inflate(struct intake_request *request, struct buf *inflated, struct bytes *out)
{
    struct bytes body = buf_bytes(&request->body);
    *out = body;
    int outcome = CODEC_OK;
    if (request->encoding == ENCODING_GZIP)
        outcome = codec_inflate_gzip(body, request->max_inflated_bytes, inflated);
    else if (request->encoding == ENCODING_ZSTD)
        outcome = codec_inflate_zstd(body, request->max_inflated_bytes, inflated);
    else if (body.len > request->max_inflated_bytes)
        return CODEC_TOO_BIG;
    if (request->encoding != ENCODING_IDENTITY)
        *out = buf_bytes(inflated);
    return outcome;
}

int intake_spans_run(struct intake_request *request, struct store *store,
                     const struct intake_spans_settings *settings)
{
    _cleanup_buf_ struct buf inflated = BUF_INIT(0);
    struct bytes body;
    int outcome = inflate(request, &inflated, &body);
    if (outcome == CODEC_TOO_BIG)
        return refuse(request, INTAKE_TOO_BIG, "the request is larger than this receiver accepts");
    if (outcome == CODEC_MALFORMED)
        return refuse(request, INTAKE_MALFORMED, "the compressed body cannot be decoded");
    if (outcome < 0)
        return outcome;
    outcome = otlp_spans_check(body);
    if (outcome == OTLP_TOO_BIG)
        return refuse(request, INTAKE_TOO_BIG,
                      "the body would decode to far more memory than its size");
    if (outcome != OTLP_OK)
        return refuse(request, INTAKE_MALFORMED, "the body is not an ExportTraceServiceRequest");

    struct visit visit = {.store = store, .settings = settings};
    uint64_t n_spans = otlp_spans_count(body);
    request->outcome = INTAKE_ACCEPTED;
    if (n_spans == 0)
        return 0;
    struct otlp_rewrite rewrite = {.visit = settings->join ? visit_span : visit_nothing,
                                   .emit = emit_body,
                                   .context = &visit,
                                   .max_body_bytes = settings->max_body_bytes};
    outcome = otlp_spans_rewrite(body, &rewrite);
    if (outcome == OTLP_TOO_BIG)
        return refuse(request, INTAKE_TOO_BIG, "one span alone is larger than a request may be");
    if (outcome != OTLP_OK)
        return outcome == OTLP_MALFORMED ? -EPROTO : outcome;
    stat_add(&spans_received, (int64_t)n_spans);
    stat_add(&spans_annotated, (int64_t)visit.n_annotated);
    return 0;
}
