/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/grpc/health_watch.h"
#include "base/clock.h"
#include "base/stats.h"
#include "receiver/grpc/grpc_server.h"
#include "test/support/net/fake_intake.h"
#include "test/support/net/otlp_client.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

struct rig {
    struct loop *loop;
    struct intake intake;
    struct budget budget;
    struct health health;
    const char *problem;
    struct config_otlp_grpc_server config;
    struct grpc_server *server;
    struct h2_end client;
    bool stopped;
};

static const char *problem_of(void *context)
{
    return ((struct rig *)context)->problem;
}

static int setup(void **state)
{
    struct listen_sockets sockets;
    struct rig *rig = calloc(1, sizeof(*rig));
    if (!rig || loop_open(&rig->loop))
        return -1;
    *state = rig;
    fake_intake_open(&rig->intake, rig->loop);
    rig->budget.limit_bytes = 1 << 20;
    rig->health = (struct health){problem_of, rig};
    rig->config = (struct config_otlp_grpc_server){
        .endpoint = {.host = "127.0.0.1"}, .max_recv_msg_size_bytes = 100000, .max_connections = 3};
    if (listen_open(&rig->config.endpoint, "grpc::endpoint", &sockets, NULL))
        return -1;
    uint16_t port = sockets.port;
    if (grpc_server_open(&(struct grpc_server_settings){.loop = rig->loop,
                                                        .intake = &rig->intake,
                                                        .budget = &rig->budget,
                                                        .health = &rig->health,
                                                        .config = &rig->config},
                         &sockets, &rig->server))
        return -1;
    h2_end_init(&rig->client);
    otlp_client_open(&rig->client, rig->loop, port);
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    h2_end_clear(&rig->client);
    grpc_server_close(rig->server);
    fake_intake_close(&rig->intake);
    int error = rig->budget.used_bytes || stats_find("spanprof_grpc_server_health_watches", "");
    loop_close(rig->loop);
    free(rig);
    return error;
}

static struct h2_end_stream *watch(struct rig *rig, struct bytes request)
{
    return otlp_client_send(
        &rig->client, &(struct otlp_client_call){.path = HEALTH_WATCH_METHOD, .message = request});
}

struct expected {
    struct h2_end_stream *stream;
    const char *states; /* in their order */
};

static bool has_come(void *context)
{
    const struct expected *expected = context;
    return expected->stream->body.len >= 7 * strlen(expected->states) || expected->stream->closed;
}

static void assert_states(struct rig *rig, struct h2_end_stream *stream, const char *states)
{
    struct expected expected = {stream, states};
    assert_true(h2_run_loop(rig->loop, has_come, &expected, 10000));
    assert_int_equal(stream->body.len, 7 * strlen(states));
    for (size_t i = 0; i < strlen(states); i++) {
        const uint8_t message[] = {0, 0, 0, 0, 2, 8, (uint8_t)(states[i] - '0')};
        assert_memory_equal(stream->body.data + 7 * i, message, 7);
    }
}

static bool never(void *context)
{
    (void)context;
    return false;
}

static bool is_closed(void *context)
{
    return ((struct h2_end_stream *)context)->closed;
}

static void test_changes_are_told(void **state)
{
    struct rig *rig = *state;
    struct h2_end_stream *stream = watch(rig, (struct bytes){0});
    struct h2_end_stream *other = watch(rig, BYTES_LIT("\x0a\5other"));
    assert_states(rig, stream, "1");
    assert_states(rig, other, "3"); /* not known, which may change */
    rig->problem = "Store full";
    assert_states(rig, stream, "12");
    h2_run_loop(rig->loop, never, NULL, 1200);
    assert_states(rig, stream, "12"); /* and once only */
    rig->problem = NULL;
    assert_states(rig, stream, "121");
    assert_states(rig, other, "3");
    assert_false(stream->closed);
    assert_string_equal(h2_end_headers(stream), ":status: 200\ncontent-type: application/grpc\n");
    h2_reset(stream->stream, H2_CANCEL);
    assert_true(h2_run_loop(rig->loop, is_closed, stream, 5000));
    h2_run_loop(rig->loop, never, NULL, 50);
    assert_int_equal(stats_find("spanprof_grpc_server_health_watches", ""), 1);
}

static void test_limit(void **state)
{
    struct rig *rig = *state;
    struct h2_end_stream *stream = NULL;
    for (int i = 0; i < HEALTH_WATCHES_MAX; i++)
        stream = watch(rig, (struct bytes){0});
    assert_states(rig, stream, "1");
    stream = watch(rig, (struct bytes){0});
    assert_true(h2_run_loop(rig->loop, is_closed, stream, 5000));
    assert_int_equal(otlp_client_number(stream, "grpc-status"), GRPC_RESOURCE_EXHAUSTED);
    stream = watch(rig, BYTES_LIT("\xff"));
    assert_true(h2_run_loop(rig->loop, is_closed, stream, 5000));
}

static void test_not_a_request(void **state)
{
    struct rig *rig = *state;
    struct h2_end_stream *stream = watch(rig, BYTES_LIT("\xff"));
    assert_true(h2_run_loop(rig->loop, is_closed, stream, 5000));
    assert_int_equal(otlp_client_number(stream, "grpc-status"), GRPC_INVALID_ARGUMENT);
}

static void on_stopped(void *context)
{
    ((struct rig *)context)->stopped = true;
}

static bool is_stopped(void *context)
{
    return ((struct rig *)context)->stopped;
}

static void test_drain(void **state)
{
    struct rig *rig = *state;
    struct h2_end_stream *stream = watch(rig, (struct bytes){0});
    assert_states(rig, stream, "1");
    grpc_server_drain(rig->server, on_stopped, rig);
    assert_true(h2_run_loop(rig->loop, is_stopped, rig, 5000));
    assert_true(stream->closed);
    assert_int_equal(otlp_client_number(stream, "grpc-status"), GRPC_UNAVAILABLE);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_changes_are_told),
        RIG_TEST(test_limit),
        RIG_TEST(test_not_a_request),
        RIG_TEST(test_drain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
