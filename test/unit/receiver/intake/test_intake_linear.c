/* SPDX-License-Identifier: Apache-2.0 */
/* No request costs more than its bytes: each case runs a request, and one of twice its size, whose
 * work may be little more than twice as much. Work is counted, not timed. */
#include "base/stats.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"
#include "receiver/intake/intake_profiles.h"
#include "receiver/intake/intake_spans.h"
#include "store/join/span_totals.h"
#include "store/window/coverage.h"
#include "test/support/faults/count_work.h"
#include "test/support/fixtures/store_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define NESTED_MAX   (64u << 20)
#define MAX_BODY     (4u << 20)
#define N_PROCESSES  40 /* that claim one span */
#define PROCESS_PIDS 100

struct rig {
    struct fixture fixture;
    struct coverage *coverage;
    struct intake_signal_settings settings;
};

static int set_up(void **state)
{
    static struct rig rig;
    rig = (struct rig){.settings = {.join = true, .destinations = 1, .max_body_bytes = MAX_BODY}};
    assert_int_equal(coverage_open(&rig.coverage), 0);
    rig.settings.coverage = rig.coverage;
    fixture_make(&rig.fixture);
    rig.fixture.settings.pending_profiles =
        (struct pending_profiles_settings){.enabled = true,
                                           .wait_ns = 10 * FIXTURE_SECOND,
                                           .max_bytes = 64 << 20,
                                           .max_recent_bytes = 1 << 20,
                                           .destinations = 1,
                                           .max_body_bytes = MAX_BODY};
    rig.fixture.settings.history.max_spans_per_second = 100000;
    fixture_open(&rig.fixture);
    *state = &rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    fixture_remove(&rig->fixture);
    coverage_close(rig->coverage);
    return 0;
}

/* ---- requests ---- */

static void put_attributes(struct buf *out, size_t size)
{
    size_t before = out->len;
    while (out->len - before < size)
        otlp_attribute_string(out, 1, "k", BYTES_LIT("v"));
}

static void put_span(struct buf *out, unsigned trace, unsigned id)
{
    struct wire_nest nest;
    uint8_t trace_id[16], span_id[8];
    fixture_trace_id(trace, trace_id);
    fixture_span_id(id, span_id);
    wire_begin(out, 2, NESTED_MAX, &nest);
    wire_put_bytes(out, 1, BYTES(trace_id, 16));
    wire_put_bytes(out, 2, BYTES(span_id, 8));
    wire_put_fixed64(out, 7, FIXTURE_T0);
    wire_put_fixed64(out, 8, FIXTURE_T0 + FIXTURE_SECOND);
    wire_end(out, &nest);
}

struct shape {
    size_t resource_bytes; /* about */
    unsigned parts;        /* of the Resource: protobuf merges them */
    unsigned n_resources;
    unsigned n_spans; /* of each */
    unsigned n_ids;   /* the spans take them in turns */
    uint64_t pid;     /* in the Resource; 0: none */
};

static void put_resource(struct buf *out, const struct shape *shape)
{
    for (unsigned part = 0; part < shape->parts; part++) {
        struct wire_nest nest;
        wire_begin(out, 1, NESTED_MAX, &nest);
        if (!part)
            otlp_attribute_string(out, 1, "service.name", BYTES_LIT("shop"));
        if (!part && shape->pid)
            otlp_attribute_int(out, 1, "process.pid", (int64_t)shape->pid);
        put_attributes(out, shape->resource_bytes / shape->parts);
        wire_end(out, &nest);
    }
}

static struct buf spans_request(const struct shape *shape)
{
    struct buf out = BUF_INIT(0);
    for (unsigned r = 0; r < shape->n_resources; r++) {
        struct wire_nest resource_spans, scope_spans;
        wire_begin(&out, 1, NESTED_MAX, &resource_spans);
        put_resource(&out, shape);
        wire_begin(&out, 2, NESTED_MAX, &scope_spans);
        for (unsigned i = 0; i < shape->n_spans; i++)
            put_span(&out, 1, 1 + i % shape->n_ids);
        wire_end(&out, &scope_spans);
        wire_end(&out, &resource_spans);
    }
    return out;
}

/* ---- work ---- */

static uint64_t work_of(struct rig *rig, enum signal signal, struct bytes body,
                        enum intake_outcome outcome)
{
    struct intake_request request = {
        .signal = signal, .max_inflated_bytes = NESTED_MAX, .outcome = INTAKE_BUSY};
    assert_int_equal(buf_append_bytes(&request.body, body), 0);
    fixture_begin(&rig->fixture);
    count_work_begin();
    int error = signal == SIGNAL_TRACES
                    ? intake_spans_run(&request, rig->fixture.store, &rig->settings)
                    : intake_profiles_run(&request, rig->fixture.store, &rig->settings);
    uint64_t work = count_work_end();
    assert_int_equal(error, 0);
    fixture_commit(&rig->fixture);
    assert_int_equal(request.outcome, outcome);
    buf_close(&request.body);
    return work;
}

/* The small request first warms up what is made once. */
static void assert_linear(struct rig *rig, enum signal signal, struct bytes once,
                          struct bytes twice, enum intake_outcome outcome)
{
    assert_in_range(twice.len, once.len / 10 * 19, once.len / 10 * 21);
    work_of(rig, signal, once, outcome);
    uint64_t small = work_of(rig, signal, once, outcome);
    uint64_t large = work_of(rig, signal, twice, outcome);
    print_message("%zu bytes %llu, %zu bytes %llu: %.1f a byte, times %.2f\n", once.len,
                  (unsigned long long)small, twice.len, (unsigned long long)large,
                  (double)small / (double)once.len, (double)large / (double)small);
    assert_true(large * 10 <= small * 23);
    assert_true(small <= 100 * once.len);
}

static void assert_spans_linear(struct rig *rig, struct shape shape, enum intake_outcome outcome)
{
    struct buf once _cleanup_buf_ = spans_request(&shape);
    if (shape.n_resources > 1)
        shape.n_resources *= 2;
    else
        shape.n_spans *= 2;
    shape.resource_bytes *= shape.n_resources > 1 ? 1 : 2;
    struct buf twice _cleanup_buf_ = spans_request(&shape);
    assert_linear(rig, SIGNAL_TRACES, buf_bytes(&once), buf_bytes(&twice), outcome);
}

static void add_sample(struct rig *rig, uint32_t pid, unsigned id, struct bytes resource)
{
    struct fixture *fixture = &rig->fixture;
    int64_t process = fixture_process(fixture, pid, resource);
    struct sample sample =
        fixture_sample(FIXTURE_T0 + FIXTURE_TICK, (struct fixture_ids){.trace = 1, .span = id},
                       fixture_stack(fixture, 0), process);
    fixture_add(fixture, &sample);
}

/* ---- spans ---- */

static void test_one_large_resource(void **state)
{
    struct rig *rig = *state;
    assert_spans_linear(rig, (struct shape){60000, 1, 1, 5000, 5000, 0}, INTAKE_ACCEPTED);
    assert_spans_linear(rig, (struct shape){1 << 20, 1, 1, 20000, 20000, 0}, INTAKE_ACCEPTED);
}

static void test_joined_with_a_large_resource(void **state)
{
    struct rig *rig = *state;
    for (unsigned id = 1; id <= 64; id++)
        add_sample(rig, PROCESS_PIDS, id, BYTES(NULL, 0));
    assert_spans_linear(rig, (struct shape){3500, 1, 1, 1000, 64, PROCESS_PIDS}, INTAKE_ACCEPTED);
    assert_spans_linear(rig, (struct shape){30000, 1, 1, 2000, 64, PROCESS_PIDS}, INTAKE_ACCEPTED);
}

static void test_many_resources(void **state)
{
    struct rig *rig = *state;
    assert_spans_linear(rig, (struct shape){0, 1, 1000, 1, 1, 0}, INTAKE_ACCEPTED);
    assert_spans_linear(rig, (struct shape){300, 3, 1000, 2, 2, 7}, INTAKE_ACCEPTED);
}

/* The last Resource that was merged from parts was read after it was freed. */
static void test_merged_resources(void **state)
{
    struct rig *rig = *state;
    for (size_t size = 100; size <= 100000; size *= 10) {
        struct shape shape = {size, 2, 2, 1, 1, 7};
        struct buf body _cleanup_buf_ = spans_request(&shape);
        work_of(rig, SIGNAL_TRACES, buf_bytes(&body), INTAKE_ACCEPTED);
    }
}

/* Refused before its spans are looked at: no body has room for the Resource beside a span. */
static void test_refused_before_it_is_visited(void **state)
{
    struct rig *rig = *state;
    struct shape shape = {5 << 20, 1, 1, 50000, 50000, 0};
    struct buf body _cleanup_buf_ = spans_request(&shape);
    uint64_t work = work_of(rig, SIGNAL_TRACES, buf_bytes(&body), INTAKE_TOO_BIG);
    assert_true(work < body.len / 4);
}

/* ---- processes of one span ---- */

/* Processes that all publish a large Resource, and have samples of the same spans. */
static void add_claims(struct rig *rig, unsigned n_ids)
{
    struct buf resource _cleanup_buf_ = BUF_INIT(0);
    put_attributes(&resource, 15000);
    otlp_attribute_string(&resource, 1, "service.name", BYTES_LIT("shop"));
    for (unsigned i = 0; i < N_PROCESSES; i++)
        for (unsigned id = 1; id <= n_ids; id++)
            add_sample(rig, PROCESS_PIDS + i, id, buf_bytes(&resource));
}

static void test_many_processes_of_a_span(void **state)
{
    struct rig *rig = *state;
    static const char crowded[] = "result=\"too_many_processes\"";
    int64_t before = stats_find("spanprof_join_samples_total", crowded);
    add_claims(rig, 2);
    assert_int_equal(stats_find("spanprof_join_samples_total", crowded) - before,
                     2 * (N_PROCESSES - SPAN_TOTAL_PROCESSES_MAX));
    assert_spans_linear(rig, (struct shape){0, 1, 1, 40000, 1, 0}, INTAKE_ACCEPTED);
    assert_spans_linear(rig, (struct shape){0, 1, 1, 40000, 2, 0}, INTAKE_ACCEPTED);
}

/* ---- profiles ---- */

/* n samples with a Link each; the Resource has attributes of about resource_bytes. */
static struct buf profiles_request(unsigned n, size_t resource_bytes, size_t text_bytes)
{
    struct wire_nest resource, attributes, scope, profile, sample, dictionary, nest;
    struct buf out = BUF_INIT(0), *to = &out;
    uint8_t trace_id[16], span_id[8];
    char *text = calloc(1, text_bytes + 1);
    assert_non_null(text);
    memset(text, 'x', text_bytes);
    wire_begin(to, 1, NESTED_MAX, &resource);
    wire_begin(to, 1, NESTED_MAX, &attributes);
    put_attributes(to, resource_bytes);
    wire_end(to, &attributes);
    wire_begin(to, 2, NESTED_MAX, &scope);
    wire_begin(to, 2, NESTED_MAX, &profile);
    for (unsigned i = 1; i <= n; i++) {
        wire_begin(to, 2, NESTED_MAX, &sample);
        wire_put_varint(to, 3, i);
        for (unsigned k = 0; k < 8; k++) /* all are the one attribute with the long text */
            wire_put_varint(to, 2, 1);
        wire_end(to, &sample);
    }
    wire_end(to, &profile);
    wire_end(to, &scope);
    wire_end(to, &resource);
    wire_begin(to, 2, NESTED_MAX, &dictionary);
    wire_put_bytes(to, 4, BYTES(NULL, 0));
    for (unsigned i = 1; i <= n; i++) {
        fixture_trace_id(1, trace_id);
        fixture_span_id(i, span_id);
        wire_begin(to, 4, 64, &nest);
        wire_put_bytes(to, 1, BYTES(trace_id, 16));
        wire_put_bytes(to, 2, BYTES(span_id, 8));
        wire_end(to, &nest);
    }
    wire_put_bytes(to, 5, BYTES(NULL, 0));
    wire_put_bytes(to, 5, BYTES(text, text_bytes));
    wire_put_bytes(to, 6, BYTES(NULL, 0));
    wire_begin(to, 6, NESTED_MAX, &nest);
    wire_put_varint(to, 1, 1);
    wire_end(to, &nest);
    wire_end(to, &dictionary);
    free(text);
    return out;
}

static void test_profiles(void **state)
{
    struct rig *rig = *state;
    struct buf once _cleanup_buf_ = profiles_request(1000, 50000, 100);
    struct buf twice _cleanup_buf_ = profiles_request(2000, 100000, 100);
    assert_linear(rig, SIGNAL_PROFILES, buf_bytes(&once), buf_bytes(&twice), INTAKE_ACCEPTED);
}

static void test_profiles_with_a_long_text(void **state)
{
    struct rig *rig = *state;
    struct buf once _cleanup_buf_ = profiles_request(1000, 0, 100000);
    struct buf twice _cleanup_buf_ = profiles_request(2000, 0, 200000);
    assert_linear(rig, SIGNAL_PROFILES, buf_bytes(&once), buf_bytes(&twice), INTAKE_ACCEPTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_large_resource, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_joined_with_a_large_resource, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_resources, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_merged_resources, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused_before_it_is_visited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_processes_of_a_span, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_profiles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_profiles_with_a_long_text, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
