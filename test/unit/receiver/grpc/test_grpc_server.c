/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/grpc/grpc_server.h"
#include "base/clock.h"
#include "base/stats.h"
#include "test/support/faults/fail_alloc.h"
#include "test/support/net/fake_intake.h"
#include "test/support/net/otlp_client.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

enum { MESSAGE_MAX = 100000, CONNECTIONS_MAX = 3 };

struct rig {
    struct loop *loop;
    struct intake intake;
    struct budget budget;
    struct health health;
    const char *problem; /* that health tells */
    struct config_otlp_grpc_server config;
    struct grpc_server *server;
    uint16_t port;
    struct h2_end client;
    bool stopped;
};

static const char *problem_of(void *context)
{
    return ((struct rig *)context)->problem;
}

static int setup(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    struct listen_sockets sockets;
    if (!rig || loop_open(&rig->loop))
        return -1;
    *state = rig;
    fake_intake_open(&rig->intake, rig->loop);
    rig->budget.limit_bytes = 1 << 20;
    rig->health = (struct health){problem_of, rig};
    rig->config = (struct config_otlp_grpc_server){
        .endpoint = {.host = "127.0.0.1"},
        .max_recv_msg_size_bytes = MESSAGE_MAX,
        .max_connections = CONNECTIONS_MAX,
    };
    if (listen_open(&rig->config.endpoint, "grpc::endpoint", &sockets, NULL))
        return -1;
    rig->port = sockets.port;
    const struct grpc_server_settings settings = {.loop = rig->loop,
                                                  .intake = &rig->intake,
                                                  .budget = &rig->budget,
                                                  .health = &rig->health,
                                                  .config = &rig->config};
    if (grpc_server_open(&settings, &sockets, &rig->server))
        return -1;
    h2_end_init(&rig->client);
    otlp_client_open(&rig->client, rig->loop, rig->port);
    return 0;
}

/* Whatever a test did: in the end no byte is booked any more, and nothing leaks. */
static int teardown(void **state)
{
    struct rig *rig = *state;
    h2_end_clear(&rig->client);
    grpc_server_close(rig->server);
    fake_intake_close(&rig->intake);
    int error = rig->budget.used_bytes ? -1 : 0;
    loop_close(rig->loop);
    free(rig);
    return error;
}

static bool stream_closed(void *context)
{
    return ((struct h2_end_stream *)context)->closed;
}

static bool never(void *context)
{
    (void)context;
    return false;
}

static void pause_ms(struct rig *rig, int ms)
{
    h2_run_loop(rig->loop, never, NULL, ms);
}

static struct h2_end_stream *call(struct rig *rig, const struct otlp_client_call *what)
{
    struct h2_end_stream *stream = otlp_client_send(&rig->client, what);
    assert_true(h2_run_loop(rig->loop, stream_closed, stream, 10000));
    return stream;
}

static const struct otlp_client_call hello = {.message = {(const uint8_t *)"hello", 5}};

/* ---- success ---- */

static void test_success(void **state)
{
    static const uint8_t empty_message[5];
    struct rig *rig = *state;
    struct h2_end_stream *stream = call(rig, &hello);
    assert_string_equal(h2_end_headers(stream), ":status: 200\ncontent-type: application/grpc\n");
    assert_string_equal(h2_end_trailers(stream), "grpc-status: 0\n");
    assert_int_equal(stream->body.len, 5);
    assert_memory_equal(stream->body.data, empty_message, 5);
    assert_int_equal(stream->h2_error, 0);
    assert_int_equal(rig->intake.n_requests, 1);
    assert_int_equal(rig->intake.last_signal, SIGNAL_TRACES);
    assert_int_equal(rig->intake.last_encoding, ENCODING_IDENTITY);
    assert_true(bytes_is(buf_bytes(&rig->intake.last_body), "hello"));
}

static void test_empty_and_largest_message(void **state)
{
    struct rig *rig = *state;
    uint8_t *large = calloc(1, MESSAGE_MAX);
    assert_int_equal(otlp_client_number(call(rig, &(struct otlp_client_call){0}), "grpc-status"),
                     0);
    assert_int_equal(rig->intake.last_body.len, 0);
    struct otlp_client_call most = {.message = BYTES(large, MESSAGE_MAX)};
    assert_int_equal(otlp_client_number(call(rig, &most), "grpc-status"), 0);
    assert_int_equal(rig->intake.last_body.len, MESSAGE_MAX);
    free(large);
}

static void test_encodings(void **state)
{
    static const struct {
        const char *encoding;
        bool compressed;
        int status;
        enum intake_encoding seen;
    } cases[] = {
        {"gzip", true, GRPC_OK, ENCODING_GZIP},
        {"gzip", false, GRPC_OK, ENCODING_IDENTITY}, /* the flag of the message decides */
        {"identity", false, GRPC_OK, ENCODING_IDENTITY},
        {"zstd", true, GRPC_OK, ENCODING_ZSTD},
        {"snappy", false, GRPC_OK, ENCODING_IDENTITY},
        {"snappy", true, GRPC_UNIMPLEMENTED, 0},
        {"identity", true, GRPC_INTERNAL, 0},
        {NULL, true, GRPC_INTERNAL, 0},
    };
    struct rig *rig = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct otlp_client_call what = hello;
        char accepted[32];
        what.encoding = cases[i].encoding;
        what.compressed = cases[i].compressed;
        size_t before = rig->intake.n_requests;
        struct h2_end_stream *stream = call(rig, &what);
        assert_int_equal(otlp_client_number(stream, "grpc-status"), cases[i].status);
        assert_int_equal(rig->intake.n_requests - before, cases[i].status == GRPC_OK);
        if (cases[i].status == GRPC_OK)
            assert_int_equal(rig->intake.last_encoding, cases[i].seen);
        if (cases[i].status == GRPC_UNIMPLEMENTED) {
            assert_true(
                otlp_client_value(stream, "grpc-accept-encoding", accepted, sizeof(accepted)));
            assert_string_equal(accepted, "identity,gzip,zstd");
        }
    }
}

/* Answered in another order than asked, each call gets its own. */
static void test_calls_at_once(void **state)
{
    struct rig *rig = *state;
    struct h2_end_stream *streams[30];
    rig->intake.hold = true;
    for (size_t i = 0; i < 30; i++) {
        struct otlp_client_call what = hello;
        what.compressed = i % 3 == 0; /* without an encoding: refused at once */
        streams[i] = otlp_client_send(&rig->client, &what);
    }
    pause_ms(rig, 50);
    for (size_t i = 0; i < 30; i++)
        assert_int_equal(streams[i]->closed, i % 3 == 0);
    assert_int_equal(rig->intake.n_waiting, 20);
    fake_intake_release(&rig->intake);
    for (size_t i = 0; i < 30; i++) {
        assert_true(h2_run_loop(rig->loop, stream_closed, streams[i], 5000));
        assert_int_equal(otlp_client_number(streams[i], "grpc-status"), i % 3 ? 0 : GRPC_INTERNAL);
    }
}

/* ---- refusals ---- */

static uint64_t delay_of(struct h2_end_stream *stream, const char *name)
{
    char text[512];
    uint8_t message[512];
    if (!otlp_client_value(stream, name, text, sizeof(text)))
        return GRPC_NO_RETRY_INFO;
    ptrdiff_t size = bytes_from_base64(BYTES_STR(text), message);
    assert_true(size > 0);
    size_t n = (size_t)size;
    if (!strcmp(name, "grpc-status-details-bin"))
        return grpc_details_retry_delay(BYTES(message, n));
    _cleanup_buf_ struct buf one_second = BUF_INIT(0);
    assert_int_equal(grpc_retry_info_write(NS_PER_SEC, &one_second), 0);
    return bytes_equal(BYTES(message, n), buf_bytes(&one_second)) ? NS_PER_SEC : 0;
}

static void test_outcomes_of_the_intake(void **state)
{
    static const struct {
        enum intake_outcome outcome;
        const char *message;
        int status;
        bool retry;
    } cases[] = {
        {INTAKE_BUSY, NULL, GRPC_UNAVAILABLE, true},
        {INTAKE_BUSY, "the store is full", GRPC_UNAVAILABLE, true},
        {INTAKE_MALFORMED, NULL, GRPC_INVALID_ARGUMENT, false},
        {INTAKE_TOO_BIG, "too big: 100%", GRPC_RESOURCE_EXHAUSTED, false},
        {INTAKE_NO_PIPELINE, NULL, GRPC_UNIMPLEMENTED, false},
    };
    struct rig *rig = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];
        rig->intake.outcome = cases[i].outcome;
        rig->intake.message = cases[i].message;
        struct h2_end_stream *stream = call(rig, &hello);
        uint64_t delay = cases[i].retry ? NS_PER_SEC : GRPC_NO_RETRY_INFO;
        assert_int_equal(otlp_client_number(stream, ":status"), 200);
        assert_int_equal(otlp_client_number(stream, "grpc-status"), cases[i].status);
        assert_true(otlp_client_value(stream, "grpc-message", text, sizeof(text)));
        if (cases[i].outcome == INTAKE_TOO_BIG)
            assert_string_equal(text, "too big: 100%25");
        assert_true(delay_of(stream, "grpc-status-details-bin") == delay);
        assert_true(delay_of(stream, "google.rpc.retryinfo-bin") == delay);
        assert_string_equal(h2_end_trailers(stream), ""); /* one block */
        assert_int_equal(stream->h2_error, 0);
    }
}

static void test_not_a_call(void **state)
{
    static const struct {
        struct otlp_client_call call;
        int http, grpc;
    } cases[] = {
        {{.method = "GET"}, 405, -1},
        {{.content_type = "application/json"}, 415, -1},
        {{.content_type = "application/grpc-web"}, 415, -1},
        {{.content_type = "application/grpcx"}, 415, -1},
        {{.content_type = "application/grpc+proto"}, 200, GRPC_OK},
        {{.content_type = "application/grpc;charset=x"}, 200, GRPC_OK},
        {{.path = "/"}, 200, GRPC_UNIMPLEMENTED},
        {{.path = OTLP_TRACES_PATH "2"}, 200, GRPC_UNIMPLEMENTED},
        {{.path = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"},
         200,
         GRPC_UNIMPLEMENTED},
        {{.path = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"},
         200,
         GRPC_UNIMPLEMENTED},
        {{.timeout = "soon"}, 200, GRPC_INVALID_ARGUMENT},
        {{.no_message = true}, 200, GRPC_INTERNAL},
        {{.behind = {(const uint8_t *)"\0\0\0\0\0", 5}}, 200, GRPC_INTERNAL}, /* two messages */
        {{.no_message = true, .behind = {(const uint8_t *)"\0\0\0", 3}}, 200, GRPC_INTERNAL},
        {{.no_message = true, .behind = {(const uint8_t *)"\0\0\0\0\x05hell", 9}},
         200,
         GRPC_INTERNAL},
        {{.no_message = true, .behind = {(const uint8_t *)"\x02\0\0\0\0", 5}}, 200, GRPC_INTERNAL},
    };
    struct rig *rig = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t before = rig->intake.n_requests;
        struct h2_end_stream *stream = call(rig, &cases[i].call);
        assert_int_equal(otlp_client_number(stream, ":status"), cases[i].http);
        assert_int_equal(otlp_client_number(stream, "grpc-status"), cases[i].grpc);
        assert_int_equal(rig->intake.n_requests - before, cases[i].grpc == GRPC_OK);
    }
    assert_int_equal(rig->client.n_open, 0);
}

/* It is read to its end and told what is served here; of a body without end only so much. */
static void test_answers_to_what_is_no_call(void **state)
{
    struct rig *rig = *state;
    static const uint8_t body[16] = {0};
    struct otlp_client_call page = {.method = "GET", .message = BYTES(body, sizeof(body))};
    struct h2_end_stream *stream = call(rig, &page);
    assert_int_equal(otlp_client_number(stream, ":status"), 405);
    assert_true(stream->ended && stream->h2_error == 0);
    assert_non_null(memmem(stream->body.data, stream->body.len, "application/grpc", 16));
    page.method = "HEAD";
    stream = call(rig, &page);
    assert_int_equal(otlp_client_number(stream, ":status"), 405);
    assert_int_equal(stream->body.len, 0);

    enum { ENDLESS = 200 << 10 };
    uint8_t *large = calloc(1, ENDLESS);
    struct otlp_client_call upload = {.content_type = "text/plain",
                                      .message = BYTES(large, ENDLESS)};
    stream = call(rig, &upload);
    assert_int_equal(otlp_client_number(stream, ":status"), 415);
    assert_int_equal(rig->budget.used_bytes, 0);
    free(large);
    assert_int_equal(otlp_client_number(call(rig, &hello), "grpc-status"), GRPC_OK);
}

/* A message that is too large is refused at its prefix; its bytes are not kept, and the connection
 * with its other calls goes on. */
/* HealthCheckRequest: service is field 1; HealthCheckResponse: status is field 1. */
static void test_health_check(void **state)
{
#define SERVICE(name)                                                                              \
    {                                                                                              \
        (const uint8_t *)name, sizeof(name) - 1                                                    \
    }
#define ANSWER(status) "\0\0\0\0\2\x08" status
    static const struct {
        struct otlp_client_call call;
        const char *problem;
        int grpc;
        const char *answer;
    } cases[] = {
        {{.path = HEALTH_CHECK_METHOD}, NULL, GRPC_OK, ANSWER("\1")},
        {{.path = HEALTH_CHECK_METHOD}, "Store full", GRPC_OK, ANSWER("\2")},
        {{.path = HEALTH_CHECK_METHOD, .message = SERVICE("\x0a\0")}, NULL, GRPC_OK, ANSWER("\1")},
        {{.path = HEALTH_CHECK_METHOD, .message = SERVICE("\x0a\x15grpc.health.v1.Health")},
         NULL,
         GRPC_OK,
         ANSWER("\1")},
        {{.path = HEALTH_CHECK_METHOD,
          .message = SERVICE("\x0a\x36opentelemetry.proto.collector.trace.v1.TraceService")},
         NULL,
         GRPC_INVALID_ARGUMENT, /* the length is wrong */
         NULL},
        {{.path = HEALTH_CHECK_METHOD,
          .message = SERVICE("\x0a\x33opentelemetry.proto.collector.trace.v1.TraceService")},
         NULL,
         GRPC_OK,
         ANSWER("\1")},
        {{.path = HEALTH_CHECK_METHOD, .message = SERVICE("\x0a\5other")},
         NULL,
         GRPC_NOT_FOUND,
         NULL},
        {{.path = HEALTH_CHECK_METHOD,
          .message = SERVICE("\x0a\x31opentelemetry.proto.collector.logs.v1.LogsService")},
         NULL,
         GRPC_NOT_FOUND, /* there is no such pipeline */
         NULL},
        {{.path = HEALTH_CHECK_METHOD, .message = SERVICE("\xff")},
         NULL,
         GRPC_INVALID_ARGUMENT,
         NULL},
        {{.path = HEALTH_CHECK_METHOD, .no_message = true}, NULL, GRPC_INTERNAL, NULL},
    };
    struct rig *rig = *state;
    size_t before = rig->intake.n_requests;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rig->problem = cases[i].problem;
        struct h2_end_stream *stream = call(rig, &cases[i].call);
        assert_int_equal(otlp_client_number(stream, "grpc-status"), cases[i].grpc);
        assert_int_equal(stream->body.len, cases[i].answer ? 7 : 0);
        if (cases[i].answer)
            assert_memory_equal(stream->body.data, cases[i].answer, 7);
    }
    assert_int_equal(rig->intake.n_requests, before);
}

static int64_t refused(const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "signal=\"traces\",reason=\"%s\"", reason);
    return stats_find("spanprof_requests_refused_total", labels);
}

static void test_too_big(void **state)
{
    struct rig *rig = *state;
    size_t size = 16 << 20;
    uint8_t *large = calloc(1, size);
    int64_t before = stats_find("spanprof_grpc_server_calls_total", "outcome=\"too_big\"");
    int64_t refused_before = refused("too_big");
    for (int i = 0; i < 3; i++) {
        struct otlp_client_call what = {.message = BYTES(large, i ? size : MESSAGE_MAX + 1)};
        struct h2_end_stream *stream = call(rig, &what);
        assert_int_equal(otlp_client_number(stream, "grpc-status"), GRPC_RESOURCE_EXHAUSTED);
        assert_true(delay_of(stream, "grpc-status-details-bin") == GRPC_NO_RETRY_INFO);
        assert_int_equal(rig->budget.used_bytes, 0);
    }
    assert_int_equal(stats_find("spanprof_grpc_server_calls_total", "outcome=\"too_big\""),
                     before + 3);
    assert_int_equal(refused("too_big") - refused_before, 3);
    assert_int_equal(otlp_client_number(call(rig, &hello), "grpc-status"), 0);
    assert_int_equal(rig->intake.n_requests, 1);
    free(large);
}

static void test_budget(void **state)
{
    struct rig *rig = *state;
    uint8_t *large = calloc(1, MESSAGE_MAX);
    rig->budget.limit_bytes = MESSAGE_MAX / 2;
    int64_t before = stats_find("spanprof_receiver_budget_refused_total", "by=\"all\"");
    int64_t refused_before = refused("busy");
    struct h2_end_stream *stream =
        call(rig, &(struct otlp_client_call){.message = BYTES(large, MESSAGE_MAX)});
    assert_int_equal(otlp_client_number(stream, "grpc-status"), GRPC_UNAVAILABLE);
    assert_true(delay_of(stream, "grpc-status-details-bin") == NS_PER_SEC);
    assert_int_equal(stats_find("spanprof_receiver_budget_refused_total", "by=\"all\""),
                     before + 1);
    assert_int_equal(refused("busy") - refused_before, 1);
    assert_int_equal(rig->budget.used_bytes, 0);
    stream = call(rig, &(struct otlp_client_call){.message = BYTES(large, 1000)});
    assert_int_equal(otlp_client_number(stream, "grpc-status"), 0);
    /* a small one that is at the intake still counts: it has no room of the admission */
    rig->intake.hold = true;
    stream =
        otlp_client_send(&rig->client, &(struct otlp_client_call){.message = BYTES(large, 1000)});
    pause_ms(rig, 30);
    assert_int_equal(rig->intake.n_waiting, 1);
    assert_int_equal(rig->budget.used_bytes, 1000 + GRPC_PREFIX_SIZE);
    free(large);
}

/* ---- peers and time ---- */

static void test_timeout(void **state)
{
    struct rig *rig = *state;
    struct otlp_client_call what = hello;
    what.timeout = "30m";
    rig->intake.hold = true;
    struct h2_end_stream *stream = call(rig, &what);
    assert_int_equal(stream->h2_error, H2_CANCEL);
    assert_int_equal(rig->intake.n_waiting, 1);
    fake_intake_release(&rig->intake); /* its done() finds nobody */
    pause_ms(rig, 20);
    assert_int_equal(rig->intake.n_waiting, 0);
    assert_int_equal(otlp_client_number(call(rig, &what), "grpc-status"), 0); /* in time */
}

static void test_peer_goes_while_at_the_intake(void **state)
{
    struct rig *rig = *state;
    int64_t before = stats_find("spanprof_grpc_server_calls_total", "outcome=\"peer_gone\"");
    rig->intake.hold = true;
    otlp_client_send(&rig->client, &hello);
    struct h2_end_stream *reset = otlp_client_send(&rig->client, &hello);
    pause_ms(rig, 30);
    assert_int_equal(rig->intake.n_waiting, 2);
    h2_reset(reset->stream, H2_CANCEL);
    pause_ms(rig, 20);
    h2_end_clear(&rig->client);
    pause_ms(rig, 20);
    assert_int_equal(stats_find("spanprof_grpc_server_connections", ""), 0);
    assert_int_equal(stats_find("spanprof_grpc_server_calls_total", "outcome=\"peer_gone\""),
                     before + 2);
    fake_intake_release(&rig->intake);
    pause_ms(rig, 20);
    assert_int_equal(rig->intake.n_waiting, 0);
}

/* The server is closed first, the writer answers later. */
static void test_server_goes_while_at_the_intake(void **state)
{
    struct rig *rig = *state;
    rig->intake.hold = true;
    otlp_client_send(&rig->client, &hello);
    pause_ms(rig, 30);
    assert_int_equal(rig->intake.n_waiting, 1);
    grpc_server_close(rig->server);
    rig->server = NULL;
    fake_intake_release(&rig->intake);
    pause_ms(rig, 20);
    assert_int_equal(rig->intake.n_waiting, 0);
}

/* Of idle connections the oldest gives way to a new one; one with a call does not. */
static void test_connection_limit(void **state)
{
    static const char labels[] = "reason=\"max_connections\"";
    struct rig *rig = *state; /* its client is the first */
    struct h2_end more[CONNECTIONS_MAX + 1];
    int64_t before = stats_find("spanprof_grpc_server_connections_refused_total", labels);
    int64_t crowded = stats_find("spanprof_grpc_server_connections_crowded_out_total", "");
    rig->intake.hold = true;
    struct h2_end_stream *held = otlp_client_send(&rig->client, &hello);
    for (size_t i = 0; i <= CONNECTIONS_MAX; i++) {
        h2_end_init(&more[i]);
        otlp_client_open(&more[i], rig->loop, rig->port);
        pause_ms(rig, 20);
    }
    assert_int_equal(stats_find("spanprof_grpc_server_connections", ""), CONNECTIONS_MAX);
    assert_true(more[0].ended && more[1].ended);
    assert_int_equal(stats_find("spanprof_grpc_server_connections_crowded_out_total", ""),
                     crowded + 2);
    for (size_t i = 2; i <= CONNECTIONS_MAX; i++)
        otlp_client_send(&more[i], &hello);
    pause_ms(rig, 50);
    h2_end_clear(&more[0]);
    otlp_client_open(&more[0], rig->loop, rig->port);
    pause_ms(rig, 50);
    assert_true(more[0].ended); /* all others have a call */
    assert_int_equal(stats_find("spanprof_grpc_server_connections_refused_total", labels),
                     before + 1);
    assert_false(held->closed);
    for (size_t i = 0; i <= CONNECTIONS_MAX; i++)
        h2_end_clear(&more[i]);
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
    rig->intake.hold = true;
    struct h2_end_stream *stream = otlp_client_send(&rig->client, &hello);
    pause_ms(rig, 30);
    grpc_server_drain(rig->server, on_stopped, rig);
    assert_false(rig->stopped);
    pause_ms(rig, 50);
    assert_false(rig->stopped);
    assert_int_equal(otlp_client_connect(rig->port, false), -ECONNREFUSED);
    fake_intake_release(&rig->intake);
    assert_true(h2_run_loop(rig->loop, stream_closed, stream, 5000));
    assert_int_equal(otlp_client_number(stream, "grpc-status"), 0);
    assert_true(h2_run_loop(rig->loop, is_stopped, rig, 5000));
    assert_int_equal(stats_find("spanprof_grpc_server_connections", ""), 0);
    assert_true(rig->client.ended);
}

static void test_drain_when_idle(void **state)
{
    struct rig *rig = *state;
    assert_int_equal(otlp_client_number(call(rig, &hello), "grpc-status"), 0);
    grpc_server_drain(rig->server, on_stopped, rig);
    assert_false(rig->stopped);
    assert_true(h2_run_loop(rig->loop, is_stopped, rig, 5000));
}

/* Without memory a call fails, or its stream or its connection: the next one works. */
static void test_no_memory(void **state)
{
    struct rig *rig = *state;
    unsigned failures = 0;
    for (unsigned n = 1; n < 300; n++) {
        rig->intake.outcome = n % 2 ? INTAKE_BUSY : INTAKE_ACCEPTED;
        struct h2_end_stream *stream = otlp_client_send(&rig->client, &hello);
        fail_alloc_at(n);
        h2_run_loop(rig->loop, stream_closed, stream, 200);
        bool hit = fail_alloc_hit();
        failures += hit;
        rig->intake.outcome = INTAKE_ACCEPTED;
        h2_end_clear(&rig->client);
        otlp_client_open(&rig->client, rig->loop, rig->port);
        assert_int_equal(otlp_client_number(call(rig, &hello), "grpc-status"), 0);
        if (!hit && n % 2 == 0)
            break;
    }
    assert_true(failures >= 5);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_success),
        RIG_TEST(test_empty_and_largest_message),
        RIG_TEST(test_encodings),
        RIG_TEST(test_calls_at_once),
        RIG_TEST(test_outcomes_of_the_intake),
        RIG_TEST(test_not_a_call),
        RIG_TEST(test_health_check),
        RIG_TEST(test_answers_to_what_is_no_call),
        RIG_TEST(test_too_big),
        RIG_TEST(test_budget),
        RIG_TEST(test_timeout),
        RIG_TEST(test_peer_goes_while_at_the_intake),
        RIG_TEST(test_server_goes_while_at_the_intake),
        RIG_TEST(test_connection_limit),
        RIG_TEST(test_drain),
        RIG_TEST(test_drain_when_idle),
        RIG_TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
