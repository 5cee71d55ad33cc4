/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/intake/intake_body.h"
#include "base/stats.h"
#include "proto/codec.h"
#include "proto/otlp/otlp_items.h"
#include "proto/otlp/otlp_json.h"
#include "proto/otlp/otlp_profiles_layout.h"
#include "proto/otlp/otlp_schema.h"
#include "receiver/intake/intake_refused.h"
#include <errno.h>
#include <stdio.h>

static const char *const layout_names[] = {[PROFILES_1_9] = "1.9",
                                           [PROFILES_1_8] = "1.8",
                                           [PROFILES_1_8_COMMENTS] = "1.8_comments",
                                           [PROFILES_1_7] = "1.7",
                                           [PROFILES_UNCLEAR] = "unclear"};
STAT_COUNTERS(former_layout, "spanprof_profiles_former_layout_total",
              "Profiles requests that are not surely in the layout of since OTLP 1.10, by their "
              "layout. Those of 1.8 and 1.9 were converted, the others refused.",
              STAT_LABEL("layout", layout_names, PROFILES_LAYOUTS),
              .losses = STAT_BIT(PROFILES_1_8_COMMENTS) | STAT_BIT(PROFILES_1_7) |
                        STAT_BIT(PROFILES_UNCLEAR),
              .absent = STAT_BIT(PROFILES_TODAY));

int intake_refuse_body(struct intake_request *request, enum intake_outcome outcome,
                       const char *message)
{
    request->outcome = outcome;
    request->message = message;
    intake_refused(request->signal,
                   outcome == INTAKE_MALFORMED ? REFUSED_MALFORMED : REFUSED_TOO_BIG);
    return 1;
}

int intake_refuse_large(struct intake_request *request)
{
    intake_refuse_body(request, INTAKE_TOO_BIG, "the request is larger than the store may become");
    return 0;
}

int intake_refuse_entry(struct intake_request *request)
{
    static const char *const messages[SIGNAL_COUNT] = {
        [SIGNAL_TRACES] = "one span alone is larger than a request may be",
        [SIGNAL_PROFILES] = "one profile alone is larger than a request may be",
        [SIGNAL_METRICS] = "one metric alone is larger than a request may be",
        [SIGNAL_LOGS] = "one log record alone is larger than a request may be",
    };
    intake_refuse_body(request, INTAKE_TOO_BIG, messages[request->signal]);
    return 0;
}

int intake_body_fit(struct intake_request *request, struct bytes body,
                    const struct intake_signal_settings *settings)
{
    int outcome = otlp_spans_fit(body, settings->max_body_bytes);
    if (outcome == OTLP_TOO_BIG)
        intake_refuse_entry(request);
    return outcome == OTLP_MALFORMED ? -EPROTO : !!outcome;
}

size_t intake_room_for(const struct intake_request *request, struct bytes body)
{
    return request->left > body.len ? request->left : body.len;
}

/* CODEC_OK, and *out: the body itself or the inflated body. */
static int intake_request_inflate(const struct intake_request *request, size_t max_bytes,
                                  struct buf *inflated, struct bytes *out)
{
    struct bytes body = buf_bytes(&request->body);
    *out = body;
    int outcome = CODEC_OK;
    if (request->encoding == ENCODING_GZIP)
        outcome = codec_inflate_gzip(body, max_bytes, inflated);
    else if (request->encoding == ENCODING_ZSTD)
        outcome = codec_inflate_zstd(body, max_bytes, inflated);
    else if (request->encoding == ENCODING_DEFLATE)
        outcome = codec_inflate_deflate(body, max_bytes, inflated);
    else if (body.len > max_bytes)
        return CODEC_TOO_BIG;
    if (request->encoding != ENCODING_IDENTITY)
        *out = buf_bytes(inflated);
    return outcome;
}

static const char *what_it_is_not(enum signal signal)
{
    static const char *const messages[SIGNAL_COUNT] = {
        [SIGNAL_TRACES] = "the body is not an ExportTraceServiceRequest",
        [SIGNAL_PROFILES] = "the body is not an ExportProfilesServiceRequest",
        [SIGNAL_METRICS] = "the body is not an ExportMetricsServiceRequest",
        [SIGNAL_LOGS] = "the body is not an ExportLogsServiceRequest",
    };
    return messages[signal];
}

/* 0; 1: refused; -ENOMEM. */
static int intake_request_convert(struct intake_request *request, struct buf *made,
                                  struct bytes *body)
{
    struct buf message = BUF_INIT(request->max_inflated_bytes);
    struct otlp_json_error error;
    int outcome = otlp_json_read(otlp_schema_request(request->signal), *body, &message, &error);
    buf_close(made);
    *made = message;
    *body = buf_bytes(made);
    if (outcome == OTLP_JSON_TOO_BIG)
        return intake_refuse_body(request, INTAKE_TOO_BIG,
                                  "as protobuf the request is larger than this receiver accepts");
    if (outcome != OTLP_JSON_MALFORMED)
        return outcome;
    snprintf(request->problem, sizeof(request->problem), "not OTLP/JSON: %s at byte %zu",
             error.what, error.offset);
    return intake_refuse_body(request, INTAKE_MALFORMED, request->problem);
}

static const char *why_refused(enum profiles_layout layout)
{
    static const char *const messages[PROFILES_LAYOUTS] = {
        [PROFILES_1_8_COMMENTS] =
            "the profiles are of OTLP 1.8 with comments, which later versions have no field for",
        [PROFILES_1_7] =
            "the profiles are of OTLP 1.7 or before; those of 1.8 and later are accepted",
        [PROFILES_UNCLEAR] = "the samples mean one thing in OTLP 1.9 and another since 1.10; the "
                             "header " OTLP_PROFILES_VERSION_KEY ": " OTLP_PROFILES_VERSION
                             " says that it is the latter",
    };
    return messages[layout];
}

static int refuse_layout(struct intake_request *request, enum profiles_layout layout)
{
    stat_add_of(&former_layout, layout, 1);
    return intake_refuse_body(request, INTAKE_MALFORMED, why_refused(layout));
}

/* Gives profiles of a former layout today's numbers: later code, and the backends, know only those.
 * OTLP_OK, OTLP_MALFORMED. */
static int follow_layout(struct intake_request *request, struct buf *made, struct bytes body,
                         enum profiles_layout layout)
{
    struct buf *holder = body.data == request->body.data ? &request->body : made;
    return layout == PROFILES_TODAY ? OTLP_OK
                                    : profiles_layout_renumber(holder->data, body.len, layout);
}

/* 0; 1: refused; -ENOMEM. */
static int check_items(struct intake_request *request, struct buf *made, struct bytes body)
{
    enum profiles_layout layout = PROFILES_TODAY;
    int outcome = OTLP_OK;
    if (request->signal == SIGNAL_PROFILES && !request->json) /* JSON has field names */
        outcome = profiles_layout_of(body, request->says_version, &layout);
    if (outcome == OTLP_OK && why_refused(layout))
        return refuse_layout(request, layout);
    if (outcome == OTLP_OK)
        outcome = follow_layout(request, made, body, layout);
    if (outcome == OTLP_OK)
        outcome = otlp_items_check(request->signal, body);
    if (outcome < 0)
        return outcome;
    if (outcome == OTLP_TOO_BIG)
        return intake_refuse_body(request, INTAKE_TOO_BIG,
                                  "the body would decode to far more memory than its size");
    if (outcome != OTLP_OK)
        return intake_refuse_body(request, INTAKE_MALFORMED, what_it_is_not(request->signal));
    if (layout != PROFILES_TODAY)
        stat_add_of(&former_layout, layout, 1);
    return 0;
}

/* Of what large_reader has read. */
static int body_was_read(struct intake_request *request, struct bytes *body)
{
    bool as_received = request->encoding == ENCODING_IDENTITY && !request->json;
    *body = buf_bytes(request->part.len ? &request->part
                      : as_received     ? &request->body
                                        : &request->made);
    return 0;
}

int intake_body_read(struct intake_request *request, struct buf *made, struct bytes *body)
{
    size_t max_bytes = request->max_inflated_bytes;
    bool may_leave = request->reading == INTAKE_UNREAD && request->max_at_writer &&
                     request->max_at_writer < max_bytes;
    if (request->reading == INTAKE_READ)
        return body_was_read(request, body);
    if (request->reading == INTAKE_LARGE)
        return 1; /* the batch is run again */
    int outcome =
        intake_request_inflate(request, may_leave ? request->max_at_writer : max_bytes, made, body);
    if (outcome == CODEC_TOO_BIG && may_leave) {
        request->reading = INTAKE_LARGE;
        return 1;
    }
    if (outcome == CODEC_TOO_BIG)
        return intake_refuse_body(request, INTAKE_TOO_BIG,
                                  "the request is larger than this receiver accepts");
    if (outcome == CODEC_MALFORMED)
        return intake_refuse_body(request, INTAKE_MALFORMED,
                                  "the compressed body cannot be decoded");
    if (!outcome && request->json)
        outcome = intake_request_convert(request, made, body);
    if (outcome)
        return outcome;
    return check_items(request, made, *body);
}
