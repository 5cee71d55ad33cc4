/* SPDX-License-Identifier: Apache-2.0 */
/* A line a data point, and a line a log record. */
#include "exporter/debug/debug_state.h"
#include <inttypes.h>

#define OF(name) Opentelemetry__Proto__Metrics__V1__##name
typedef OF(ResourceMetrics) ResourceMetrics;
typedef OF(ScopeMetrics) ScopeMetrics;
typedef OF(Metric) Metric;
typedef OF(NumberDataPoint) NumberDataPoint;
typedef OF(HistogramDataPoint) HistogramDataPoint;
typedef OF(ExponentialHistogramDataPoint) ExponentialHistogramDataPoint;
typedef OF(SummaryDataPoint) SummaryDataPoint;
typedef Opentelemetry__Proto__Logs__V1__LogRecord LogRecord;
typedef Opentelemetry__Proto__Logs__V1__ScopeLogs ScopeLogs;
typedef Opentelemetry__Proto__Logs__V1__ResourceLogs ResourceLogs;

/* ---- metrics ---- */

static void point_begin(struct debug_text *text, const Metric *metric, KeyValue *const *attributes,
                        size_t n)
{
    debug_string(text, metric->name);
    debug_key_values(text, attributes, n);
}

static void number_line(struct debug_text *text, const Metric *metric, const NumberDataPoint *point)
{
    point_begin(text, metric, point->attributes, point->n_attributes);
    if (point->value_case == OPENTELEMETRY__PROTO__METRICS__V1__NUMBER_DATA_POINT__VALUE_AS_INT)
        debug_printf(text, " %" PRId64, point->as_int);
    else if (point->value_case ==
             OPENTELEMETRY__PROTO__METRICS__V1__NUMBER_DATA_POINT__VALUE_AS_DOUBLE)
        debug_printf(text, " %.17g", point->as_double);
    debug_line_end(text);
}

static void debug_text_optional(struct debug_text *text, const char *name, bool set, double value)
{
    if (set)
        debug_printf(text, " %s=%.17g", name, value);
}

static void histogram_line(struct debug_text *text, const Metric *metric,
                           const HistogramDataPoint *point)
{
    point_begin(text, metric, point->attributes, point->n_attributes);
    debug_printf(text, " count=%" PRIu64, point->count);
    debug_text_optional(text, "sum", point->optional_sum_case, point->sum);
    debug_text_optional(text, "min", point->optional_min_case, point->min);
    debug_text_optional(text, "max", point->optional_max_case, point->max);
    for (size_t i = 0; i < point->n_bucket_counts && !text->cut; i++) {
        if (i < point->n_explicit_bounds)
            debug_printf(text, " le%g=%" PRIu64, point->explicit_bounds[i],
                         point->bucket_counts[i]);
        else
            debug_printf(text, " inf=%" PRIu64, point->bucket_counts[i]);
    }
    debug_line_end(text);
}

static void exponential_line(struct debug_text *text, const Metric *metric,
                             const ExponentialHistogramDataPoint *point)
{
    point_begin(text, metric, point->attributes, point->n_attributes);
    debug_printf(text, " count=%" PRIu64, point->count);
    debug_text_optional(text, "sum", point->optional_sum_case, point->sum);
    debug_text_optional(text, "min", point->optional_min_case, point->min);
    debug_text_optional(text, "max", point->optional_max_case, point->max);
    debug_printf(text, " scale=%" PRId32 " zero=%" PRIu64, point->scale, point->zero_count);
    debug_line_end(text);
}

static void summary_line(struct debug_text *text, const Metric *metric,
                         const SummaryDataPoint *point)
{
    point_begin(text, metric, point->attributes, point->n_attributes);
    debug_printf(text, " count=%" PRIu64 " sum=%.17g", point->count, point->sum);
    for (size_t i = 0; i < point->n_quantile_values && !text->cut; i++)
        debug_printf(text, " q%g=%.17g", point->quantile_values[i]->quantile,
                     point->quantile_values[i]->value);
    debug_line_end(text);
}

#define LINES(data, line)                                                                          \
    for (size_t i = 0; i < metric->data->n_data_points; i++)                                       \
    line(text, metric, metric->data->data_points[i])

static void metric_lines(struct debug_text *text, const Metric *metric)
{
    switch (metric->data_case) {
    case OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_GAUGE:
        LINES(gauge, number_line);
        break;
    case OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_SUM:
        LINES(sum, number_line);
        break;
    case OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_HISTOGRAM:
        LINES(histogram, histogram_line);
        break;
    case OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_EXPONENTIAL_HISTOGRAM:
        LINES(exponential_histogram, exponential_line);
        break;
    case OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_SUMMARY:
        LINES(summary, summary_line);
        break;
    default:
        break;
    }
}

void debug_normal_metrics(struct debug_text *text, const MetricsRequest *request)
{
    for (size_t r = 0; r < request->n_resource_metrics; r++) {
        const ResourceMetrics *resource = request->resource_metrics[r];
        debug_resource_line(text, "ResourceMetrics", r, resource->resource);
        for (size_t s = 0; s < resource->n_scope_metrics; s++) {
            const ScopeMetrics *scope = resource->scope_metrics[s];
            debug_scope_line(text, "ScopeMetrics", s, scope->scope);
            for (size_t i = 0; i < scope->n_metrics; i++)
                metric_lines(text, scope->metrics[i]);
        }
    }
}

/* ---- logs ---- */

static void record_line(struct debug_text *text, const LogRecord *record)
{
    if (*record->severity_text) {
        debug_string(text, record->severity_text);
        debug_printf(text, " ");
    }
    if (*record->event_name) {
        debug_string(text, record->event_name);
        debug_printf(text, " ");
    }
    debug_value(text, record->body);
    if (record->trace_id.len || record->span_id.len) {
        debug_printf(text, " ");
        debug_hex(text, record->trace_id);
        debug_printf(text, " ");
        debug_hex(text, record->span_id);
    }
    debug_key_values(text, record->attributes, record->n_attributes);
    debug_line_end(text);
}

void debug_normal_logs(struct debug_text *text, const LogsRequest *request)
{
    for (size_t r = 0; r < request->n_resource_logs; r++) {
        const ResourceLogs *resource = request->resource_logs[r];
        debug_resource_line(text, "ResourceLogs", r, resource->resource);
        for (size_t s = 0; s < resource->n_scope_logs; s++) {
            const ScopeLogs *scope = resource->scope_logs[s];
            debug_scope_line(text, "ScopeLogs", s, scope->scope);
            for (size_t i = 0; i < scope->n_log_records; i++)
                record_line(text, scope->log_records[i]);
        }
    }
}
