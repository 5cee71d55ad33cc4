/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole request is checked before the first span is joined, so a malformed request changes
 * nothing. The size of all bodies, with the attributes that the join adds, is known before the
 * first body is put, so a request without room changes nothing either; of a large one that comes in
 * parts that is true of each part. Only attributes about its samples are appended to a span; all
 * else passes through byte for byte.
 */
#include "receiver/intake/intake_spans.h"
#include "base/clock.h"
#include "base/stats.h"
#include "proto/otlp/otlp_spans.h"
#include "receiver/intake/intake_body.h"
#include "store/join/matched_span.h"
#include "store/window/coverage.h"
#include <errno.h>

STAT_COUNTER(spans_received, "spanprof_spans_received_total", "Spans in accepted requests.");
STAT_COUNTER(spans_annotated, "spanprof_spans_annotated_total",
             "Spans that had samples and were annotated.");

#define COVERED_MAX 256 /* ResourceSpans of a request whose spans are counted by service */

struct visit {
    struct store *store;
    const struct intake_signal_settings *settings;
    const struct peer *sender;
    uint64_t n_annotated;
    uint64_t resource_number; /* of the current spans; 0: there were none yet */
    struct coverage_service service;
    uint64_t n_of_service;
    size_t n_covered;      /* ResourceSpans so far */
    uint64_t large_number; /* of a Resource that is too large for the store */
    struct buf kept;       /* and what is kept of it */
};

static int spans_annotate(struct buf *added, const struct join_result *result)
{
    char hex[JOIN_TOP_STACKS_MAX][33];
    struct bytes ids[JOIN_TOP_STACKS_MAX];
    for (size_t i = 0; i < result->n_stacks; i++) {
        bytes_to_hex(BYTES(result->stack_ids[i], 16), hex[i]);
        ids[i] = BYTES(hex[i], 32);
    }
    int error = otlp_attribute_int(added, OTLP_SPAN_ATTRIBUTES, "spanprof.cpu.time_ns",
                                   (int64_t)result->cpu_ns);
    if (!error)
        error = otlp_attribute_int(added, OTLP_SPAN_ATTRIBUTES, "spanprof.samples",
                                   (int64_t)result->samples);
    if (!error && result->n_stacks)
        error = otlp_attribute_strings(added, OTLP_SPAN_ATTRIBUTES, "spanprof.stack_ids", ids,
                                       result->n_stacks);
    return error == BUF_FULL ? -ENOMEM : error;
}

static int spans_join(const struct visit *visit, const struct otlp_span *span,
                      struct join_result *result)
{
    int error = pending_profiles_span(store_pending_profiles(visit->store), span);
    return error ? error : join_span(store_join(visit->store), span, visit->sender, result);
}

static void visit_cover(const struct visit *visit)
{
    if (visit->n_of_service)
        coverage_spans(visit->settings->coverage, visit->sender, &visit->service,
                       visit->n_of_service, clock_monotonic_ns());
}

/* Spans of one Resource are adjacent. The Resource is borrowed only while they are visited. */
static void visit_count(struct visit *visit, const struct otlp_span *span)
{
    if (!visit->settings->coverage || visit->n_covered > COVERED_MAX)
        return;
    if (span->resource_number != visit->resource_number) {
        visit_cover(visit);
        visit->n_of_service = 0;
        visit->resource_number = span->resource_number;
        if (++visit->n_covered > COVERED_MAX)
            return;
        coverage_service_of(span->resource, &visit->service);
    }
    visit->n_of_service++;
}

/* What the store keeps of a large Resource, made once for the spans that have it. */
static int visit_cut(struct visit *visit, struct otlp_span *span)
{
    int error = 0;
    if (span->resource_number != visit->large_number) {
        buf_clear(&visit->kept);
        visit->large_number = span->resource_number;
        error = otlp_resource_keep(span->resource, MATCHED_SPAN_RESOURCE_MAX, &visit->kept);
    }
    span->resource = buf_bytes(&visit->kept);
    return error;
}

static int visit_kept(struct visit *visit, const struct otlp_span *span, struct buf *added)
{
    struct join_result result = {.n_stacks = 0};
    int outcome = visit->settings->join ? spans_join(visit, span, &result) : JOIN_NO_SAMPLES;
    if (outcome < 0)
        return outcome;
    if (result.unproven_pid)
        coverage_unproven(visit->settings->coverage, result.unproven_pid);
    uint64_t tenant = visit->sender->is_forwarder ? 0 : visit->sender->cgroup_id;
    int error = history_span(store_history(visit->store), tenant, span, &result);
    if (error || outcome != JOIN_MATCHED)
        return error;
    visit->n_annotated++;
    return spans_annotate(added, &result);
}

static int visit_span(void *context, const struct otlp_span *span, struct buf *added)
{
    struct visit *visit = context;
    visit_count(visit, span);
    if (span->resource.len <= MATCHED_SPAN_RESOURCE_MAX)
        return visit_kept(visit, span, added);
    struct otlp_span kept = *span;
    int error = visit_cut(visit, &kept);
    return error ? error : visit_kept(visit, &kept, added);
}

static int emit_body(void *context, struct bytes body, uint64_t n_spans)
{
    struct visit *visit = context;
    return outbox_put(store_outbox(visit->store), SIGNAL_TRACES, n_spans,
                      visit->settings->destinations, body);
}

static int make_room(void *context, uint64_t bytes)
{
    const struct visit *visit = context;
    return outbox_reserve(store_outbox(visit->store), SIGNAL_TRACES, visit->settings->destinations,
                          bytes);
}

static int visit_rewrite(struct visit *visit, struct bytes body, size_t room)
{
    const struct intake_signal_settings *settings = visit->settings;
    bool looks = settings->join || history_is_enabled(store_history(visit->store));
    struct otlp_rewrite rewrite = {.visit = looks ? visit_span : NULL,
                                   .emit = emit_body,
                                   .room = make_room,
                                   .context = visit,
                                   .max_body_bytes = settings->max_body_bytes};
    int outcome = make_room(visit, room);
    if (!outcome)
        outcome = otlp_spans_rewrite(body, &rewrite);
    outbox_release(store_outbox(visit->store));
    return outcome;
}

int intake_spans_run(struct intake_request *request, struct store *store,
                     const struct intake_signal_settings *settings)
{
    _cleanup_buf_ struct buf inflated = BUF_INIT(0);
    struct bytes body;
    int outcome = intake_body_read(request, &inflated, &body);
    if (outcome)
        return outcome < 0 ? outcome : 0;

    struct visit visit = {
        .store = store, .settings = settings, .sender = &request->peer, .kept = BUF_INIT(0)};
    uint64_t n_spans = otlp_spans_count(body);
    request->outcome = INTAKE_ACCEPTED;
    if (n_spans == 0)
        return 0;
    outcome = visit_rewrite(&visit, body, intake_room_for(request, body));
    buf_close(&visit.kept);
    if (outcome == OTLP_TOO_BIG)
        return intake_refuse_entry(request);
    if (outcome == -EFBIG)
        return intake_refuse_large(request);
    if (outcome != OTLP_OK)
        return outcome == OTLP_MALFORMED ? -EPROTO : outcome;
    visit_cover(&visit);
    stat_add(&spans_received, (int64_t)n_spans);
    stat_add(&spans_annotated, (int64_t)visit.n_annotated);
    return 0;
}
