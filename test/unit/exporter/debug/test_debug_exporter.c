/* SPDX-License-Identifier: Apache-2.0 */
/* What the debug exporter writes of requests, whole and hostile ones. */
#include "exporter/debug/debug_exporter.h"
#include "exporter/debug/debug_text.h"
#include "test/support/faults/fail_alloc.h"
#include "test/support/fixtures/pb_pack.h"
#include "test/unit/proto/otlp/test_otlp_profiles.h"
#include "trace_service.pb-c.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

typedef Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceRequest TraceRequest;
typedef Opentelemetry__Proto__Trace__V1__ResourceSpans ResourceSpans;
typedef Opentelemetry__Proto__Trace__V1__ScopeSpans ScopeSpans;
typedef Opentelemetry__Proto__Trace__V1__Span Span;
typedef Opentelemetry__Proto__Resource__V1__Resource Resource;
typedef Opentelemetry__Proto__Common__V1__InstrumentationScope Scope;

#define BINARY(array) ((ProtobufCBinaryData){sizeof(array), (uint8_t *)(uintptr_t)(array)})

/* ---- requests ---- */

struct traces {
    TraceRequest request;
    ResourceSpans resource_spans, *all_resource_spans;
    ScopeSpans scope_spans, *all_scope_spans;
    Resource resource;
    Scope scope;
    AnyValue name_value, number_value;
    KeyValue name_pair, number_pair, *name_pairs, *number_pairs;
};

static void text_value(AnyValue *value, const char *text)
{
    opentelemetry__proto__common__v1__any_value__init(value);
    value->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE;
    value->string_value = (char *)(uintptr_t)text;
}

static void pair(KeyValue *pair, const char *key, AnyValue *value)
{
    opentelemetry__proto__common__v1__key_value__init(pair);
    pair->key = (char *)(uintptr_t)key;
    pair->value = value;
}

static void envelope(struct traces *traces, Span **spans, size_t n)
{
    opentelemetry__proto__collector__trace__v1__export_trace_service_request__init(
        &traces->request);
    opentelemetry__proto__trace__v1__resource_spans__init(&traces->resource_spans);
    opentelemetry__proto__trace__v1__scope_spans__init(&traces->scope_spans);
    opentelemetry__proto__resource__v1__resource__init(&traces->resource);
    opentelemetry__proto__common__v1__instrumentation_scope__init(&traces->scope);
    text_value(&traces->name_value, "shop");
    pair(&traces->name_pair, "service.name", &traces->name_value);
    opentelemetry__proto__common__v1__any_value__init(&traces->number_value);
    traces->number_value.value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_INT_VALUE;
    traces->number_value.int_value = -3;
    pair(&traces->number_pair, "n", &traces->number_value);
    traces->name_pairs = &traces->name_pair;
    traces->number_pairs = &traces->number_pair;
    traces->resource.attributes = &traces->name_pairs;
    traces->resource.n_attributes = 1;
    traces->scope.name = "io.shop";
    traces->scope.version = "2.1";
    traces->scope_spans.scope = &traces->scope;
    traces->scope_spans.spans = spans;
    traces->scope_spans.n_spans = n;
    traces->all_scope_spans = &traces->scope_spans;
    traces->resource_spans.resource = &traces->resource;
    traces->resource_spans.scope_spans = &traces->all_scope_spans;
    traces->resource_spans.n_scope_spans = 1;
    traces->all_resource_spans = &traces->resource_spans;
    traces->request.resource_spans = &traces->all_resource_spans;
    traces->request.n_resource_spans = 1;
}

static void span_named(Span *span, const char *name)
{
    opentelemetry__proto__trace__v1__span__init(span);
    span->name = (char *)(uintptr_t)name;
    span->trace_id = BINARY(trace_id);
    span->span_id = BINARY(span_id);
}

/* What is written of a request that holds these spans; the caller frees it. */
static char *shown(enum config_verbosity verbosity, enum signal signal, struct bytes request)
{
    struct buf out = BUF_INIT(0);
    assert_int_equal(debug_exporter_text(verbosity, signal, request, &out), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    return (char *)buf_release(&out, &(size_t){0});
}

static char *shown_spans(enum config_verbosity verbosity, Span **spans, size_t n)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    struct traces traces;
    envelope(&traces, spans, n);
    traces.request.resource_spans[0]->scope_spans[0]->spans[0]->attributes = &traces.number_pairs;
    traces.request.resource_spans[0]->scope_spans[0]->spans[0]->n_attributes = 1;
    pb_pack(&traces.request.base, &request);
    return shown(verbosity, SIGNAL_TRACES, buf_bytes(&request));
}

static size_t lines_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

#define IDS "01000000000000000000000000000010 0200000000000008"

/* ---- spans ---- */

static void test_basic_says_no_more(void **state)
{
    Span span, *spans[] = {&span};
    (void)state;
    span_named(&span, "GET /");
    char *text = shown_spans(VERBOSITY_BASIC, spans, 1);
    assert_string_equal(text, "");
    free(text);
    text = shown(VERBOSITY_BASIC, SIGNAL_LOGS, BYTES_LIT("any"));
    assert_string_equal(text, "");
    free(text);
}

static void test_normal_has_a_line_a_span(void **state)
{
    Span first, second, *spans[] = {&first, &second};
    (void)state;
    span_named(&first, "GET /");
    span_named(&second, "two\nlines\x1b[31m");
    second.span_id.len = 0;
    char *text = shown_spans(VERBOSITY_NORMAL, spans, 2);
    assert_string_equal(text, "ResourceSpans #0 service.name=shop\n"
                              "ScopeSpans #0 io.shop@2.1\n"
                              "GET / " IDS " n=-3\n"
                              "two?lines?[31m 01000000000000000000000000000010 \n");
    free(text);
}

static void test_detailed_has_every_field(void **state)
{
    Opentelemetry__Proto__Trace__V1__Span__Event event, *events[] = {&event};
    Opentelemetry__Proto__Trace__V1__Span__Link link, *links[] = {&link};
    Opentelemetry__Proto__Trace__V1__Status status;
    Span span, *spans[] = {&span};
    (void)state;
    opentelemetry__proto__trace__v1__span__event__init(&event);
    opentelemetry__proto__trace__v1__span__link__init(&link);
    opentelemetry__proto__trace__v1__status__init(&status);
    event.time_unix_nano = 11;
    event.name = "retry";
    link.trace_id = BINARY(trace_id);
    link.flags = 1;
    status.code = OPENTELEMETRY__PROTO__TRACE__V1__STATUS__STATUS_CODE__STATUS_CODE_ERROR;
    status.message = "no";
    span_named(&span, "GET /");
    span.kind = OPENTELEMETRY__PROTO__TRACE__V1__SPAN__SPAN_KIND__SPAN_KIND_SERVER;
    span.start_time_unix_nano = 10;
    span.end_time_unix_nano = UINT64_MAX;
    span.dropped_attributes_count = 7;
    span.events = events;
    span.n_events = 1;
    span.links = links;
    span.n_links = 1;
    span.status = &status;
    char *text = shown_spans(VERBOSITY_DETAILED, spans, 1);
    assert_string_equal(text, "resource_spans #0\n"
                              "  resource\n"
                              "    attributes #0: service.name=shop\n"
                              "  scope_spans #0\n"
                              "    scope\n"
                              "      name: io.shop\n"
                              "      version: 2.1\n"
                              "    spans #0\n"
                              "      trace_id: 01000000000000000000000000000010\n"
                              "      span_id: 0200000000000008\n"
                              "      name: GET /\n"
                              "      kind: SPAN_KIND_SERVER\n"
                              "      start_time_unix_nano: 10\n"
                              "      end_time_unix_nano: 18446744073709551615\n"
                              "      attributes #0: n=-3\n"
                              "      dropped_attributes_count: 7\n"
                              "      events #0\n"
                              "        time_unix_nano: 11\n"
                              "        name: retry\n"
                              "      links #0\n"
                              "        trace_id: 01000000000000000000000000000010\n"
                              "        flags: 1\n"
                              "      status\n"
                              "        message: no\n"
                              "        code: STATUS_CODE_ERROR\n");
    free(text);
}

#define VALUE(kind, ...)                                                                           \
    {                                                                                              \
        .base = PROTOBUF_C_MESSAGE_INIT(&opentelemetry__proto__common__v1__any_value__descriptor), \
        .value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_##kind, __VA_ARGS__       \
    }

static void test_every_kind_of_value(void **state)
{
    static uint8_t long_bytes[DEBUG_BYTES_MAX + 1];
    AnyValue yes = VALUE(BOOL_VALUE, .bool_value = 1);
    AnyValue half = VALUE(DOUBLE_VALUE, .double_value = 0.5);
    AnyValue raw = VALUE(BYTES_VALUE, .bytes_value = BINARY(long_bytes));
    AnyValue index = VALUE(STRING_VALUE_STRINDEX, .string_value_strindex = 9);
    AnyValue none = VALUE(_NOT_SET);
    AnyValue *items[] = {&yes, &half, &index, &none};
    Opentelemetry__Proto__Common__V1__ArrayValue array =
        OPENTELEMETRY__PROTO__COMMON__V1__ARRAY_VALUE__INIT;
    Opentelemetry__Proto__Common__V1__KeyValueList list =
        OPENTELEMETRY__PROTO__COMMON__V1__KEY_VALUE_LIST__INIT;
    KeyValue raw_pair, empty_pair, *pairs[] = {&raw_pair, &empty_pair};
    (void)state;
    array.values = items;
    array.n_values = 4;
    pair(&raw_pair, "raw", &raw);
    pair(&empty_pair, "empty", NULL);
    list.values = pairs;
    list.n_values = 2;
    AnyValue array_value = VALUE(ARRAY_VALUE, .array_value = &array);
    AnyValue list_value = VALUE(KVLIST_VALUE, .kvlist_value = &list);
    KeyValue first, second, *attributes[] = {&first, &second};
    pair(&first, "a", &array_value);
    pair(&second, "l", &list_value);
    struct debug_text text;
    debug_text_open(&text, NULL);
    debug_key_values(&text, attributes, 2);
    debug_line_end(&text);
    char expected[512], zeros[2 * DEBUG_BYTES_MAX + 1];
    memset(zeros, '0', sizeof(zeros) - 1);
    zeros[sizeof(zeros) - 1] = '\0';
    snprintf(expected, sizeof(expected),
             " a=[true, 0.5, <no string 9>, ] l={raw=%s... (65 bytes), empty=}\n", zeros);
    assert_true(bytes_is(buf_bytes(&text.text), expected));
    debug_text_close(&text);
}

/* ---- samples ---- */

static char *shown_profiles(enum config_verbosity verbosity)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    struct plan linked = {"shop", "do_work", PROFILE_CPU, 1500, 9, 10309278, true, "worker"};
    struct plan alone = {"shop", "do_work", PROFILE_CPU, 1600, 9, 10309278, false, NULL};
    assert_int_equal(add(profiles, &linked), 0);
    assert_int_equal(add(profiles, &linked), 0);
    assert_int_equal(add(profiles, &alone), 0);
    assert_int_equal(otlp_profiles_finish(profiles, 1000, 2000, "1.2.3", &request), 0);
    otlp_profiles_close(profiles);
    return shown(verbosity, SIGNAL_PROFILES, buf_bytes(&request));
}

static void test_normal_has_a_line_a_sample(void **state)
{
    (void)state;
    char *text = shown_profiles(VERBOSITY_NORMAL), *profile = strstr(text, "Profile #0 ");
    assert_non_null(profile);
    assert_memory_equal(text,
                        "ResourceProfiles #0 service.name=shop\n"
                        "ScopeProfiles #0 spanprof@1.2.3\n",
                        (size_t)(profile - text));
    profile += strlen("Profile #0 ");
    assert_int_equal(strspn(profile, "0123456789abcdef"), 32); /* its id is drawn */
    assert_string_equal(profile + 32,
                        " samples=2 samples/count\n"
                        "do_work timestamps=2 " IDS " thread.name=worker thread.id=4711\n"
                        "do_work timestamps=1\n");
    free(text);
}

static void test_detailed_resolves_the_dictionary(void **state)
{
    static const char *const wanted[] = {
        "\n      sample_type\n        type_strindex: 1 (samples)\n",
        "\n        unit_strindex: 2 (count)\n",
        "\n        timestamps_unix_nano: 1500 1500\n",
        " (thread.name=worker) ",
        " (thread.id=4711)\n",
        "\n    filename_strindex: 5 (/usr/bin/shop)\n",
        "\n    trace_id: 01000000000000000000000000000010\n    span_id: 0200000000000008\n",
        ": do_work\n",
        ": profile.frame.type=kernel\n",
    };
    (void)state;
    char *text = shown_profiles(VERBOSITY_DETAILED);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
        if (!strstr(text, wanted[i]))
            fail_msg("'%s' is not in\n%s", wanted[i], text);
    free(text);
}

static void test_indices_that_lead_nowhere(void **state)
{
    _cleanup_buf_ struct buf bytes = BUF_INIT(0);
    Request request =
        OPENTELEMETRY__PROTO__COLLECTOR__PROFILES__V1DEVELOPMENT__EXPORT_PROFILES_SERVICE_REQUEST__INIT;
    OF(ResourceProfiles)
    resource = OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__RESOURCE_PROFILES__INIT;
    OF(ScopeProfiles) scope = OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__SCOPE_PROFILES__INIT;
    Profile profile = OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__PROFILE__INIT;
    Sample sample = OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__SAMPLE__INIT;
    OF(ValueType) type = OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__VALUE_TYPE__INIT;
    Dictionary dictionary =
        OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__PROFILES_DICTIONARY__INIT;
    OF(ResourceProfiles) * resources[] = {&resource};
    OF(ScopeProfiles) * scopes[] = {&scope};
    Profile *profiles[] = {&profile};
    Sample *samples[] = {&sample};
    int32_t attributes[] = {-1};
    (void)state;
    request.resource_profiles = resources;
    resource.scope_profiles = scopes;
    scope.profiles = profiles;
    profile.samples = samples;
    request.n_resource_profiles = resource.n_scope_profiles = scope.n_profiles = 1;
    profile.n_samples = 1;
    profile.sample_type = &type;
    type.type_strindex = 3;
    type.unit_strindex = INT32_MIN;
    sample.stack_index = INT32_MAX;
    sample.link_index = -5;
    sample.attribute_indices = attributes;
    sample.n_attribute_indices = 1;
    for (int with = 0; with < 2; with++) {
        request.dictionary = with ? &dictionary : NULL;
        buf_clear(&bytes);
        pb_pack(&request.base, &bytes);
        char *text = shown(VERBOSITY_NORMAL, SIGNAL_PROFILES, buf_bytes(&bytes));
        assert_string_equal(text, "ResourceProfiles #0\n"
                                  "ScopeProfiles #0\n"
                                  "Profile #0  samples=1 <no string 3>/<no string -2147483648>\n"
                                  "? timestamps=0 <no attribute -1>\n");
        free(text);
        free(shown(VERBOSITY_DETAILED, SIGNAL_PROFILES, buf_bytes(&bytes)));
    }
}

/* ---- limits ---- */

static void test_text_is_bounded(void **state)
{
    enum { N = 3000 };
    static Span spans[N];
    static Span *all[N];
    (void)state;
    for (size_t i = 0; i < N; i++) {
        span_named(&spans[i], "a span of many");
        all[i] = &spans[i];
    }
    char *text = shown_spans(VERBOSITY_NORMAL, all, N);
    char *last = strstr(text, "\n... ");
    assert_non_null(last);
    assert_true((size_t)(last - text) < DEBUG_TEXT_MAX);
    assert_true((size_t)(last - text) > DEBUG_TEXT_MAX - DEBUG_LINE_MAX);
    unsigned long n_more = 0;
    char end[16];
    assert_int_equal(sscanf(last, "\n... %lu more %15s", &n_more, end), 2);
    assert_string_equal(end, "lines");
    assert_int_equal(lines_of(text) - 1 + n_more, N + 2);
    free(text);
}

static void test_long_names_and_lines_are_cut(void **state)
{
    static char name[10000];
    static KeyValue pairs[100], *attributes[100];
    AnyValue value;
    Span span, *spans[] = {&span};
    struct traces traces;
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    span_named(&span, name);
    text_value(&value, name);
    for (size_t i = 0; i < 100; i++) {
        pair(&pairs[i], "k", &value);
        attributes[i] = &pairs[i];
    }
    envelope(&traces, spans, 1);
    span.attributes = attributes;
    span.n_attributes = 100;
    pb_pack(&traces.request.base, &request);
    char *text = shown(VERBOSITY_NORMAL, SIGNAL_TRACES, buf_bytes(&request));
    char *line = strstr(text, "xxx");
    assert_int_equal(strspn(line, "x"), DEBUG_STRING_MAX);
    assert_memory_equal(line + DEBUG_STRING_MAX, "... 0100", 8);
    assert_true(strlen(line) <= DEBUG_LINE_MAX + strlen("...\n"));
    assert_string_equal(line + strlen(line) - 4, "...\n");
    free(text);
}

static void test_what_cannot_be_decoded(void **state)
{
    /* {1: {2: {}, 2: {}, ...}}: 2 bytes each, and a message each when decoded */
    static uint8_t swelling[5 + (2 << 20)] = {0x0a, 0x80, 0x80, 0x80, 0x01};
    (void)state;
    char *text = shown(VERBOSITY_NORMAL, SIGNAL_TRACES, BYTES_LIT("no request"));
    assert_string_equal(text, "malformed\n");
    free(text);
    for (size_t i = 5; i < sizeof(swelling); i += 2)
        swelling[i] = 0x12;
    text = shown(VERBOSITY_DETAILED, SIGNAL_TRACES, BYTES(swelling, sizeof(swelling)));
    assert_string_equal(text, "too large to be shown\n");
    free(text);
}

static void test_without_memory(void **state)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    struct traces traces;
    Span span, *spans[] = {&span};
    (void)state;
    span_named(&span, "GET /");
    envelope(&traces, spans, 1);
    pb_pack(&traces.request.base, &request);
    bool hit = true;
    for (unsigned n = 1; hit; n++) {
        _cleanup_buf_ struct buf out = BUF_INIT(0);
        fail_alloc_at(n);
        int error =
            debug_exporter_text(VERBOSITY_DETAILED, SIGNAL_TRACES, buf_bytes(&request), &out);
        hit = fail_alloc_hit();
        assert_true(error == 0 || (hit && error == -ENOMEM));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_basic_says_no_more),
        cmocka_unit_test(test_normal_has_a_line_a_span),
        cmocka_unit_test(test_detailed_has_every_field),
        cmocka_unit_test(test_every_kind_of_value),
        cmocka_unit_test(test_normal_has_a_line_a_sample),
        cmocka_unit_test(test_detailed_resolves_the_dictionary),
        cmocka_unit_test(test_indices_that_lead_nowhere),
        cmocka_unit_test(test_text_is_bounded),
        cmocka_unit_test(test_long_names_and_lines_are_cut),
        cmocka_unit_test(test_what_cannot_be_decoded),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
