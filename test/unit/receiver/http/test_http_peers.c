/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server: connections, their time and their end. */
#include "base/clock.h"
#include "base/stats.h"
#include "test/support/net/h2_end.h"
#include "test/support/net/http_rig.h"
#include "test/support/net/otlp_client.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static void test_peer_goes(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk;
    int64_t before = stats_find("spanprof_http_server_requests_cut_total", "");
    /* in the middle of its body */
    talk_open(&talk, rig);
    talk_say(&talk, "POST", "/v1/traces", PROTOBUF "Content-Length: 1000\r\n", BYTES_LIT("hello"));
    http_rig_pause(rig, &talk, 30);
    assert_int_equal(rig->budget.used_bytes, 5);
    talk_close(&talk);
    http_rig_pause(rig, NULL, 30);
    assert_int_equal(rig->budget.used_bytes, 0);
    assert_int_equal(stats_find("spanprof_http_server_requests_cut_total", ""), before + 1);
    /* while it is at the intake */
    rig->intake.hold = true;
    talk_open(&talk, rig);
    talk_say_traces(&talk, "", BYTES_LIT("hello"));
    http_rig_pause(rig, &talk, 30);
    assert_int_equal(rig->intake.n_waiting, 1);
    talk_close(&talk);
    http_rig_pause(rig, NULL, 30);
    fake_intake_release(&rig->intake);
    http_rig_pause(rig, NULL, 30);
    assert_int_equal(rig->intake.n_waiting, 0);
    assert_int_equal(stats_find("spanprof_http_server_connections", ""), 0);
}

/* A connection that sleeps is answered 503 when the server closes; its done() comes later. */
static void test_server_goes_while_at_the_intake(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk;
    rig->intake.hold = true;
    talk_open(&talk, rig);
    talk_say_traces(&talk, "", BYTES_LIT("hello"));
    http_rig_pause(rig, &talk, 30);
    assert_int_equal(rig->intake.n_waiting, 1);
    http_server_close(rig->server);
    rig->server = NULL;
    assert_int_equal(talk_hear(&talk), 503);
    fake_intake_release(&rig->intake);
    http_rig_pause(rig, NULL, 20);
    assert_int_equal(rig->intake.n_waiting, 0);
    talk_close(&talk);
}

/* An idle connection gives way to a new one. */
static void test_idle_connections_give_way(void **state)
{
    struct http_rig *rig = *state;
    struct talk talks[CONNECTIONS_MAX + 1];
    int64_t before = stats_find("spanprof_http_server_connections_crowded_out_total", "");
    for (size_t i = 0; i <= CONNECTIONS_MAX; i++) {
        talk_open(&talks[i], rig);
        http_rig_pause(rig, &talks[i], 20);
    }
    assert_true(h2_run_loop(rig->loop, talk_closed, &talks[0], 5000));
    assert_int_equal(stats_find("spanprof_http_server_connections", ""), CONNECTIONS_MAX);
    assert_int_equal(stats_find("spanprof_http_server_connections_crowded_out_total", ""),
                     before + 1);
    talk_say_traces(&talks[CONNECTIONS_MAX], "", BYTES_LIT("x"));
    assert_int_equal(talk_hear(&talks[CONNECTIONS_MAX]), 200);
    for (size_t i = 0; i <= CONNECTIONS_MAX; i++)
        talk_close(&talks[i]);
}

/* One with a request does not. */
static void test_connection_limit(void **state)
{
    static const char labels[] = "reason=\"max_connections\"";
    struct http_rig *rig = *state;
    struct talk talks[CONNECTIONS_MAX + 1];
    int64_t before = stats_find("spanprof_http_server_connections_refused_total", labels);
    rig->intake.hold = true;
    for (size_t i = 0; i <= CONNECTIONS_MAX; i++) {
        talk_open(&talks[i], rig);
        if (i < CONNECTIONS_MAX)
            talk_say_traces(&talks[i], "", BYTES_LIT("x"));
        http_rig_pause(rig, &talks[i], 20);
    }
    assert_true(h2_run_loop(rig->loop, talk_closed, &talks[CONNECTIONS_MAX], 5000));
    assert_int_equal(stats_find("spanprof_http_server_connections", ""), CONNECTIONS_MAX);
    assert_int_equal(stats_find("spanprof_http_server_connections_refused_total", labels),
                     before + 1);
    fake_intake_release(&rig->intake);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        assert_int_equal(talk_hear(&talks[i]), 200);
    for (size_t i = 0; i <= CONNECTIONS_MAX; i++)
        talk_close(&talks[i]);
    http_rig_pause(rig, NULL, 20);
    assert_int_equal(stats_find("spanprof_http_server_connections", ""), 0);
}

/* One byte now and then keeps no connection: the time of a head is limited as a whole. */
static void test_slow_head(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk;
    int64_t before = stats_find("spanprof_http_server_timeouts_total", "phase=\"head\"");
    http_server_close(rig->server);
    assert_int_equal(http_rig_start(rig, 300 * NS_PER_MS), 0);
    uint64_t start_ns = clock_monotonic_ns();
    talk_open(&talk, rig);
    for (const char *byte = "POST /v1/traces HTTP/1.1\r\nHost: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
         *byte && !talk.closed; byte++) {
        assert_int_equal(buf_append(&talk.out, byte, 1), 0);
        http_rig_pause(rig, &talk, 20);
    }
    assert_true(talk.closed);
    assert_in_range(clock_monotonic_ns() - start_ns, 290 * NS_PER_MS, 10 * NS_PER_SEC);
    assert_int_equal(stats_find("spanprof_http_server_timeouts_total", "phase=\"head\""),
                     before + 1);
    http_rig_pause(rig, NULL, 20);
    assert_int_equal(stats_find("spanprof_http_server_connections", ""), 0);
    talk_close(&talk);
}

static void on_stopped(void *context)
{
    ((struct http_rig *)context)->stopped = true;
}

static bool is_stopped(void *context)
{
    return ((struct http_rig *)context)->stopped;
}

static void test_drain(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk;
    rig->intake.hold = true;
    talk_open(&talk, rig);
    talk_say_traces(&talk, "", BYTES_LIT("x"));
    http_rig_pause(rig, &talk, 30);
    http_server_drain(rig->server, on_stopped, rig);
    http_rig_pause(rig, &talk, 30);
    assert_false(rig->stopped);
    assert_int_equal(otlp_client_connect(rig->port, false), -ECONNREFUSED);
    fake_intake_release(&rig->intake);
    assert_int_equal(talk_hear(&talk), 200);
    assert_true(talk_has(&talk, "Connection: close"));
    assert_true(h2_run_loop(rig->loop, is_stopped, rig, 5000));
    talk_close(&talk);
}

/* One more request on a connection that was kept open, as the server finds itself idle. */
static void test_request_while_draining(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk;
    talk_open(&talk, rig);
    talk_say_traces(&talk, "", BYTES_LIT("x"));
    assert_int_equal(talk_hear(&talk), 200);
    talk_forget(&talk);
    rig->intake.hold = true;
    talk_say_traces(&talk, "", BYTES_LIT("y"));
    talk_send(&talk);
    http_server_drain(rig->server, on_stopped, rig);
    http_rig_pause(rig, &talk, 30);
    assert_int_equal(rig->intake.n_waiting, 1);
    assert_false(rig->stopped);
    fake_intake_release(&rig->intake);
    assert_int_equal(talk_hear(&talk), 200);
    assert_true(talk_has(&talk, "Connection: close"));
    assert_true(h2_run_loop(rig->loop, is_stopped, rig, 5000));
    talk_close(&talk);
}

/* And one that lies in the socket as the server is closed: it is told to come again, and is not
 * taken. */
static void test_request_at_close(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk;
    talk_open(&talk, rig);
    talk_say_traces(&talk, "", BYTES_LIT("x"));
    assert_int_equal(talk_hear(&talk), 200);
    talk_forget(&talk);
    rig->intake.hold = true;
    talk_say_traces(&talk, "", BYTES_LIT("y"));
    talk_send(&talk);
    http_server_close(rig->server);
    rig->server = NULL;
    assert_int_equal(talk_hear(&talk), 503);
    assert_true(talk_has(&talk, "Retry-After: 1"));
    assert_int_equal(rig->intake.n_requests, 1);
    talk_close(&talk);
}

static void test_drain_when_idle(void **state)
{
    struct http_rig *rig = *state;
    http_server_drain(rig->server, on_stopped, rig);
    assert_false(rig->stopped);
    assert_true(h2_run_loop(rig->loop, is_stopped, rig, 5000));
}

/* Idle, with a connection open, the loop does not turn. */
static void test_idle_costs_nothing(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk;
    talk_open(&talk, rig);
    talk_say_traces(&talk, "", BYTES_LIT("x"));
    assert_int_equal(talk_hear(&talk), 200);
    http_rig_pause(rig, &talk, 50);
    unsigned rounds = 0;
    uint64_t end_ns = clock_monotonic_ns() + 500 * NS_PER_MS;
    while (clock_monotonic_ns() < end_ns) {
        assert_int_equal(loop_once(rig->loop, 100), 0);
        rounds++;
    }
    assert_in_range(rounds, 1, 10);
    talk_close(&talk);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, http_rig_setup, http_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_peer_goes),
        RIG_TEST(test_server_goes_while_at_the_intake),
        RIG_TEST(test_idle_connections_give_way),
        RIG_TEST(test_connection_limit),
        RIG_TEST(test_slow_head),
        RIG_TEST(test_drain),
        RIG_TEST(test_drain_when_idle),
        RIG_TEST(test_request_while_draining),
        RIG_TEST(test_request_at_close),
        RIG_TEST(test_idle_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
