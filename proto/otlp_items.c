/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of spans, metrics and logs are built alike: field 1 per Resource, in it field 2 per
 * scope, in it field 2 per span, metric or log record. So what walks and splits spans does it for
 * all three; only data points lie deeper.
 */
#include "proto/otlp_items.h"
#include "proto/otlp_schema.h"
#include "proto/otlp_spans_walk.h"
#include "proto/pb.h"

/* The members of Metric.data, and what they all begin with. */
enum { METRIC_GAUGE = 5, METRIC_SUM = 7, METRIC_HISTOGRAM = 9, METRIC_EXPONENTIAL = 10 };
enum { METRIC_SUMMARY = 11, DATA_POINTS = 1 };
enum { PROFILE_SAMPLES = 2 };

int otlp_items_check(enum signal signal, struct bytes request)
{
    return pb_check(otlp_schema_request(signal), request);
}

struct count {
    enum signal signal;
    uint64_t n;
};

static bool holds_data_points(const struct wire_field *field)
{
    switch (field->number) {
    case METRIC_GAUGE:
    case METRIC_SUM:
    case METRIC_HISTOGRAM:
    case METRIC_EXPONENTIAL:
    case METRIC_SUMMARY:
        return field->type == WIRE_BYTES;
    default:
        return false;
    }
}

static uint64_t count_fields(struct bytes message, uint32_t number)
{
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    uint64_t n = 0;
    while (wire_next(&reader, &field) == WIRE_FIELD)
        n += spans_nested(&field, number);
    return n;
}

static uint64_t count_data_points(struct bytes metric)
{
    struct wire_reader reader = wire_read(metric);
    struct wire_field field;
    uint64_t n = 0;
    while (wire_next(&reader, &field) == WIRE_FIELD)
        if (holds_data_points(&field))
            n += count_fields(field.bytes, DATA_POINTS);
    return n;
}

static int count_item(void *context, struct bytes item)
{
    struct count *count = context;
    if (count->signal == SIGNAL_METRICS)
        count->n += count_data_points(item);
    else if (count->signal == SIGNAL_PROFILES)
        count->n += count_fields(item, PROFILE_SAMPLES);
    else
        count->n++;
    return 0;
}

uint64_t otlp_items_count(enum signal signal, struct bytes request)
{
    struct count count = {.signal = signal};
    struct spans_walk walk = {.span = count_item, .context = &count};
    spans_walk(request, &walk);
    return count.n;
}

struct splitting {
    enum signal signal;
    const struct otlp_split *split;
};

static int emit_body(void *context, struct bytes body, uint64_t n_entries)
{
    const struct splitting *splitting = context;
    uint64_t n =
        splitting->signal == SIGNAL_LOGS ? n_entries : otlp_items_count(splitting->signal, body);
    return splitting->split->emit(splitting->split->context, body, n);
}

int otlp_items_split(enum signal signal, struct bytes request, const struct otlp_split *split)
{
    struct splitting splitting = {signal, split};
    struct otlp_rewrite rewrite = {
        .emit = emit_body, .context = &splitting, .max_body_bytes = split->max_body_bytes};
    return otlp_spans_rewrite(request, &rewrite);
}
