/* SPDX-License-Identifier: Apache-2.0 */
#include "store/window/span_cpu.h"
#include "base/stats.h"
#include "proto/otlp/otlp_spans.h"
#include "store/join/join.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static struct span_cpu *cpu;

static int setup(void **state)
{
    (void)state;
    return span_cpu_open(&cpu);
}

static int teardown(void **state)
{
    (void)state;
    span_cpu_close(cpu);
    return 0;
}

static void add(const char *service, const char *name, uint64_t value_ns, uint8_t trace)
{
    _cleanup_buf_ struct buf resource = BUF_INIT(0);
    struct sample sample = {
        .kind = SAMPLE_CPU, .value_ns = value_ns, .time_unix_ns = UINT64_C(1795284000250000000)};
    struct join_span_facts span = {.name = BYTES_STR(name)};
    memset(span.trace_id, trace, 16);
    memset(span.span_id, 0x22, 8);
    if (service)
        assert_int_equal(otlp_attribute_string(&resource, 1, "service.name", BYTES_STR(service)),
                         0);
    span.resource = buf_bytes(&resource);
    span_cpu_add(cpu, &sample, &span);
    sample.kind = SAMPLE_OFF_CPU;
    span_cpu_add(cpu, &sample, &span);
    span_cpu_add(cpu, &sample, NULL);
}

#define HEAD                                                                                       \
    "# TYPE spanprof_span_cpu_seconds counter\n# UNIT spanprof_span_cpu_seconds seconds\n"         \
    "# HELP spanprof_span_cpu_seconds CPU time within spans, by their service and name.\n"
#define TRACE(digit)                                                                               \
    "# {trace_id=\"" digit digit digit digit digit digit digit digit digit digit digit digit digit \
        digit digit digit digit digit digit digit digit digit digit digit digit digit digit digit  \
            digit digit digit digit "\",span_id=\"2222222222222222\"} "

static void assert_page(const char *wanted)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    assert_int_equal(span_cpu_openmetrics(cpu, &out), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_string_equal((const char *)out.data, wanted);
}

static void test_sums_by_service_and_name(void **state)
{
    (void)state;
    assert_page(HEAD "# EOF\n");
    add("shop", "GET /buy", 10000000, 0x11);
    add("bank", "pay", 5, 0x33);
    add("shop", "GET /buy", 20000000, 0x44);
    add(NULL, "pay", 1000000000, 0x55);
    assert_page(
        HEAD
        "spanprof_span_cpu_seconds_total{service_name=\"\",span_name=\"pay\"} 1.000000000 " TRACE(
            "5") "1.000000000 1795284000.250\n"
                 "spanprof_span_cpu_seconds_total{service_name=\"bank\",span_name=\"pay\"} "
                 "0.000000005 " TRACE("3") "0.000000005 1795284000.250\n"
                                           "spanprof_span_cpu_seconds_total{service_name=\"shop\","
                                           "span_name=\"GET /buy\"} "
                                           "0.030000000 " TRACE("4") "0.020000000 1795284000.250\n"
                                                                     "# EOF\n");
}

static void test_hostile_names(void **state)
{
    (void)state;
    add("a\"b\\c\nd", "\xff} 1\n", 1000000000, 0x11);
    assert_page(
        HEAD "spanprof_span_cpu_seconds_total{service_name=\"a\\\"b\\\\c?d\","
             "span_name=\"?} 1?\"} 1.000000000 " TRACE("1") "1.000000000 1795284000.250\n# EOF\n");
}

static void test_too_many_are_one(void **state)
{
    char name[32], line[32];
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    (void)state;
    int64_t before = stats_find("spanprof_span_cpu_samples_unnamed_total", "");
    for (int i = 0; i < SPAN_CPU_SERIES_MAX + 50; i++) {
        snprintf(name, sizeof(name), "span %d", i);
        add("shop", name, 100000000, 0x11);
    }
    add("shop", "span 7", 100000000, 0x11); /* known ones go on */
    assert_int_equal(stats_find("spanprof_span_cpu_samples_unnamed_total", "") - before, 50);
    assert_int_equal(span_cpu_openmetrics(cpu, &out), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    const char *text = (const char *)out.data;
    snprintf(line, sizeof(line), "\"span 7\"} 0.2000");
    assert_non_null(strstr(text, line));
    assert_non_null(strstr(text, "service_name=\"\",span_name=\"\"} 5.0000"));
    assert_null(strstr(text, "\"span 1000\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sums_by_service_and_name, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_many_are_one, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
