/* SPDX-License-Identifier: Apache-2.0 */
#include "config/yaml/value.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

static void durations_of_gos_form(void **state)
{
    static const struct {
        const char *text;
        int error;
        uint64_t ns;
    } cases[] = {
        {"5s", 0, 5 * SECOND},
        {"1h2m3s4ms", 0, 3723 * SECOND + 4000000},
        {"1.5h", 0, 5400 * SECOND},
        {".5s", 0, SECOND / 2},
        {"1.s", 0, SECOND},
        {"0.000000001s", 0, 1},
        {"1.0000000019s", 0, SECOND + 1}, /* below a nanosecond: cut */
        {"100us", 0, 100000},
        {"100µs", 0, 100000},
        {"7ns", 0, 7},
        {"+3s", 0, 3 * SECOND},
        {"0", 0, 0},
        {"0s", 0, 0},
        {"5000000000", 0, 5 * SECOND}, /* a bare number: nanoseconds */
        {"2562047h", 0, SECOND * 3600 * 2562047},
        {"", -EINVAL, 0},
        {"+", -EINVAL, 0},
        {"s", -EINVAL, 0},
        {".s", -EINVAL, 0},
        {"5", 0, 5},
        {"-5s", -EINVAL, 0},
        {"5 s", -EINVAL, 0},
        {"5s ", -EINVAL, 0},
        {"5sec", -EINVAL, 0},
        {"5d", -EINVAL, 0},
        {"1h30", -EINVAL, 0},
        {"1..5s", -EINVAL, 0},
        {"0x10s", -EINVAL, 0},
        {"1e3s", -EINVAL, 0},
        {"2562048h", -ERANGE, 0},
        {"99999999999999999999s", -ERANGE, 0},
        {"9223372036854775808", -ERANGE, 0},
        {"18446744073709551616", -ERANGE, 0},
        {"9223372036s9223372036s", -ERANGE, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t ns = 0;
        int error = value_parse_duration(cases[i].text, &ns);
        if (error != cases[i].error || (!error && ns != cases[i].ns))
            fail_msg("%s: %d, %llu", cases[i].text, error, (unsigned long long)ns);
    }
}

static void durations_are_printed_as_they_are_read(void **state)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {100000000, "100ms"},
        {60 * SECOND, "1m"},
        {5400 * SECOND, "1h30m"},
        {1, "1ns"},
        {3723 * SECOND + 4005006, "1h2m3s4ms5us6ns"},
        {INT64_MAX, "2562047h47m16s854ms775us807ns"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[VALUE_DURATION_MAX];
        uint64_t ns;
        value_format_duration(cases[i].ns, text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(value_parse_duration(text, &ns), 0);
        assert_true(ns == cases[i].ns);
    }
    char longest[VALUE_DURATION_MAX];
    value_format_duration(UINT64_MAX, longest);
    assert_true(strlen(longest) < VALUE_DURATION_MAX - 1);
}

static void scalars_have_one_type(void **state)
{
    static const struct {
        const char *text;
        enum value_type type;
    } cases[] = {
        {"true", VALUE_BOOL},
        {"False", VALUE_BOOL},
        {"yes", VALUE_TEXT},
        {"on", VALUE_TEXT},
        {"tRUE", VALUE_TEXT},
        {"1", VALUE_INT},
        {"-1", VALUE_INT},
        {"+1", VALUE_INT},
        {"007", VALUE_INT},
        {"0x1F", VALUE_INT},
        {"0o17", VALUE_INT},
        {"0x", VALUE_TEXT},
        {"0xg", VALUE_TEXT},
        {"0o8", VALUE_TEXT},
        {"1_000", VALUE_TEXT},
        {"1.5", VALUE_FLOAT},
        {"1e3", VALUE_FLOAT},
        {"-.5", VALUE_FLOAT},
        {".inf", VALUE_FLOAT},
        {"-.inf", VALUE_FLOAT},
        {".nan", VALUE_FLOAT},
        {"inf", VALUE_TEXT},
        {"nan", VALUE_TEXT},
        {"0x1p3", VALUE_TEXT},
        {"localhost", VALUE_TEXT},
        {"5s", VALUE_TEXT},
        {"1.2.3", VALUE_TEXT},
        {"-", VALUE_TEXT},
        {"99999999999999999999", VALUE_INT},
        {"e", VALUE_TEXT},
        {".", VALUE_TEXT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (value_type(cases[i].text) != cases[i].type)
            fail_msg("%s: %d", cases[i].text, value_type(cases[i].text));
    assert_true(value_is_null(""));
    assert_true(value_is_null("~"));
    assert_true(value_is_null("Null"));
    assert_false(value_is_null("nil"));
}

static void counts_and_ratios(void **state)
{
    uint64_t count;
    double ratio;
    (void)state;
    assert_int_equal(value_parse_count("18446744073709551615", &count), 0);
    assert_true(count == UINT64_MAX);
    assert_int_equal(value_parse_count("18446744073709551616", &count), -ERANGE);
    assert_int_equal(value_parse_count("0x1f", &count), 0);
    assert_int_equal(count, 31);
    assert_int_equal(value_parse_count("0o17", &count), 0);
    assert_int_equal(count, 15);
    assert_int_equal(value_parse_count("-1", &count), -EINVAL);
    assert_int_equal(value_parse_count("", &count), -EINVAL);
    assert_int_equal(value_parse_count("1 ", &count), -EINVAL);
    assert_int_equal(value_parse_ratio("1.5", &ratio), 0);
    assert_true(ratio == 1.5);
    assert_int_equal(value_parse_ratio("1e999", &ratio), -EINVAL);
    assert_int_equal(value_parse_ratio("inf", &ratio), -EINVAL);
    assert_int_equal(value_parse_ratio("1.5x", &ratio), -EINVAL);
    assert_int_equal(value_parse_ratio("", &ratio), -EINVAL);
}

static void endpoints(void **state)
{
    static const struct {
        const char *text;
        bool allow_scheme;
        const char *host; /* NULL: refused */
        uint16_t port;
        enum config_scheme scheme;
        const char *printed;
    } cases[] = {
        {"localhost:4317", false, "localhost", 4317, CONFIG_SCHEME_NONE, "localhost:4317"},
        {"127.0.0.1:0", false, "127.0.0.1", 0, CONFIG_SCHEME_NONE, "127.0.0.1:0"},
        {"[::1]:4317", false, "::1", 4317, CONFIG_SCHEME_NONE, "[::1]:4317"},
        {"[2001:db8::1]:65535", true, "2001:db8::1", 65535, CONFIG_SCHEME_NONE,
         "[2001:db8::1]:65535"},
        {"http://a.b-c_d:80", true, "a.b-c_d", 80, CONFIG_SCHEME_HTTP, "a.b-c_d:80"},
        {"http://a:80/", true, "a", 80, CONFIG_SCHEME_HTTP, "a:80"},
        {"https://a:80", true, "a", 80, CONFIG_SCHEME_HTTPS, "a:80"},
        {"dns:///a:80", true, "a", 80, CONFIG_SCHEME_NONE, "a:80"},
        {"", false, NULL, 0, 0, NULL},
        {"localhost", false, NULL, 0, 0, NULL},
        {"localhost:", false, NULL, 0, 0, NULL},
        {":4317", false, NULL, 0, 0, NULL},
        {"localhost:65536", false, NULL, 0, 0, NULL},
        {"localhost:-1", false, NULL, 0, 0, NULL},
        {"localhost:4317x", false, NULL, 0, 0, NULL},
        {"localhost:000080", false, NULL, 0, 0, NULL},
        {"::1:4317", false, NULL, 0, 0, NULL},
        {"[::1]", false, NULL, 0, 0, NULL},
        {"[::1:4317", false, NULL, 0, 0, NULL},
        {"[::g]:1", false, NULL, 0, 0, NULL},
        {"[1.2.3.4]:1", false, NULL, 0, 0, NULL},
        {"[]:1", false, NULL, 0, 0, NULL},
        {"a b:1", false, NULL, 0, 0, NULL},
        {"http://a:80", false, NULL, 0, 0, NULL},
        {"a:80/", true, NULL, 0, 0, NULL},
        {"http://a:80/v1/traces", true, NULL, 0, 0, NULL},
        {"ftp://a:80", true, NULL, 0, 0, NULL},
        {"unix:///run/x", true, "/run/x", 0, CONFIG_SCHEME_NONE, "unix:///run/x"},
        {"unix:/run/x", true, "/run/x", 0, CONFIG_SCHEME_NONE, "unix:///run/x"},
        {"unix:x", true, NULL, 0, 0, NULL},
        {"unix://", true, NULL, 0, 0, NULL},
        {"unix-abstract:x", true, NULL, 0, 0, NULL},
        {"unix:///run/x", false, NULL, 0, 0, NULL},
        {"dns://8.8.8.8/a:80", true, NULL, 0, 0, NULL},
        {"https://", true, NULL, 0, 0, NULL},
        {"u:p@a:80", true, NULL, 0, 0, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config_endpoint endpoint = {.port = 1};
        const char *problem = value_parse_endpoint(cases[i].text, cases[i].allow_scheme, &endpoint);
        if (!problem != (cases[i].host != NULL))
            fail_msg("\"%s\": %s", cases[i].text, problem ? problem : "taken");
        if (problem) {
            assert_false(endpoint.set); /* left alone */
            continue;
        }
        char printed[VALUE_ENDPOINT_MAX];
        value_format_endpoint(&endpoint, printed);
        assert_true(endpoint.set);
        assert_string_equal(endpoint.host, cases[i].host);
        assert_int_equal(endpoint.port, cases[i].port);
        assert_int_equal(endpoint.scheme, cases[i].scheme);
        assert_int_equal(endpoint.transport == CONFIG_UNIX, *cases[i].host == '/');
        assert_string_equal(printed, cases[i].printed);
    }
}

static void hosts_end_at_255_bytes(void **state)
{
    char text[400];
    struct config_endpoint endpoint;
    (void)state;
    memset(text, 'a', sizeof(text));
    memcpy(text + 255, ":1", 3);
    assert_null(value_parse_endpoint(text, false, &endpoint));
    assert_int_equal(strlen(endpoint.host), 255);
    memcpy(text + 255, "a:1", 4);
    assert_non_null(value_parse_endpoint(text, false, &endpoint));
    char longer[600];
    memset(longer, 'a', sizeof(longer));
    longer[sizeof(longer) - 1] = 0;
    assert_non_null(value_parse_endpoint(longer, false, &endpoint));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_of_gos_form),
        cmocka_unit_test(durations_are_printed_as_they_are_read),
        cmocka_unit_test(scalars_have_one_type),
        cmocka_unit_test(counts_and_ratios),
        cmocka_unit_test(endpoints),
        cmocka_unit_test(hosts_end_at_255_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
