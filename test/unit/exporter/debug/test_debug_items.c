/* SPDX-License-Identifier: Apache-2.0 */
/* What the debug exporter writes of metrics and logs. */
#include "exporter/debug/debug_exporter.h"
#include "logs_service.pb-c.h"
#include "metrics_service.pb-c.h"
#include "test/support/fixtures/pb_pack.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define OF(name) Opentelemetry__Proto__Metrics__V1__##name

typedef Opentelemetry__Proto__Common__V1__AnyValue AnyValue;
typedef Opentelemetry__Proto__Common__V1__KeyValue KeyValue;
typedef Opentelemetry__Proto__Logs__V1__LogRecord LogRecord;

static AnyValue shop = {
    .base = PROTOBUF_C_MESSAGE_INIT(&opentelemetry__proto__common__v1__any_value__descriptor),
    .value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE,
    .string_value = (char *)(uintptr_t) "shop"};
static KeyValue service = {
    .base = PROTOBUF_C_MESSAGE_INIT(&opentelemetry__proto__common__v1__key_value__descriptor),
    .key = (char *)(uintptr_t) "service.name",
    .value = &shop};
static KeyValue *attributes[] = {&service};

static char *shown(enum config_verbosity verbosity, enum signal signal, struct bytes request)
{
    struct buf out = BUF_INIT(0);
    assert_int_equal(debug_exporter_text(verbosity, signal, request, &out), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    return (char *)out.data;
}

static char *shown_message(enum config_verbosity verbosity, enum signal signal,
                           const ProtobufCMessage *message)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    pb_pack(message, &request);
    return shown(verbosity, signal, buf_bytes(&request));
}

/* ---- metrics ---- */

static char *shown_metrics(enum config_verbosity verbosity, OF(Metric) * *metrics, size_t n)
{
    OF(ScopeMetrics) scope = OPENTELEMETRY__PROTO__METRICS__V1__SCOPE_METRICS__INIT;
    OF(ResourceMetrics) resource = OPENTELEMETRY__PROTO__METRICS__V1__RESOURCE_METRICS__INIT;
    OF(ScopeMetrics) * scopes[] = {&scope};
    OF(ResourceMetrics) * resources[] = {&resource};
    Opentelemetry__Proto__Resource__V1__Resource shop_resource =
        OPENTELEMETRY__PROTO__RESOURCE__V1__RESOURCE__INIT;
    Opentelemetry__Proto__Collector__Metrics__V1__ExportMetricsServiceRequest request =
        OPENTELEMETRY__PROTO__COLLECTOR__METRICS__V1__EXPORT_METRICS_SERVICE_REQUEST__INIT;
    shop_resource.attributes = attributes;
    shop_resource.n_attributes = 1;
    scope.metrics = metrics;
    scope.n_metrics = n;
    resource.resource = &shop_resource;
    resource.scope_metrics = scopes;
    resource.n_scope_metrics = 1;
    request.resource_metrics = resources;
    request.n_resource_metrics = 1;
    return shown_message(verbosity, SIGNAL_METRICS, &request.base);
}

static OF(Metric) metric_of(const char *name, OF(Metric__DataCase) kind)
{
    OF(Metric) metric = OPENTELEMETRY__PROTO__METRICS__V1__METRIC__INIT;
    metric.name = (char *)(uintptr_t)name;
    metric.data_case = kind;
    return metric;
}

static void assert_shown(OF(Metric) * *list)
{
    char *text = shown_metrics(VERBOSITY_NORMAL, list, 5);
    assert_string_equal(text, "ResourceMetrics #0 service.name=shop\n"
                              "ScopeMetrics #0\n"
                              "g service.name=shop -7\n"
                              "g 0.5\n"
                              "h count=3 min=0 le0.5=1 inf=2\n"
                              "e count=4 scale=-2 zero=0\n"
                              "s count=5 sum=9 q0.5=2\n");
    free(text);
    text = shown_metrics(VERBOSITY_DETAILED, list + 1, 1);
    assert_string_equal(text, "resource_metrics #0\n"
                              "  resource\n"
                              "    attributes #0: service.name=shop\n"
                              "  scope_metrics #0\n"
                              "    metrics #0\n"
                              "      name: h\n"
                              "      histogram\n"
                              "        data_points #0\n"
                              "          count: 3\n"
                              "          bucket_counts: 1 2\n"
                              "          explicit_bounds: 0.5\n"
                              "          min: 0\n");
    free(text);
}

static void test_metrics(void **state)
{
    OF(NumberDataPoint) whole = OPENTELEMETRY__PROTO__METRICS__V1__NUMBER_DATA_POINT__INIT;
    OF(NumberDataPoint) half = whole;
    OF(NumberDataPoint) * numbers[] = {&whole, &half};
    OF(Gauge) gauge = OPENTELEMETRY__PROTO__METRICS__V1__GAUGE__INIT;
    OF(HistogramDataPoint) bars = OPENTELEMETRY__PROTO__METRICS__V1__HISTOGRAM_DATA_POINT__INIT;
    OF(HistogramDataPoint) * all_bars[] = {&bars};
    OF(Histogram) histogram = OPENTELEMETRY__PROTO__METRICS__V1__HISTOGRAM__INIT;
    OF(ExponentialHistogramDataPoint)
    powers = OPENTELEMETRY__PROTO__METRICS__V1__EXPONENTIAL_HISTOGRAM_DATA_POINT__INIT;
    OF(ExponentialHistogramDataPoint) * all_powers[] = {&powers};
    OF(ExponentialHistogram)
    exponential = OPENTELEMETRY__PROTO__METRICS__V1__EXPONENTIAL_HISTOGRAM__INIT;
    OF(SummaryDataPoint__ValueAtQuantile)
    median = OPENTELEMETRY__PROTO__METRICS__V1__SUMMARY_DATA_POINT__VALUE_AT_QUANTILE__INIT;
    OF(SummaryDataPoint__ValueAtQuantile) * quantiles[] = {&median};
    OF(SummaryDataPoint) point = OPENTELEMETRY__PROTO__METRICS__V1__SUMMARY_DATA_POINT__INIT;
    OF(SummaryDataPoint) * points[] = {&point};
    OF(Summary) summary = OPENTELEMETRY__PROTO__METRICS__V1__SUMMARY__INIT;
    static const uint64_t counts[] = {1, 2};
    static const double bounds[] = {0.5};
    (void)state;
    whole.value_case = OPENTELEMETRY__PROTO__METRICS__V1__NUMBER_DATA_POINT__VALUE_AS_INT;
    whole.as_int = -7;
    whole.attributes = attributes;
    whole.n_attributes = 1;
    half.value_case = OPENTELEMETRY__PROTO__METRICS__V1__NUMBER_DATA_POINT__VALUE_AS_DOUBLE;
    half.as_double = 0.5;
    gauge.data_points = numbers;
    gauge.n_data_points = 2;
    bars.count = 3;
    bars.optional_min_case =
        OPENTELEMETRY__PROTO__METRICS__V1__HISTOGRAM_DATA_POINT__OPTIONAL_MIN_MIN; /* 0, but set */
    bars.bucket_counts = (uint64_t *)(uintptr_t)counts;
    bars.n_bucket_counts = 2;
    bars.explicit_bounds = (double *)(uintptr_t)bounds;
    bars.n_explicit_bounds = 1;
    histogram.data_points = all_bars;
    histogram.n_data_points = 1;
    powers.count = 4;
    powers.scale = -2;
    exponential.data_points = all_powers;
    exponential.n_data_points = 1;
    median.quantile = 0.5;
    median.value = 2;
    point.count = 5;
    point.sum = 9;
    point.quantile_values = quantiles;
    point.n_quantile_values = 1;
    summary.data_points = points;
    summary.n_data_points = 1;
    OF(Metric)
    metrics[] = {
        metric_of("g", OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_GAUGE),
        metric_of("h", OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_HISTOGRAM),
        metric_of("e", OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_EXPONENTIAL_HISTOGRAM),
        metric_of("s", OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_SUMMARY),
        metric_of("n", OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA__NOT_SET),
    };
    metrics[0].gauge = &gauge;
    metrics[1].histogram = &histogram;
    metrics[2].exponential_histogram = &exponential;
    metrics[3].summary = &summary;
    OF(Metric) * list[] = {&metrics[0], &metrics[1], &metrics[2], &metrics[3], &metrics[4]};
    assert_shown(list);
}

/* ---- logs ---- */

static void test_logs(void **state)
{
    static const uint8_t trace_id[16] = {1}, span_id[8] = {2};
    LogRecord record = OPENTELEMETRY__PROTO__LOGS__V1__LOG_RECORD__INIT, bare = record;
    LogRecord *records[] = {&record, &bare};
    Opentelemetry__Proto__Logs__V1__ScopeLogs scope =
        OPENTELEMETRY__PROTO__LOGS__V1__SCOPE_LOGS__INIT;
    Opentelemetry__Proto__Logs__V1__ScopeLogs *scopes[] = {&scope};
    Opentelemetry__Proto__Logs__V1__ResourceLogs resource =
        OPENTELEMETRY__PROTO__LOGS__V1__RESOURCE_LOGS__INIT;
    Opentelemetry__Proto__Logs__V1__ResourceLogs *resources[] = {&resource};
    Opentelemetry__Proto__Collector__Logs__V1__ExportLogsServiceRequest request =
        OPENTELEMETRY__PROTO__COLLECTOR__LOGS__V1__EXPORT_LOGS_SERVICE_REQUEST__INIT;
    (void)state;
    record.severity_text = (char *)(uintptr_t) "WARN";
    record.severity_number = OPENTELEMETRY__PROTO__LOGS__V1__SEVERITY_NUMBER__SEVERITY_NUMBER_WARN;
    record.body = &shop;
    record.trace_id = (ProtobufCBinaryData){16, (uint8_t *)(uintptr_t)trace_id};
    record.span_id = (ProtobufCBinaryData){8, (uint8_t *)(uintptr_t)span_id};
    record.attributes = attributes;
    record.n_attributes = 1;
    bare.event_name = (char *)(uintptr_t) "started";
    scope.log_records = records;
    scope.n_log_records = 2;
    resource.scope_logs = scopes;
    resource.n_scope_logs = 1;
    request.resource_logs = resources;
    request.n_resource_logs = 1;
    char *text = shown_message(VERBOSITY_NORMAL, SIGNAL_LOGS, &request.base);
    assert_string_equal(text, "ResourceLogs #0\n"
                              "ScopeLogs #0\n"
                              "WARN shop 01000000000000000000000000000000 0200000000000000 "
                              "service.name=shop\n"
                              "started \n");
    free(text);
    text = shown_message(VERBOSITY_DETAILED, SIGNAL_LOGS, &request.base);
    assert_non_null(strstr(text, "      severity_number: SEVERITY_NUMBER_WARN\n"
                                 "      severity_text: WARN\n"
                                 "      body\n"
                                 "        string_value: shop\n"));
    free(text);
    text = shown(VERBOSITY_BASIC, SIGNAL_LOGS, BYTES_LIT("\xff"));
    assert_string_equal(text, "");
    free(text);
    text = shown(VERBOSITY_NORMAL, SIGNAL_LOGS, BYTES_LIT("\xff"));
    assert_string_equal(text, "malformed\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
