/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of spans, metrics and logs are built alike: field 1 per Resource, in it field 2 per
 * scope, in it field 2 per span, metric or log record. So what walks and splits spans does it for
 * all three; only data points lie deeper.
 */
#include "proto/otlp/otlp_items.h"
#include "proto/otlp/otlp_schema.h"
#include "proto/otlp/otlp_spans_walk.h"
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

static int make_room(void *context, uint64_t bytes)
{
    const struct otlp_split *split = ((const struct splitting *)context)->split;
    return split->room ? split->room(split->context, bytes) : 0;
}

int otlp_items_split(enum signal signal, struct bytes request, const struct otlp_split *split)
{
    struct splitting splitting = {signal, split};
    struct otlp_rewrite rewrite = {.emit = emit_body,
                                   .context = &splitting,
                                   .max_body_bytes = split->max_body_bytes,
                                   .room = make_room};
    return otlp_spans_rewrite(request, &rewrite);
}

struct slicing {
    const struct otlp_slice *slice;
    uint64_t next; /* ordinal of the next entry */
    struct buf *out;
};

enum { ENTRY_DEPTH = 2 }; /* Resource, scope, entry */

static int slice_message(struct slicing *slicing, struct bytes message, int depth);

static int slice_entry(struct slicing *slicing, const struct wire_field *field)
{
    uint64_t at = slicing->next++;
    bool in = at >= slicing->slice->from && at - slicing->slice->from < slicing->slice->n;
    return in ? buf_append_bytes(slicing->out, field->raw) : 0;
}

/* Without an entry of the slice it leaves no trace. */
static int slice_level(struct slicing *slicing, const struct wire_field *field, uint32_t number,
                       int depth)
{
    const struct otlp_slice *slice = slicing->slice;
    struct wire_nest nest;
    size_t before = slicing->out->len;
    uint64_t first = slicing->next;
    int outcome = wire_begin(slicing->out, number, field->bytes.len, &nest);
    if (!outcome)
        outcome = slice_message(slicing, field->bytes, depth);
    if (outcome)
        return outcome;
    bool has = slicing->next > first && slicing->next > slice->from &&
               (first < slice->from || first - slice->from < slice->n);
    if (has)
        wire_end(slicing->out, &nest);
    else
        slicing->out->len = before;
    return 0;
}

static int slice_message(struct slicing *slicing, struct bytes message, int depth)
{
    static const uint32_t below[] = {REQUEST_RESOURCE_SPANS, RESOURCE_SPANS_SCOPE_SPANS,
                                     SCOPE_SPANS_SPANS};
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    int got, outcome = 0;
    while (!outcome && (got = wire_next(&reader, &field)) != WIRE_END) {
        if (got == WIRE_MALFORMED)
            outcome = OTLP_MALFORMED;
        else if (!spans_nested(&field, below[depth]))
            outcome = buf_append_bytes(slicing->out, field.raw);
        else if (depth == ENTRY_DEPTH)
            outcome = slice_entry(slicing, &field);
        else
            outcome = slice_level(slicing, &field, below[depth], depth + 1);
    }
    return outcome;
}

int otlp_items_slice(struct bytes request, const struct otlp_slice *slice, struct buf *out,
                     uint64_t *total)
{
    struct slicing slicing = {.slice = slice, .out = out};
    size_t before = out->len;
    int outcome = slice_message(&slicing, request, 0);
    *total = slicing.next;
    if (outcome)
        out->len = before;
    return outcome;
}
