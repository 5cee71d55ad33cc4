/* SPDX-License-Identifier: Apache-2.0 */
/* What publishers say of a thread's work becomes ids and attributes of its samples. */
#include "base/clock.h"
#include "base/stats.h"
#include "proto/otlp/otlp_spans.h"
#include "test/support/rigs/samples_rig.h"
#include <endian.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

/* Resource{attributes: KeyValue{"a", "b"}} */
static const uint8_t resource[] = {0x0a, 8, 0x0a, 1, 'a', 0x12, 3, 0x0a, 1, 'b'};

static void tell_sources(struct samples_rig *rig, uint8_t publishes, uint8_t sources)
{
    samples_rig_details(rig, APP_PATH);
    samples_rig_answer(rig, &(struct symbolizer_message){.kind = SYMBOLIZER_CONTEXT,
                                                         .context = {.pid = RIG_PID,
                                                                     .time_ns = RECORD_T0 - 1,
                                                                     .sources = sources,
                                                                     .publishes = publishes}});
}

static void tell_context(struct samples_rig *rig, struct bytes *keys, uint32_t n, bool sets_flags)
{
    samples_rig_details(rig, APP_PATH);
    samples_rig_answer(
        rig, &(struct symbolizer_message){.kind = SYMBOLIZER_CONTEXT,
                                          .context = {.pid = RIG_PID,
                                                      .time_ns = RECORD_T0 - 1,
                                                      .sources = CONTEXT_BIT(CONTEXT_OTEL_THREAD),
                                                      .publishes = CONTEXT_BIT(CONTEXT_OTEL_THREAD),
                                                      .sets_trace_flags = sets_flags,
                                                      .resource = BYTES(resource, sizeof(resource)),
                                                      .n_keys = n,
                                                      .keys = keys}});
}

/* A sample with the ids 1, 2, 3 in its header. */
static struct record_parts with_ids(enum context_source source)
{
    struct record_parts parts = samples_rig_record(RIG_PID);
    parts.head.context_source = (uint8_t)source;
    parts.head.flags |= RECORD_FLAG_CONTEXT_KNOWN;
    fixture_trace_id(1, parts.head.trace_id);
    fixture_span_id(2, parts.head.span_id);
    fixture_span_id(3, parts.head.local_root_id);
    return parts;
}

static struct record_parts with_context_of(enum context_source source, const void *attributes,
                                           size_t size)
{
    struct record_parts parts = with_ids(source);
    parts.head.attributes_source = (uint8_t)source;
    parts.attributes = BYTES(attributes, size);
    return parts;
}

static struct record_parts with_context(const void *attributes, size_t size)
{
    return with_context_of(CONTEXT_OTEL_THREAD, attributes, size);
}

static int64_t dropped(void)
{
    return stats_find("spanprof_context_attributes_dropped_total", "");
}

/* ---- OpenTelemetry's thread context ---- */

static void test_ids(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct record_parts parts = with_context(NULL, 0);
    tell_context(rig, NULL, 0, false);
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_memory_equal(left.sample.trace_id, parts.head.trace_id, 16);
    assert_memory_equal(left.sample.span_id, parts.head.span_id, 8);
    assert_memory_equal(left.sample.local_root_id, parts.head.local_root_id, 8);
    assert_int_equal(left.sample.context_source, CONTEXT_OTEL_THREAD);
    assert_true(bytes_equal(left.facts.resource, BYTES(resource, sizeof(resource))));
}

static void test_attributes(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct bytes keys[] = {BYTES_LIT("http.route"), BYTES_LIT(""), BYTES_LIT("user.id")};
    static const char attributes[] = "\x02\x02"
                                     "u1"
                                     "\x00\x03"
                                     "/ol"
                                     "\x01\x01x"     /* the key has no name */
                                     "\x09\x01y"     /* nor has this one */
                                     "\x00\x02/n"    /* of a repeated index the last counts */
                                     "\x02\x05ends"; /* cut short */
    struct buf expected _cleanup_buf_ = BUF_INIT(0);
    otlp_attribute_string(&expected, 9, "http.route", BYTES_LIT("/n"));
    otlp_attribute_string(&expected, 9, "user.id", BYTES_LIT("u1"));
    tell_context(rig, keys, 3, false);
    static const enum context_source sources[] = {CONTEXT_OTEL_THREAD, CONTEXT_OTEL_NODEJS};
    for (size_t i = 0; i < 2; i++) {
        struct record_parts parts = with_context_of(sources[i], attributes, sizeof(attributes) - 1);
        int64_t before = dropped();
        samples_rig_add(rig, &parts, 1);
        samples_rig_leave(rig, &left);
        assert_true(bytes_equal(left.sample.attributes, buf_bytes(&expected)));
        assert_int_equal(left.sample.context_source, sources[i]);
        assert_int_equal(dropped() - before, 2);
    }
}

static void test_attributes_invalid(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct bytes keys[] = {BYTES_LIT("a"), BYTES_LIT("b")};
    static const char attributes[] = "\x00\x02\xc3\x28\x01\x00";
    struct record_parts parts = with_context(attributes, sizeof(attributes) - 1);
    int64_t before = dropped();
    samples_rig_add(rig, &parts, 1); /* nothing is known of keys yet */
    samples_rig_leave(rig, &left);
    assert_int_equal(left.sample.attributes.len, 0);
    assert_int_equal(dropped() - before, 2);

    tell_context(rig, keys, 2, false);
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    struct buf expected _cleanup_buf_ = BUF_INIT(0);
    otlp_attribute_string(&expected, 9, "b", BYTES_LIT("")); /* the other is not UTF-8 */
    assert_true(bytes_equal(left.sample.attributes, buf_bytes(&expected)));
    assert_int_equal(dropped() - before, 3);
}

static void test_attributes_too_many(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    char names[12][301];
    struct bytes keys[12];
    uint8_t attributes[24];
    for (size_t i = 0; i < 12; i++) {
        size_t len = i == 11 ? 256 : 200; /* the last is longer than any key may be */
        memset(names[i], 'a' + (int)i, len);
        keys[i] = BYTES(names[i], len);
        attributes[2 * i] = (uint8_t)i;
        attributes[2 * i + 1] = 0;
    }
    struct record_parts parts = with_context(attributes, sizeof(attributes));
    int64_t before = dropped();
    tell_context(rig, keys, 12, false);
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    size_t each = left.sample.attributes.len / 4;
    assert_in_range(left.sample.attributes.len, SAMPLE_ATTRIBUTES_MAX - each,
                    SAMPLE_ATTRIBUTES_MAX);
    assert_int_equal(dropped() - before, 12 - 4);
}

static void test_flags(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct record_parts parts = with_context(NULL, 0), other = with_context(NULL, 0);
    other.head.process_start_ns++; /* the pid again, another process */
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_false(left.sample.flags_trusted); /* zeros prove nothing */
    parts.head.trace_flags = 1;
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_int_equal(left.sample.trace_flags, 1);
    assert_true(left.sample.flags_trusted);
    parts.head.trace_flags = 0;
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_true(left.sample.flags_trusted); /* learned */
    samples_rig_add(rig, &other, 1);
    samples_rig_leave(rig, &left);
    assert_false(left.sample.flags_trusted);
    tell_context(rig, NULL, 0, true);
    samples_rig_add(rig, &other, 1);
    samples_rig_leave(rig, &left);
    assert_true(left.sample.flags_trusted); /* told */
}

/* Flags of one publisher say nothing of those of another in the same process. */
static void test_flags_by_source(void **state)
{
    static const struct {
        enum context_source source;
        uint8_t flags;
        bool trusted;
    } steps[] = {
        {CONTEXT_ELASTIC, 0, false},     {CONTEXT_ELASTIC, 1, true},
        {CONTEXT_ELASTIC, 0, true},      {CONTEXT_OTEL_THREAD, 0, false},
        {CONTEXT_OBI, 0, false},         {CONTEXT_OBI, 1, false},
        {CONTEXT_OTEL_NODEJS, 1, false}, {CONTEXT_OTEL_NODEJS, 0, false},
    };
    struct samples_rig *rig = *state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct samples_rig_left left;
        struct record_parts parts = with_ids(steps[i].source);
        parts.head.trace_flags = steps[i].flags;
        samples_rig_add(rig, &parts, 1);
        assert_int_equal(samples_rig_leave(rig, &left), 1);
        assert_int_equal(left.sample.flags_trusted, steps[i].trusted);
    }
}

/* Only the ring's record tells that the process has published anew. */
static void test_changed(void **state)
{
    struct samples_rig *rig = *state;
    struct bytes keys[] = {BYTES_LIT("a")};
    uint64_t now_ns = clock_monotonic_ns(); /* when the requests are taken, as for them */
    struct record_parts parts = with_context("\x00\x01x", 3);
    tell_context(rig, keys, 1, false);
    parts.head.time_ns = now_ns;
    samples_rig_add(rig, &parts, 1);
    samples_rig_requests(rig, SYMBOLIZER_CONTEXT_WANTED, NULL);
    parts.head.time_ns = now_ns += FIXTURE_SECOND;
    samples_rig_add(rig, &parts, 1); /* a key that is known */
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_CONTEXT_WANTED, NULL), 0);
    parts = with_context("\x01\x01x", 3);
    parts.head.time_ns = now_ns += FIXTURE_SECOND;
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_CONTEXT_WANTED, NULL), 1);
    parts = with_context(NULL, 0);
    parts.head.time_ns = now_ns + FIXTURE_SECOND;
    parts.head.flags |= RECORD_FLAG_CONTEXT_CHANGED;
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_CONTEXT_WANTED, NULL), 1);
}

/* ---- labels ---- */

#define TRACE_TEXT "ab000000000000000000000000000007"
#define SPAN_TEXT  "ab00000000000008"

static void put_label(struct buf *labels, struct bytes key, struct bytes value)
{
    uint8_t lengths[2] = {(uint8_t)key.len, (uint8_t)value.len};
    assert_int_equal(buf_append(labels, lengths, sizeof(lengths)), 0);
    assert_int_equal(buf_append_bytes(labels, key), 0);
    assert_int_equal(buf_append_bytes(labels, value), 0);
}

static void put_texts(struct buf *labels, const char *key, const char *value)
{
    put_label(labels, BYTES_STR(key), BYTES_STR(value));
}

static struct record_parts with_labels(enum context_source source, const struct buf *labels)
{
    struct record_parts parts = samples_rig_record(RIG_PID);
    parts.head.attributes_source = (uint8_t)source;
    parts.attributes = buf_bytes(labels);
    return parts;
}

static void assert_attributes(const struct sample *sample, size_t n, const char *const (*pairs)[2])
{
    _cleanup_buf_ struct buf expected = BUF_INIT(0);
    for (size_t i = 0; i < n; i++)
        otlp_attribute_string(&expected, 9, pairs[i][0], BYTES_STR(pairs[i][1]));
    assert_true(bytes_equal(sample->attributes, buf_bytes(&expected)));
}

static void test_labels(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    uint8_t trace[16], span[8];
    _cleanup_buf_ struct buf labels = BUF_INIT(0);
    put_texts(&labels, "span_id", SPAN_TEXT);
    put_texts(&labels, "span_name", "GET /cart");
    put_texts(&labels, "tenant", "");
    put_texts(&labels, "trace_id", TRACE_TEXT);
    fixture_trace_id(7, trace);
    fixture_span_id(8, span);
    for (unsigned source = CONTEXT_GO_LABELS; source <= CONTEXT_CUSTOM_LABELS; source++) {
        struct record_parts parts = with_labels(source, &labels);
        parts.head.trace_flags = 1; /* not the labels' */
        samples_rig_add(rig, &parts, 1);
        assert_int_equal(samples_rig_leave(rig, &left), 1);
        assert_int_equal(left.sample.context_source, source);
        assert_memory_equal(left.sample.trace_id, trace, 16);
        assert_memory_equal(left.sample.span_id, span, 8);
        assert_true(bytes_zero(left.sample.local_root_id, 8));
        assert_false(left.sample.flags_trusted);
        assert_int_equal(left.sample.trace_flags, 0);
        assert_attributes(&left.sample, 2,
                          (const char *const[][2]){{"process.context.label.span_name", "GET /cart"},
                                                   {"process.context.label.tenant", ""}});
    }
}

/* They are about the work, but name no span: the sample has them, and does not wait. */
static void test_labels_without_ids(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    size_t n;
    _cleanup_buf_ struct buf labels = BUF_INIT(0);
    put_texts(&labels, "worker", "7");
    put_texts(&labels, "span_id", "none");
    struct record_parts parts = with_labels(CONTEXT_GO_LABELS, &labels);
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(join_pending_samples(store_join(rig->fixture.store)), 1);
    struct fixture_left at_once;
    n = fixture_leave(&rig->fixture, FIXTURE_T0, &at_once);
    assert_int_equal(n, 1);
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_leave(rig, &left), 1);
    assert_int_equal(left.sample.context_source, CONTEXT_NONE);
    assert_attributes(&left.sample, 2,
                      (const char *const[][2]){{"process.context.label.worker", "7"},
                                               {"process.context.label.span_id", "none"}});
}

/* OTel thread, Elastic, labels, OBI. */
static void test_precedence(void **state)
{
    static const struct {
        enum context_source header, labels, expected;
    } cases[] = {
        {CONTEXT_OTEL_THREAD, CONTEXT_GO_LABELS, CONTEXT_OTEL_THREAD},
        {CONTEXT_ELASTIC, CONTEXT_CUSTOM_LABELS, CONTEXT_ELASTIC},
        {CONTEXT_OBI, CONTEXT_GO_LABELS, CONTEXT_GO_LABELS},
        {CONTEXT_OBI, CONTEXT_CUSTOM_LABELS, CONTEXT_CUSTOM_LABELS},
    };
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    uint8_t of_header[16], of_labels[16];
    _cleanup_buf_ struct buf labels = BUF_INIT(0);
    put_texts(&labels, "trace_id", TRACE_TEXT);
    put_texts(&labels, "worker", "7");
    fixture_trace_id(1, of_header);
    fixture_trace_id(7, of_labels);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct record_parts parts = with_ids(cases[i].header);
        parts.head.attributes_source = (uint8_t)cases[i].labels;
        parts.attributes = buf_bytes(&labels);
        bool by_labels = cases[i].expected == cases[i].labels;
        samples_rig_add(rig, &parts, 1);
        assert_int_equal(samples_rig_leave(rig, &left), 1);
        assert_int_equal(left.sample.context_source, cases[i].expected);
        assert_memory_equal(left.sample.trace_id, by_labels ? of_labels : of_header, 16);
        assert_int_equal(bytes_zero(left.sample.span_id, 8), by_labels); /* never of two sources */
        assert_attributes(&left.sample, 1,
                          (const char *const[][2]){{"process.context.label.worker", "7"}});
    }
    buf_clear(&labels);
    put_texts(&labels, "worker", "7"); /* no ids: OBI's count */
    struct record_parts parts = with_ids(CONTEXT_OBI);
    parts.head.attributes_source = CONTEXT_GO_LABELS;
    parts.attributes = buf_bytes(&labels);
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_int_equal(left.sample.context_source, CONTEXT_OBI);
    assert_memory_equal(left.sample.trace_id, of_header, 16);
}

static void test_configured_label(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    uint8_t span[8];
    _cleanup_buf_ struct buf labels = BUF_INIT(0);
    put_texts(&labels, RIG_SPAN_LABEL, SPAN_TEXT);
    struct record_parts parts = with_labels(CONTEXT_CUSTOM_LABELS, &labels);
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    fixture_span_id(8, span);
    assert_memory_equal(left.sample.span_id, span, 8);
    assert_int_equal(left.sample.attributes.len, 0);
}

/* What the sampler had to cut ends at a whole character; what is no text is left out. */
static void test_labels_invalid(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    char whole[128] = {0}, cut[128];
    int64_t before = dropped();
    _cleanup_buf_ struct buf labels = BUF_INIT(0);
    memset(whole, 'x', 125);
    memcpy(cut, whole, 125);
    memcpy(cut + 125, "\xe2\x82", 2); /* of three bytes */
    put_label(&labels, BYTES_LIT("cut"), BYTES(cut, 127));
    put_label(&labels, BYTES_LIT("short"), BYTES_LIT("\xe2\x82"));
    put_label(&labels, BYTES_LIT("\xff"), BYTES_LIT("key"));
    put_label(&labels, BYTES_LIT("a\0b"), BYTES_LIT("key"));
    put_label(&labels, BYTES_LIT(""), BYTES_LIT("key"));
    memcpy(cut + 121, "\xc3\xa9\xf0\x9f\x98\x80", 6); /* just complete */
    put_label(&labels, BYTES_LIT("fits"), BYTES(cut, 127));
    struct record_parts parts = with_labels(CONTEXT_CUSTOM_LABELS, &labels);
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    cut[127] = '\0';
    assert_attributes(&left.sample, 2,
                      (const char *const[][2]){{"process.context.label.cut", whole},
                                               {"process.context.label.fits", cut}});
    assert_int_equal(dropped() - before, 4);
}

static void test_labels_too_many(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    int64_t before = dropped();
    _cleanup_buf_ struct buf labels = BUF_INIT(0);
    char value[101];
    memset(value, 'v', 100);
    for (char key[] = "a"; key[0] < 'a' + 9; key[0]++)
        put_label(&labels, BYTES(key, 1), BYTES(value, 100));
    put_texts(&labels, "j", "short");
    struct record_parts parts = with_labels(CONTEXT_GO_LABELS, &labels);
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_in_range(left.sample.attributes.len, SAMPLE_ATTRIBUTES_MAX - 140, SAMPLE_ATTRIBUTES_MAX);
    assert_true(dropped() > before);
    assert_non_null(memmem(left.sample.attributes.data, left.sample.attributes.len, "short", 5));
}

/* ---- from labels to spans ---- */

static void assert_joins(struct samples_rig *rig, const struct buf *labels)
{
    struct samples_rig_left left;
    struct fixture_span span;
    struct join_result result;
    struct record_parts parts = with_labels(CONTEXT_GO_LABELS, labels);
    parts.head.time_ns = RECORD_T0 + FIXTURE_SECOND;
    samples_rig_add(rig, &parts, 1);
    fixture_span(&span, 7, 8, 0, 5, RIG_PID);
    assert_int_equal(fixture_join(&rig->fixture, &span, &result), JOIN_MATCHED);
    assert_int_equal(result.samples, 1);
    assert_int_equal(result.cpu_ns, parts.head.value_ns);
    assert_int_equal(samples_rig_leave(rig, &left), 1);
    assert_true(left.matched);
    assert_memory_equal(left.joined_span, span.span_id, 8);
    fixture_span_close(&span);
}

static void put_decimal(struct buf *labels, const char *key, unsigned span)
{
    uint8_t id[8];
    char text[24];
    fixture_span_id(span, id);
    uint64_t number;
    memcpy(&number, id, sizeof(number));
    snprintf(text, sizeof(text), "%" PRIu64, be64toh(number));
    put_texts(labels, key, text);
}

static void test_joins_by_span(void **state) /* dd-trace-go */
{
    _cleanup_buf_ struct buf labels = BUF_INIT(0);
    put_decimal(&labels, "local root span id", 5);
    put_decimal(&labels, "span id", 8);
    assert_joins(*state, &labels);
}

static void test_joins_by_local_root(void **state)
{
    _cleanup_buf_ struct buf labels = BUF_INIT(0);
    put_decimal(&labels, "local root span id", 8);
    assert_joins(*state, &labels);
}

static void test_joins_by_trace(void **state) /* polarsignals/otel-profiling-go */
{
    _cleanup_buf_ struct buf labels = BUF_INIT(0);
    put_texts(&labels, "otel_traceid", TRACE_TEXT);
    assert_joins(*state, &labels);
}

static void test_joins_by_both(void **state) /* grafana/otel-profiling-go */
{
    _cleanup_buf_ struct buf labels = BUF_INIT(0);
    put_texts(&labels, "span_id", SPAN_TEXT);
    put_texts(&labels, "trace_id", TRACE_TEXT);
    assert_joins(*state, &labels);
}

/* ---- counters ---- */

static void test_counted_by_source(void **state)
{
    static const char *const labels[CONTEXT_SOURCES] = {
        [CONTEXT_NONE] = "context=\"none\"",
        [CONTEXT_OTEL_THREAD] = "context=\"otel_thread\"",
        [CONTEXT_ELASTIC] = "context=\"elastic\"",
        [CONTEXT_GO_LABELS] = "context=\"go_labels\"",
        [CONTEXT_CUSTOM_LABELS] = "context=\"custom_labels\"",
        [CONTEXT_OBI] = "context=\"obi\"",
        [CONTEXT_OTEL_NODEJS] = "context=\"otel_nodejs\"",
    };
    struct samples_rig *rig = *state;
    for (unsigned source = 0; source < CONTEXT_SOURCES; source++) {
        struct record_parts parts = with_ids(source);
        int64_t before = stats_find("spanprof_intake_samples_total", labels[source]);
        assert_true(before >= 0);
        samples_rig_add(rig, &parts, 1);
        assert_int_equal(stats_find("spanprof_intake_samples_total", labels[source]), before + 1);
    }
}

static void expect_unattributed(struct samples_rig *rig, const struct record_parts *parts,
                                const char *reason)
{
    static const char *const reasons[] = {"reason=\"none_active\"", "reason=\"unreadable\"",
                                          "reason=\"not_attached\""};
    int64_t before[3];
    for (size_t i = 0; i < 3; i++)
        before[i] = stats_find("spanprof_samples_unattributed_total", reasons[i]);
    samples_rig_add(rig, parts, 1);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(stats_find("spanprof_samples_unattributed_total", reasons[i]) - before[i],
                         reason && strstr(reasons[i], reason));
}

static void test_unattributed(void **state)
{
    struct samples_rig *rig = *state;
    uint8_t go = CONTEXT_BIT(CONTEXT_GO_LABELS), otel = CONTEXT_BIT(CONTEXT_OTEL_THREAD);
    struct record_parts parts = samples_rig_record(RIG_PID), found = with_ids(CONTEXT_OTEL_THREAD);
    expect_unattributed(rig, &parts, NULL); /* it publishes nothing */
    tell_sources(rig, go, 0);
    expect_unattributed(rig, &parts, "not_attached");
    tell_sources(rig, otel | go, go);
    expect_unattributed(rig, &parts, "none_active");
    parts.head.flags |= RECORD_FLAG_CONTEXT_TORN;
    expect_unattributed(rig, &parts, "unreadable");
    expect_unattributed(rig, &found, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, samples_rig_setup, samples_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ids),
        TEST(test_attributes),
        TEST(test_attributes_invalid),
        TEST(test_attributes_too_many),
        TEST(test_flags),
        TEST(test_flags_by_source),
        TEST(test_changed),
        TEST(test_labels),
        TEST(test_labels_without_ids),
        TEST(test_precedence),
        TEST(test_configured_label),
        TEST(test_labels_invalid),
        TEST(test_labels_too_many),
        TEST(test_joins_by_span),
        TEST(test_joins_by_local_root),
        TEST(test_joins_by_trace),
        TEST(test_joins_by_both),
        TEST(test_counted_by_source),
        TEST(test_unattributed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
