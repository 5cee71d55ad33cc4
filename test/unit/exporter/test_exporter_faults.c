/* SPDX-License-Identifier: Apache-2.0 */
/* Backends that are away, slow, refusing or wrong. */
#include "base/clock.h"
#include "base/stats.h"
#include "test/support/rigs/exporter_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

/* ---- failures that pass ---- */

/* Each of these is tried again until it goes through, once each, and nothing is lost. */
static void test_tried_again(void **state)
{
    static const struct backend_answer answers[] = {
        {.status = GRPC_UNAVAILABLE},
        {.status = GRPC_CANCELLED},
        {.status = GRPC_DEADLINE_EXCEEDED},
        {.status = GRPC_ABORTED},
        {.status = GRPC_OUT_OF_RANGE},
        {.status = GRPC_DATA_LOSS},
        {.status = GRPC_RESOURCE_EXHAUSTED, .retry_delay_ns = NS_PER_MS},
        {.status = GRPC_RESOURCE_EXHAUSTED, .retry_delay_ns = NS_PER_MS, .bare_retry_info = true},
        {.manner = BACKEND_RESETS, .h2_error = H2_REFUSED_STREAM},
        {.manner = BACKEND_RESETS, .h2_error = H2_CANCEL},
        {.manner = BACKEND_RESETS, .h2_error = H2_ENHANCE_YOUR_CALM},
        {.manner = BACKEND_CUTS, .h2_error = H2_NO_ERROR},
        {.manner = BACKEND_CUTS, .h2_error = H2_CANCEL},
        {.manner = BACKEND_HTTP, .http_status = "503"},
        {.manner = BACKEND_HTTP, .http_status = "429"},
        {.manner = BACKEND_HTTP, .http_status = "302"},
        {.manner = BACKEND_HANGS_UP},
    };
    struct rig *rig = *state;
    int64_t refused = rig_dropped("refused");
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        char body[16];
        snprintf(body, sizeof(body), "spans %zu", i);
        backend_no_rules(&rig->backend);
        backend_rule(&rig->backend, NULL, 1, answers[i]);
        rig_put(rig, SIGNAL_TRACES, body);
        assert_true(rig_message_is(rig_await(rig, TRACES, 2 * i), body));
        assert_true(rig_message_is(rig_await(rig, TRACES, 2 * i + 1), body));
        rig_await_empty(rig);
    }
    assert_int_equal(rig_dropped("refused"), refused);
    rig_pause(rig, 50);
    assert_int_equal(rig->backend.n_requests, 2 * sizeof(answers) / sizeof(answers[0]));
}

/* That is for the operator to change; what waits, waits. */
static void test_compression_that_is_not_taken(void **state)
{
    struct rig *rig = *state;
    static uint8_t large[10000];
    int64_t refused = rig_dropped("refused");
    rig->config.otlp.compression = CONFIG_ZSTD;
    backend_rule(
        &rig->backend, NULL, 2,
        (struct backend_answer){.status = GRPC_UNIMPLEMENTED, .accept_encoding = "identity, gzip"});
    backend_rule(&rig->backend, NULL, 2,
                 (struct backend_answer){.status = GRPC_UNIMPLEMENTED,
                                         .message = "no decoder for \"zstd\""});
    rig_put_bytes(rig, SIGNAL_TRACES, BYTES(large, sizeof(large)));
    rig_await(rig, TRACES, 4);
    rig_await_empty(rig);
    assert_int_equal(rig_dropped("refused"), refused);
}

static void test_asked_delay_is_kept(void **state)
{
    struct rig *rig = *state;
    backend_rule(
        &rig->backend, NULL, 1,
        (struct backend_answer){.status = GRPC_UNAVAILABLE, .retry_delay_ns = 400 * NS_PER_MS});
    rig_put(rig, SIGNAL_TRACES, "spans");
    uint64_t first_ns = rig_await(rig, TRACES, 0)->time_ns;
    assert_true(rig_await(rig, TRACES, 1)->time_ns - first_ns >= 400 * NS_PER_MS);
}

static void test_no_answer_in_time(void **state)
{
    struct rig *rig = *state;
    rig->config.otlp.timeout_ns = 100 * NS_PER_MS;
    backend_rule(&rig->backend, NULL, 1, (struct backend_answer){.manner = BACKEND_SILENT});
    rig_put(rig, SIGNAL_TRACES, "spans");
    const struct backend_request *first = rig_await(rig, TRACES, 0);
    uint64_t first_ns = first->time_ns;
    assert_true(rig_await(rig, TRACES, 1)->time_ns - first_ns >= 90 * NS_PER_MS);
    assert_null(first->stream); /* it was told that nobody waits */
    assert_int_equal(rig->backend.n_connections, 1);
    rig_await_empty(rig);
}

/* timeout: 0. Neither the call nor its connection ends at once. */
static void test_no_timeout(void **state)
{
    struct rig *rig = *state;
    exporter_close(rig->exporter);
    rig->config.otlp.timeout_ns = 0;
    exporter_rig_start(rig);
    backend_rule(&rig->backend, NULL, 1, (struct backend_answer){.manner = BACKEND_SILENT});
    rig_put(rig, SIGNAL_TRACES, "spans");
    const struct backend_request *request = rig_await(rig, TRACES, 0);
    assert_null(strstr((const char *)request->headers.data, "grpc-timeout"));
    rig_pause(rig, 300);
    assert_non_null(request->stream);
    rig_put(rig, SIGNAL_PROFILES, "samples");
    rig_await(rig, PROFILES, 0);
    assert_null(backend_request(&rig->backend, TRACES, 1));
}

static int64_t silent_peers(void)
{
    return stats_find("spanprof_h2_limit_total", "limit=\"keepalive_timeout\"");
}

/* A backend that does not answer calls but PINGs is there; one that is stopped is given up long
 * before the timeout. */
static void test_keepalive(void **state)
{
    struct rig *rig = *state;
    int64_t before = silent_peers();
    exporter_close(rig->exporter);
    rig->config.otlp.keepalive = (struct config_keepalive){
        .enabled = true, .time_ns = 50 * NS_PER_MS, .timeout_ns = 100 * NS_PER_MS};
    exporter_rig_start(rig);
    backend_rule(&rig->backend, NULL, 2, (struct backend_answer){.manner = BACKEND_SILENT});
    rig_put(rig, SIGNAL_TRACES, "spans");
    rig_await(rig, TRACES, 0);
    rig_pause(rig, 500);
    assert_int_equal(rig->backend.n_connections, 1);
    assert_int_equal(silent_peers(), before);
    backend_deafen(&rig->backend);
    rig_await(rig, TRACES, 1); /* by a new connection */
    assert_int_equal(rig->backend.n_connections, 2);
    assert_int_equal(silent_peers(), before + 1);
}

/* While no call is under way only those are asked who are to be. */
static void test_keepalive_while_idle(void **state)
{
    struct rig *rig = *state;
    for (int asks = 0; asks < 2; asks++) {
        int64_t before = silent_peers();
        exporter_close(rig->exporter);
        rig->config.otlp.keepalive = (struct config_keepalive){.enabled = true,
                                                               .time_ns = 50 * NS_PER_MS,
                                                               .timeout_ns = 50 * NS_PER_MS,
                                                               .permit_without_stream = asks};
        exporter_rig_start(rig);
        rig_put(rig, SIGNAL_TRACES, "spans");
        rig_await(rig, TRACES, (size_t)asks);
        rig_await_empty(rig);
        rig_pause(rig, 300);
        assert_int_equal(silent_peers(), before);
        backend_deafen(&rig->backend);
        rig_pause(rig, 300);
        assert_int_equal(silent_peers(), before + asks);
    }
}

/* The next connection asks half as often. */
static void test_too_many_pings(void **state)
{
    struct rig *rig = *state;
    int64_t before = silent_peers();
    exporter_close(rig->exporter);
    rig->config.otlp.keepalive = (struct config_keepalive){.enabled = true,
                                                           .time_ns = 400 * NS_PER_MS,
                                                           .timeout_ns = 100 * NS_PER_MS,
                                                           .permit_without_stream = true};
    exporter_rig_start(rig);
    backend_rule(&rig->backend, NULL, 1, (struct backend_answer){.manner = BACKEND_CALMS});
    for (size_t i = 0; i < 2; i++) {
        rig_put(rig, SIGNAL_TRACES, "spans");
        rig_await(rig, TRACES, i);
        rig_await_empty(rig);
    }
    assert_int_equal(rig->backend.n_connections, 2);
    backend_deafen(&rig->backend);
    rig_pause(rig, 650); /* more than 400 + 100 */
    assert_int_equal(silent_peers(), before);
    rig_pause(rig, 600); /* more than 800 + 100 in all */
    assert_int_equal(silent_peers(), before + 1);
}

static void test_away(void **state)
{
    struct rig *rig = *state;
    backend_leave(&rig->backend);
    rig_put(rig, SIGNAL_TRACES, "spans");
    rig_put(rig, SIGNAL_PROFILES, "samples");
    rig_pause(rig, 300);
    assert_false(rig_is_empty(rig));
    backend_return(&rig->backend);
    assert_true(rig_message_is(rig_await(rig, TRACES, 0), "spans"));
    assert_true(rig_message_is(rig_await(rig, PROFILES, 0), "samples"));
    rig_await_empty(rig);
}

/* A backend that restarts as it should: what it has begun it answers, the rest meets a new
 * connection. */
static void test_goaway(void **state)
{
    struct rig *rig = *state;
    backend_rule(&rig->backend, NULL, 1, (struct backend_answer){.manner = BACKEND_GOES_AWAY});
    for (int i = 0; i < 5; i++) {
        rig_put(rig, SIGNAL_TRACES, "spans");
        rig_await(rig, TRACES, (size_t)i);
        rig_await_empty(rig);
    }
    assert_int_equal(rig->backend.n_connections, 2);
    assert_int_equal(rig->backend.n_requests, 5);
}

/* A signal that is not taken for now does not hold up the other. */
static void test_senders(void **state)
{
    struct rig *rig = *state;
    backend_rule(&rig->backend, PROFILES, 0, (struct backend_answer){.manner = BACKEND_SILENT});
    rig_put(rig, SIGNAL_PROFILES, "samples");
    for (int i = 0; i < 5; i++) {
        rig_put(rig, SIGNAL_TRACES, "spans");
        rig_await(rig, TRACES, (size_t)i);
    }
    assert_null(backend_request(&rig->backend, PROFILES, 1));
    assert_false(rig_is_empty(rig));
}

/* ---- failures for good ---- */

static void test_given_up(void **state)
{
    static const struct backend_answer answers[] = {
        {.status = GRPC_INVALID_ARGUMENT, .message = "broken%0Aline"},
        {.status = GRPC_RESOURCE_EXHAUSTED},
        {.status = GRPC_PERMISSION_DENIED},
        {.status = GRPC_INTERNAL},
        {.manner = BACKEND_HTTP, .http_status = "200"},
        {.manner = BACKEND_RESETS, .h2_error = H2_INTERNAL_ERROR},
        {.manner = BACKEND_RESETS, .h2_error = H2_PROTOCOL_ERROR},
    };
    struct rig *rig = *state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        int64_t before = rig_dropped("refused");
        backend_no_rules(&rig->backend);
        backend_rule(&rig->backend, NULL, 0, answers[i]);
        rig_put(rig, SIGNAL_TRACES, "spans");
        rig_await(rig, TRACES, i);
        rig_await_empty(rig);
        assert_int_equal(rig_dropped("refused"), before + 3);
    }
    rig_pause(rig, 100);
    assert_int_equal(rig->backend.n_requests, sizeof(answers) / sizeof(answers[0]));
}

/* Joined requests that are refused go out again in their parts: one bad part costs only itself. */
static void test_one_bad_part(void **state)
{
    struct rig *rig = *state;
    int64_t before = rig_dropped("refused");
    backend_leave(&rig->backend);
    rig_put(rig, SIGNAL_TRACES, "first");
    rig_pause(rig, 50);
    rig_put(rig, SIGNAL_TRACES, "bad");
    rig_put(rig, SIGNAL_TRACES, "last");
    backend_rule(&rig->backend, NULL, 1,
                 (struct backend_answer){0}); /* "first" alone was fetched before */
    backend_rule(&rig->backend, NULL, 2, (struct backend_answer){.status = GRPC_INVALID_ARGUMENT});
    backend_return(&rig->backend);
    rig_await_empty(rig);
    assert_true(rig_message_is(rig_await(rig, TRACES, 0), "first"));
    assert_true(rig_message_is(rig_await(rig, TRACES, 1), "badlast"));
    assert_true(rig_message_is(rig_await(rig, TRACES, 2), "bad"));
    assert_true(rig_message_is(rig_await(rig, TRACES, 3), "last"));
    assert_int_equal(rig_dropped("refused"), before + 3);
    rig_put(rig, SIGNAL_TRACES, "later");
    assert_true(rig_message_is(rig_await(rig, TRACES, 4), "later"));
}

static size_t times_asked(const struct rig *rig, const char *path)
{
    size_t n = 0;
    while (backend_request(&rig->backend, path, n))
        n++;
    return n;
}

/* They wait for 400 ms here; then the backend is asked each 100 ms, and not for each request. */
static void test_backend_without_profiles(void **state)
{
    struct rig *rig = *state;
    int64_t before = rig_dropped("no_profiles_service");
    backend_rule(&rig->backend, PROFILES, 0, (struct backend_answer){.status = GRPC_UNIMPLEMENTED});
    for (int i = 0; i < 4; i++) {
        rig_put(rig, SIGNAL_PROFILES, "samples");
        rig_put(rig, SIGNAL_TRACES, "spans");
        rig_await(rig, TRACES, (size_t)i);
    }
    rig_await(rig, PROFILES, 1);
    assert_int_equal(rig_dropped("no_profiles_service"), before);
    rig_await_empty(rig);
    uint64_t began_ns = clock_monotonic_ns();
    size_t asked = times_asked(rig, PROFILES);
    assert_int_equal(rig_dropped("no_profiles_service"), before + 4 * 3);
    assert_in_range(asked, 4, 30);
    for (int i = 0; i < 30; i++) {
        rig_put(rig, SIGNAL_PROFILES, "samples");
        rig_pause(rig, 10);
    }
    rig_await_empty(rig);
    uint64_t ms = (clock_monotonic_ns() - began_ns) / NS_PER_MS;
    assert_int_equal(rig_dropped("no_profiles_service"), before + 34 * 3);
    assert_in_range(times_asked(rig, PROFILES) - asked, 1, 2 + ms / 100);
}

/* A proxy says so for a moment, while what is behind it is replaced. */
static void test_backend_without_a_service_for_a_moment(void **state)
{
    static const struct {
        enum signal signal;
        const char *path, *reason;
    } services[] = {{SIGNAL_PROFILES, PROFILES, "no_profiles_service"},
                    {SIGNAL_TRACES, TRACES, "no_traces_service"}};
    struct rig *rig = *state;
    for (size_t s = 0; s < sizeof(services) / sizeof(services[0]); s++) {
        const char *path = services[s].path;
        int64_t before = rig_dropped(services[s].reason);
        backend_rule(&rig->backend, path, 2,
                     (struct backend_answer){.manner = BACKEND_HTTP, .http_status = "404"});
        backend_rule(&rig->backend, path, 1, (struct backend_answer){.status = GRPC_UNIMPLEMENTED});
        for (int i = 0; i < 4; i++)
            rig_put(rig, services[s].signal, "items");
        rig_await_empty(rig);
        assert_int_equal(rig_dropped(services[s].reason), before);
        assert_in_range(times_asked(rig, path), 1 + 3, 4 + 3); /* spans that wait are joined */
    }
}

/* After that was given up: what came since the backend was asked last is not lost, and the next
 * such answer is again the first. */
static void test_backend_gets_profiles(void **state)
{
    struct rig *rig = *state;
    int64_t before = rig_dropped("no_profiles_service");
    backend_rule(&rig->backend, PROFILES, 0, (struct backend_answer){.status = GRPC_UNIMPLEMENTED});
    rig_put(rig, SIGNAL_PROFILES, "never");
    rig_await_empty(rig);
    assert_int_equal(rig_dropped("no_profiles_service"), before + 3);
    rig_pause(rig, 20); /* it is seen that nothing else waits */
    backend_no_rules(&rig->backend);
    for (int i = 0; i < 5; i++)
        rig_put(rig, SIGNAL_PROFILES, "samples");
    rig_await_empty(rig);
    backend_rule(&rig->backend, PROFILES, 3, (struct backend_answer){.status = GRPC_UNIMPLEMENTED});
    rig_put(rig, SIGNAL_PROFILES, "samples");
    rig_await_empty(rig);
    assert_int_equal(rig_dropped("no_profiles_service"), before + 3);
}

/* Then each has its own answer. */
static void test_backend_without_profiles_without_retry(void **state)
{
    struct rig *rig = *state;
    int64_t before = rig_dropped("no_profiles_service");
    rig->config.otlp.retry.enabled = false;
    backend_rule(&rig->backend, PROFILES, 2, (struct backend_answer){.status = GRPC_UNIMPLEMENTED});
    for (int i = 0; i < 4; i++) {
        rig_put(rig, SIGNAL_PROFILES, "samples");
        rig_await_empty(rig);
    }
    assert_int_equal(rig_dropped("no_profiles_service"), before + 2 * 3);
    assert_int_equal(times_asked(rig, PROFILES), 4);
}

static void test_partial_success(void **state)
{
    static const uint8_t two_rejected[] = {0x0a, 0x07, 0x08, 0x02, 0x12, 0x03, 'b', 'a', 'd'};
    static const uint8_t more_than_there_were[] = {0x0a, 0x03, 0x08, 0xff, 0x7f};
    static const uint8_t malformed[] = {0x0a, 0x70, 0x08};
    static const struct {
        struct bytes response;
        int64_t rejected;
    } cases[] = {
        {{two_rejected, sizeof(two_rejected)}, 2},
        {{more_than_there_were, sizeof(more_than_there_were)}, 3},
        {{malformed, sizeof(malformed)}, 0},
    };
    struct rig *rig = *state;
    for (size_t i = 0; i < 3; i++) {
        int64_t before = rig_dropped("partial_success");
        backend_no_rules(&rig->backend);
        backend_rule(&rig->backend, NULL, 1,
                     (struct backend_answer){.response = cases[i].response});
        rig_put(rig, SIGNAL_TRACES, "spans");
        rig_await(rig, TRACES, i);
        rig_await_empty(rig);
        assert_int_equal(rig_dropped("partial_success"), before + cases[i].rejected);
    }
    assert_int_equal(rig->backend.n_requests, 3); /* never sent again */
}

static int64_t rejected_profiles(void)
{
    return stats_find("spanprof_exporter_rejected_profiles_total", "");
}

/* It counts profiles, whose samples nobody knows: they are not counted as samples. */
static void test_partial_success_of_profiles(void **state)
{
    static const uint8_t two_rejected[] = {0x0a, 0x02, 0x08, 0x02};
    struct rig *rig = *state;
    int64_t before = rig_dropped("partial_success"), profiles = rejected_profiles();
    int64_t samples = stats_find("spanprof_exporter_sent_items_total", "signal=\"profiles\"");
    backend_rule(&rig->backend, NULL, 1,
                 (struct backend_answer){.response = BYTES(two_rejected, sizeof(two_rejected))});
    rig_put(rig, SIGNAL_PROFILES, "samples");
    rig_await_empty(rig);
    assert_int_equal(rejected_profiles(), profiles + 2);
    assert_int_equal(rig_dropped("partial_success"), before);
    assert_int_equal(stats_find("spanprof_exporter_sent_items_total", "signal=\"profiles\""),
                     samples + 3);
}

static void test_retry_disabled(void **state)
{
    struct rig *rig = *state;
    int64_t before = rig_dropped("retry_disabled"), expired = rig_dropped("max_elapsed_time");
    rig->config.otlp.retry.enabled = false;
    backend_rule(&rig->backend, NULL, 1, (struct backend_answer){.status = GRPC_UNAVAILABLE});
    rig_put(rig, SIGNAL_TRACES, "spans");
    rig_await_empty(rig);
    assert_int_equal(rig_dropped("retry_disabled"), before + 3);
    assert_int_equal(rig_dropped("max_elapsed_time"), expired);
    assert_int_equal(rig->backend.n_requests, 1);
}

static void test_max_elapsed_time(void **state)
{
    struct rig *rig = *state;
    int64_t before = rig_dropped("max_elapsed_time");
    rig->config.otlp.retry.max_elapsed_time_ns = 150 * NS_PER_MS;
    backend_rule(&rig->backend, NULL, 0, (struct backend_answer){.status = GRPC_UNAVAILABLE});
    rig_put(rig, SIGNAL_TRACES, "spans");
    rig_await_empty(rig);
    assert_int_equal(rig_dropped("max_elapsed_time"), before + 3);
    assert_in_range(rig->backend.n_requests, 2, 8);
}

#define RIG_TEST(name)                                                                             \
    cmocka_unit_test_setup_teardown(name, exporter_rig_setup, exporter_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_tried_again),
        RIG_TEST(test_compression_that_is_not_taken),
        RIG_TEST(test_asked_delay_is_kept),
        RIG_TEST(test_no_answer_in_time),
        RIG_TEST(test_no_timeout),
        RIG_TEST(test_keepalive),
        RIG_TEST(test_keepalive_while_idle),
        RIG_TEST(test_too_many_pings),
        RIG_TEST(test_away),
        RIG_TEST(test_goaway),
        RIG_TEST(test_senders),
        RIG_TEST(test_given_up),
        RIG_TEST(test_one_bad_part),
        RIG_TEST(test_backend_without_profiles),
        RIG_TEST(test_backend_without_a_service_for_a_moment),
        RIG_TEST(test_backend_gets_profiles),
        RIG_TEST(test_backend_without_profiles_without_retry),
        RIG_TEST(test_partial_success),
        RIG_TEST(test_partial_success_of_profiles),
        RIG_TEST(test_retry_disabled),
        RIG_TEST(test_max_elapsed_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
