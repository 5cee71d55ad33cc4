/* SPDX-License-Identifier: Apache-2.0 */
/* The ports of both protocols, each with clients of the other one. */
#include "receiver/grpc/grpc_server.h"
#include "base/stats.h"
#include "test/support/net/http_rig.h"
#include "test/support/net/otlp_client.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

struct rig {
    struct http_rig *http;
    struct config_otlp_grpc_server config;
    struct grpc_server *grpc;
    uint16_t grpc_port;
    struct h2_end client;
};

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    struct listen_sockets sockets;
    assert_int_equal(http_rig_setup((void **)&rig->http), 0);
    rig->config = (struct config_otlp_grpc_server){.endpoint = {.host = "127.0.0.1"},
                                                   .max_recv_msg_size_bytes = BODY_MAX,
                                                   .max_connections = CONNECTIONS_MAX};
    assert_int_equal(listen_open(&rig->config.endpoint, "grpc::endpoint", &sockets, NULL), 0);
    rig->grpc_port = sockets.port;
    const struct grpc_server_settings settings = {.loop = rig->http->loop,
                                                  .intake = &rig->http->intake,
                                                  .budget = &rig->http->budget,
                                                  .config = &rig->config};
    assert_int_equal(grpc_server_open(&settings, &sockets, &rig->grpc), 0);
    grpc_server_set_http1(rig->grpc, http_server_take, rig->http->server);
    http_server_set_http2(rig->http->server, grpc_server_take, rig->grpc);
    h2_end_init(&rig->client);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    h2_end_clear(&rig->client);
    grpc_server_close(rig->grpc);
    int error = http_rig_teardown((void **)&rig->http);
    free(rig);
    return error;
}

static bool stream_closed(void *context)
{
    return ((struct h2_end_stream *)context)->closed;
}

static void assert_grpc(struct rig *rig, uint16_t port, const char *text)
{
    otlp_client_open(&rig->client, rig->http->loop, port);
    struct h2_end_stream *stream =
        otlp_client_send(&rig->client, &(struct otlp_client_call){.message = BYTES_STR(text)});
    assert_true(h2_run_loop(rig->http->loop, stream_closed, stream, 10000));
    assert_int_equal(otlp_client_number(stream, "grpc-status"), 0);
    assert_true(bytes_is(buf_bytes(&rig->http->intake.last_body), text));
    h2_end_clear(&rig->client);
    h2_end_init(&rig->client);
}

static void assert_http(struct rig *rig, uint16_t port, const char *text)
{
    uint16_t own = rig->http->port;
    struct talk talk;
    rig->http->port = port;
    talk_open(&talk, rig->http);
    rig->http->port = own;
    talk_say_traces(&talk, PROTOBUF, BYTES_STR(text));
    assert_int_equal(talk_hear(&talk), 200);
    assert_true(bytes_is(buf_bytes(&rig->http->intake.last_body), text));
    talk_close(&talk);
}

static void test_either(void **state)
{
    struct rig *rig = *state;
    assert_grpc(rig, rig->grpc_port, "one");
    assert_grpc(rig, rig->http->port, "two");
    assert_http(rig, rig->http->port, "three");
    assert_http(rig, rig->grpc_port, "four");
    assert_int_equal(rig->http->intake.n_requests, 4);
}

/* A connection counts where it is served. */
static void test_connections(void **state)
{
    struct rig *rig = *state;
    struct talk talk;
    uint16_t own = rig->http->port;
    rig->http->port = rig->grpc_port;
    talk_open(&talk, rig->http);
    rig->http->port = own;
    talk_say_traces(&talk, PROTOBUF, BYTES_STR("x"));
    assert_int_equal(talk_hear(&talk), 200);
    assert_int_equal(stats_find("spanprof_http_server_connections", ""), 1);
    assert_int_equal(stats_find("spanprof_grpc_server_connections", ""), 0);
    talk_close(&talk);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_either), TEST(test_connections)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
