/* SPDX-License-Identifier: Apache-2.0 */
/* What goes out by OTLP/HTTP, and what answers of every kind come to; against a scripted server. */
#include "base/clock.h"
#include "proto/codec.h"
#include "proto/wire.h"
#include "test/support/net/certificates.h"
#include "test/support/rigs/exporter_rig.h"
#include "test/support/net/h2_end.h"
#include "test/support/net/http_peer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

struct at {
    struct rig *rig;
    struct http_peer peer;
    struct tls_context *tls; /* of the peer */
    struct certificate ca, server;
};

#define OK_EMPTY  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define PROTOBUF_ "Content-Type: application/x-protobuf\r\n"
#define JSON_     "Content-Type: application/json\r\n"

static int setup(void **state)
{
    struct at *at = calloc(1, sizeof(*at));
    if (!at || exporter_rig_setup((void **)&at->rig))
        return -1;
    struct config_exporter_otlp *config = &at->rig->config.otlp;
    exporter_close(at->rig->exporter);
    at->rig->exporter = NULL;
    http_peer_open(&at->peer, at->rig->loop);
    at->rig->config.type = CONFIG_EXPORTER_OTLP_HTTP;
    config->url = (struct config_url){.endpoint = {.host = "127.0.0.1",
                                                   .port = at->peer.port,
                                                   .set = true,
                                                   .scheme = CONFIG_SCHEME_HTTP},
                                      .path = "/base/"};
    *state = at;
    return 0;
}

static int teardown(void **state)
{
    struct at *at = *state;
    struct tls_context *client = at->rig->tls;
    http_peer_close(&at->peer);
    int error = exporter_rig_teardown((void **)&at->rig);
    tls_context_close(client);
    tls_context_close(at->tls);
    if (at->tls) {
        certificate_free(&at->server);
        certificate_free(&at->ca);
    }
    free(at);
    return error;
}

static struct at *started(void **state)
{
    struct at *at = *state;
    exporter_rig_start(at->rig);
    return at;
}

struct expected {
    struct at *at;
    size_t n;
};

static bool has_come(void *context)
{
    struct expected *expected = context;
    return http_peer_request(&expected->at->peer, expected->n) != NULL;
}

static const struct http_peer_request *await(struct at *at, size_t n)
{
    struct expected expected = {at, n};
    assert_true(h2_run_loop(at->rig->loop, has_come, &expected, 10000));
    return http_peer_request(&at->peer, n);
}

static bool body_is(const struct http_peer_request *request, const char *text)
{
    return bytes_is(buf_bytes(&request->body), text);
}

static bool says(const struct http_peer_request *request, const char *text)
{
    return strstr((const char *)request->head.data, text);
}

/* ---- requests ---- */

static void test_request(void **state)
{
    struct at *at = started(state);
    char expected[512];
    rig_put(at->rig, SIGNAL_TRACES, "spans");
    const struct http_peer_request *request = await(at, 0);
    snprintf(expected, sizeof(expected),
             "POST /base/v1/traces HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUser-Agent: spanprof/1.2.3\r\n"
             "Content-Type: application/x-protobuf\r\nContent-Length: 5\r\nx-tenant: blue",
             at->peer.port);
    assert_string_equal((const char *)request->head.data, expected);
    assert_true(body_is(request, "spans"));
    rig_await_empty(at->rig);
    rig_put(at->rig, SIGNAL_TRACES, "more");
    assert_int_equal(await(at, 1)->connection, 0); /* kept */
    rig_put(at->rig, SIGNAL_PROFILES, "samples");
    request = await(at, 2);
    assert_true(says(request, "POST /base/v1development/profiles HTTP/1.1\r\n"));
    assert_true(says(request, "\r\notlp-profiles-development-version: 1\r\n"));
    assert_int_equal(request->connection, 1); /* another signal does not wait for it */
    rig_await_empty(at->rig);
}

static void test_own_url(void **state)
{
    struct at *at = *state;
    struct config_exporter_otlp *config = &at->rig->config.otlp;
    config->urls[CONFIG_TRACES] = config->url;
    config->urls[CONFIG_TRACES].path = "/in?tenant=a";
    config->urls[CONFIG_PROFILES] = config->url;
    config->urls[CONFIG_PROFILES].path = "";
    config->disable_keep_alives = true;
    started(state);
    rig_put(at->rig, SIGNAL_TRACES, "spans");
    assert_true(says(await(at, 0), "POST /in?tenant=a HTTP/1.1\r\n"));
    assert_true(says(await(at, 0), "\r\nConnection: close\r\n"));
    rig_put(at->rig, SIGNAL_PROFILES, "samples");
    assert_true(says(await(at, 1), "POST / HTTP/1.1\r\n"));
    rig_put(at->rig, SIGNAL_TRACES, "more");
    assert_int_equal(await(at, 2)->connection, 2);
}

/* One span, by hand. */
static void make_traces(struct buf *out)
{
    _cleanup_buf_ struct buf span = BUF_INIT(0), scope = BUF_INIT(0), resource = BUF_INIT(0);
    assert_int_equal(wire_put_bytes(&span, 1, BYTES_LIT("0123456789abcdef")), 0);
    assert_int_equal(wire_put_bytes(&span, 2, BYTES_LIT("01234567")), 0);
    assert_int_equal(wire_put_bytes(&span, 5, BYTES_LIT("name")), 0);
    assert_int_equal(wire_put_bytes(&scope, 2, buf_bytes(&span)), 0);
    assert_int_equal(wire_put_bytes(&resource, 2, buf_bytes(&scope)), 0);
    assert_int_equal(wire_put_bytes(out, 1, buf_bytes(&resource)), 0);
}

static void test_json_and_compression(void **state)
{
    struct at *at = *state;
    _cleanup_buf_ struct buf traces = BUF_INIT(0), json = BUF_INIT(0);
    int64_t refused = rig_dropped("refused");
    make_traces(&traces);
    at->rig->config.otlp.json = true;
    at->rig->config.otlp.compression = CONFIG_ZSTD;
    started(state);
    rig_put_bytes(at->rig, SIGNAL_TRACES, buf_bytes(&traces));
    const struct http_peer_request *request = await(at, 0);
    assert_true(says(request, "\r\nContent-Type: application/json\r\n"));
    assert_true(says(request, "\r\nContent-Encoding: zstd\r\n"));
    assert_int_equal(codec_inflate_zstd(buf_bytes(&request->body), 1000, &json), 0);
    assert_true(bytes_is(buf_bytes(&json),
                         "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":"
                         "\"30313233343536373839616263646566\",\"spanId\":\"3031323334353637\","
                         "\"name\":\"name\"}]}]}]}"));
    rig_put(at->rig, SIGNAL_TRACES, "no protobuf");
    rig_await_empty(at->rig);
    assert_int_equal(rig_dropped("refused"), refused + 3);
    assert_int_equal(at->peer.n_requests, 1);
}

static void test_gzip(void **state)
{
    struct at *at = *state;
    static uint8_t large[100000];
    _cleanup_buf_ struct buf plain = BUF_INIT(0);
    at->rig->config.otlp.compression = CONFIG_GZIP;
    started(state);
    rig_put_bytes(at->rig, SIGNAL_PROFILES, BYTES(large, sizeof(large)));
    const struct http_peer_request *request = await(at, 0);
    assert_true(says(request, "\r\nContent-Encoding: gzip\r\n"));
    assert_true(request->body.len < 2000);
    assert_int_equal(codec_inflate_gzip(buf_bytes(&request->body), sizeof(large), &plain), 0);
    assert_true(bytes_equal(buf_bytes(&plain), BYTES(large, sizeof(large))));
}

static void test_large_request(void **state)
{
    struct at *at = started(state);
    size_t size = 3 << 20;
    uint8_t *large = malloc(size);
    assert_non_null(large);
    for (size_t i = 0; i < size; i++)
        large[i] = (uint8_t)(i * 2654435761u >> 8);
    rig_put_bytes(at->rig, SIGNAL_PROFILES, BYTES(large, size));
    assert_true(bytes_equal(buf_bytes(&await(at, 0)->body), BYTES(large, size)));
    free(large);
}

/* ---- answers ---- */

/* Each of these is tried again until it goes through, and nothing is lost. */
static void test_tried_again(void **state)
{
    static const struct http_peer_answer answers[] = {
        {HTTP_PEER_ANSWERS, "HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n"},
        {HTTP_PEER_ANSWERS, "HTTP/1.1 502 Bad\r\nContent-Type: text/html\r\nContent-Length: "
                            "6\r\n\r\n<html>"},
        {HTTP_PEER_ANSWERS, "HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {HTTP_PEER_ANSWERS, "HTTP/1.1 504 Late\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"},
        {HTTP_PEER_ANSWERS, "HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:9/\r\n"
                            "Content-Length: 0\r\n\r\n"},
        {HTTP_PEER_HANGS_UP, ""},
        {HTTP_PEER_HANGS_UP, "HTTP/1.1 200 OK\r\nContent-Le"},
        {HTTP_PEER_HANGS_UP, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"},
        {HTTP_PEER_ANSWERS, "220 mail.example ESMTP\r\n"},
        {HTTP_PEER_ANSWERS, "HTTP/1.1 101 Switching Protocols\r\n\r\n"},
    };
    struct at *at = started(state);
    int64_t refused = rig_dropped("refused");
    size_t n = sizeof(answers) / sizeof(answers[0]);
    for (size_t i = 0; i < n; i++) {
        char body[16];
        snprintf(body, sizeof(body), "spans %zu", i);
        http_peer_no_script(&at->peer);
        http_peer_script(&at->peer, answers[i].manner, answers[i].text);
        http_peer_script(&at->peer, HTTP_PEER_ANSWERS, OK_EMPTY);
        http_peer_hang_up(&at->peer);
        rig_pause(at->rig, 5);
        rig_put(at->rig, SIGNAL_TRACES, body);
        assert_true(body_is(await(at, 2 * i), body));
        assert_true(body_is(await(at, 2 * i + 1), body));
        rig_await_empty(at->rig);
    }
    assert_int_equal(rig_dropped("refused"), refused);
    rig_pause(at->rig, 50);
    assert_int_equal(at->peer.n_requests, 2 * n);
}

static void test_given_up(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 400 Bad\r\n" PROTOBUF_ "Content-Length: 5\r\n\r\n\x08\x03\x12\x01x",
        "HTTP/1.1 401 Who\r\n" JSON_ "Content-Length: 16\r\n\r\n{\"message\":\"who\"}",
        "HTTP/1.1 408 Slow\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 501 Never\r\nContent-Length: 0\r\n\r\n",
    };
    struct at *at = started(state);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        int64_t before = rig_dropped("refused");
        http_peer_no_script(&at->peer);
        http_peer_script(&at->peer, HTTP_PEER_ANSWERS, answers[i]);
        rig_put(at->rig, SIGNAL_TRACES, "spans");
        await(at, i);
        rig_await_empty(at->rig);
        assert_int_equal(rig_dropped("refused"), before + 3);
    }
}

/* In halves, down to one span; the second is too big for itself. A Collector says it by 400. */
static void test_too_big(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 413 Large\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 400 Bad\r\n" JSON_
        "Content-Length: 42\r\n\r\n{\"message\":\"http: request body too large\"}",
    };
    static const uint8_t spans[] = {0x0a, 10, 0x12, 8, 0x12, 2, 0x08, 1, 0x12, 2, 0x08, 2};
    struct at *at = started(state);
    for (size_t i = 0; i < 2; i++) {
        int64_t before = rig_dropped("too_big");
        http_peer_no_script(&at->peer);
        http_peer_script(&at->peer, HTTP_PEER_ANSWERS, answers[i]);
        http_peer_script(&at->peer, HTTP_PEER_ANSWERS, OK_EMPTY);
        http_peer_script(&at->peer, HTTP_PEER_ANSWERS, answers[i]);
        rig_put_bytes(at->rig, SIGNAL_TRACES, BYTES(spans, sizeof(spans)));
        rig_await_empty(at->rig);
        assert_int_equal(rig_dropped("too_big"), before + 1);
        assert_int_equal(at->peer.n_requests, 3 * (i + 1));
        assert_int_equal(await(at, 3 * i + 1)->body.len, 8);
    }
}

/* It may get them yet. */
static void test_backend_without_profiles(void **state)
{
    struct at *at = started(state);
    int64_t before = rig_dropped("no_profiles_service");
    for (int i = 0; i < 3; i++)
        http_peer_script(&at->peer, HTTP_PEER_ANSWERS,
                         "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    http_peer_script(&at->peer, HTTP_PEER_ANSWERS, OK_EMPTY);
    rig_put(at->rig, SIGNAL_PROFILES, "samples");
    rig_put(at->rig, SIGNAL_PROFILES, "samples");
    rig_await_empty(at->rig);
    assert_int_equal(rig_dropped("no_profiles_service"), before);
    assert_int_equal(at->peer.n_requests, 5);
}

static void test_partial_success(void **state)
{
    static const struct {
        const char *answer;
        int64_t rejected;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\n" PROTOBUF_ "Content-Length: 9\r\n\r\n\n\x07\x08\x02\x12\x03"
         "bad",
         2},
        {"HTTP/1.1 202 OK\r\n" PROTOBUF_ "Transfer-Encoding: chunked\r\n\r\n"
         "4\r\n\n\x07\x08\x02\r\n5\r\n\x12\x03"
         "bad\r\n0\r\n\r\n",
         2},
        {"HTTP/1.1 200 OK\r\n" JSON_ "Content-Length: 61\r\n\r\n"
         "{\"partialSuccess\":{\"rejectedSpans\":\"1\",\"errorMessage\":\"bad\"}}",
         1},
        {"HTTP/1.1 200 OK\r\n" JSON_ "Content-Length: 5\r\n\r\n{\"par", 0},
        {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n\n\x07", 0},
        {"HTTP/1.1 200 OK\r\n" PROTOBUF_ "Content-Encoding: gzip\r\nContent-Length: "
         "4\r\n\r\n\n\x02\x08\x02",
         0},
    };
    struct at *at = started(state);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t before = rig_dropped("partial_success");
        http_peer_no_script(&at->peer);
        http_peer_script(&at->peer, HTTP_PEER_ANSWERS, cases[i].answer);
        rig_put(at->rig, SIGNAL_TRACES, "spans");
        await(at, i);
        rig_await_empty(at->rig);
        assert_int_equal(rig_dropped("partial_success"), before + cases[i].rejected);
    }
    assert_int_equal(at->peer.n_requests, sizeof(cases) / sizeof(cases[0]));
}

static void test_asked_delay_is_kept(void **state)
{
    struct at *at = started(state);
    http_peer_script(&at->peer, HTTP_PEER_ANSWERS,
                     "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n");
    http_peer_script(&at->peer, HTTP_PEER_ANSWERS, OK_EMPTY);
    rig_put(at->rig, SIGNAL_TRACES, "spans");
    uint64_t first_ns = await(at, 0)->time_ns;
    assert_true(await(at, 1)->time_ns - first_ns >= 990 * NS_PER_MS);
}

/* ---- servers that do harm ---- */

static void test_no_answer_in_time(void **state)
{
    static const struct http_peer_answer answers[] = {
        {HTTP_PEER_SILENT, ""},
        {HTTP_PEER_DRIPS, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
                          "0123456789012345678901234567890123456789012345678901234567890123456789"},
    };
    struct at *at = *state;
    at->rig->config.otlp.timeout_ns = 100 * NS_PER_MS;
    started(state);
    for (size_t i = 0; i < 2; i++) {
        http_peer_no_script(&at->peer);
        http_peer_script(&at->peer, answers[i].manner, answers[i].text);
        http_peer_script(&at->peer, HTTP_PEER_ANSWERS, OK_EMPTY);
        rig_put(at->rig, SIGNAL_TRACES, "spans");
        uint64_t first_ns = await(at, 2 * i)->time_ns;
        const struct http_peer_request *second = await(at, 2 * i + 1);
        assert_true(second->time_ns - first_ns >= 90 * NS_PER_MS);
        assert_true(second->connection > http_peer_request(&at->peer, 2 * i)->connection);
        rig_await_empty(at->rig);
    }
}

static void test_no_timeout(void **state)
{
    struct at *at = *state;
    at->rig->config.otlp.timeout_ns = 0;
    exporter_rig_start(at->rig);
    http_peer_script(&at->peer, HTTP_PEER_SILENT, "");
    rig_put(at->rig, SIGNAL_TRACES, "spans");
    await(at, 0);
    rig_pause(at->rig, 300);
    assert_int_equal(at->peer.n_requests, 1);
    assert_int_equal(at->peer.n_connections, 1);
}

/* Of a body that is longer than anybody reads, or of bytes after the answer, nothing is left for
 * the next request. */
static void test_too_much(void **state)
{
    struct at *at = started(state);
    char *large = malloc(200000);
    assert_non_null(large);
    int head = snprintf(large, 200000, "HTTP/1.1 200 OK\r\nContent-Length: 190000\r\n\r\n");
    memset(large + head, 'x', 190000);
    large[head + 190000] = 0;
    http_peer_script(&at->peer, HTTP_PEER_ANSWERS, large);
    http_peer_script(&at->peer, HTTP_PEER_ANSWERS, OK_EMPTY OK_EMPTY);
    http_peer_script(&at->peer, HTTP_PEER_ANSWERS, OK_EMPTY);
    for (size_t i = 0; i < 3; i++) {
        rig_put(at->rig, SIGNAL_TRACES, "spans");
        assert_int_equal(await(at, i)->connection, i);
        rig_await_empty(at->rig);
    }
    assert_int_equal(at->peer.n_requests, 3);
    free(large);
}

/* It says no before it has read all, and hangs up. */
static void test_early_answer(void **state)
{
    struct at *at = started(state);
    int64_t before = rig_dropped("too_big");
    uint8_t *large = calloc(1, 3 << 20);
    assert_non_null(large);
    http_peer_script(&at->peer, HTTP_PEER_EARLY,
                     "HTTP/1.1 413 Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    http_peer_script(&at->peer, HTTP_PEER_ANSWERS, OK_EMPTY);
    rig_put_bytes(at->rig, SIGNAL_PROFILES, BYTES(large, 3 << 20));
    await(at, 0);
    rig_put(at->rig, SIGNAL_PROFILES, "small");
    rig_await_empty(at->rig);
    /* The reset may overtake the answer; then the request went again, and was taken. */
    assert_true(rig_dropped("too_big") == before + 3 || at->peer.n_requests == 3);
    free(large);
}

/* Without a pause: the request was not refused, its connection was old. */
static void test_kept_connection_that_has_gone(void **state)
{
    struct at *at = *state;
    at->rig->config.otlp.retry.initial_interval_ns = 60 * NS_PER_SEC;
    at->rig->config.otlp.retry.max_interval_ns = 60 * NS_PER_SEC;
    started(state);
    http_peer_script(&at->peer, HTTP_PEER_CLOSES_KEPT, OK_EMPTY);
    for (size_t i = 0; i < 4; i++) {
        rig_put(at->rig, SIGNAL_TRACES, "spans");
        assert_int_equal(await(at, i)->connection, i);
        rig_await_empty(at->rig);
    }
}

static void test_idle_connection_is_closed(void **state)
{
    struct at *at = *state;
    at->rig->config.otlp.idle_conn_timeout_ns = 100 * NS_PER_MS;
    started(state);
    rig_put(at->rig, SIGNAL_TRACES, "spans");
    await(at, 0);
    rig_pause(at->rig, 20);
    assert_false(list_empty(&at->peer.connections));
    rig_pause(at->rig, 200);
    assert_true(list_empty(&at->peer.connections));
}

/* ---- TLS ---- */

static void test_tls(void **state)
{
    struct at *at = *state;
    char why[TLS_WHY_MAX];
    certificate_make(&at->ca, &(struct certificate_wish){.name = "ca", .ca = true});
    certificate_make(&at->server, &(struct certificate_wish){
                                      .name = "server", .issuer = &at->ca, .host = "localhost"});
    const struct tls_settings server = {
        .server = true, .name = "the peer", .max_version = TLS_1_3, .alpn = "http/1.1"};
    const struct tls_settings client = {
        .name = "the exporter", .max_version = TLS_1_3, .alpn = "http/1.1", .server_name = ""};
    assert_int_equal(
        tls_context_open(&server,
                         &(struct tls_material){.certificate = certificate_pem(&at->server),
                                                .key = certificate_key(&at->server)},
                         &at->tls, why),
        0);
    assert_int_equal(tls_context_open(&client,
                                      &(struct tls_material){.cas = certificate_pem(&at->ca)},
                                      &at->rig->tls, why),
                     0);
    at->peer.gate.context = at->tls;
    struct config_url *url = &at->rig->config.otlp.url;
    url->endpoint.scheme = CONFIG_SCHEME_HTTPS;
    at->rig->config.otlp.urls[CONFIG_TRACES] = *url; /* 127.0.0.1: not whom it is for */
    strcpy(url->endpoint.host, "localhost");
    started(state);
    uint8_t *large = calloc(1, 1 << 20);
    assert_non_null(large);
    rig_put_bytes(at->rig, SIGNAL_PROFILES, BYTES(large, 1 << 20));
    assert_int_equal(await(at, 0)->body.len, 1 << 20);
    rig_put(at->rig, SIGNAL_PROFILES, "samples");
    assert_int_equal(await(at, 1)->connection, 0);
    rig_put(at->rig, SIGNAL_TRACES, "spans");
    rig_pause(at->rig, 200);
    assert_int_equal(at->peer.n_requests, 2);
    assert_false(rig_is_empty(at->rig));
    free(large);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_request),
        RIG_TEST(test_own_url),
        RIG_TEST(test_json_and_compression),
        RIG_TEST(test_gzip),
        RIG_TEST(test_large_request),
        RIG_TEST(test_tried_again),
        RIG_TEST(test_given_up),
        RIG_TEST(test_too_big),
        RIG_TEST(test_backend_without_profiles),
        RIG_TEST(test_partial_success),
        RIG_TEST(test_asked_delay_is_kept),
        RIG_TEST(test_no_answer_in_time),
        RIG_TEST(test_no_timeout),
        RIG_TEST(test_too_much),
        RIG_TEST(test_early_answer),
        RIG_TEST(test_kept_connection_that_has_gone),
        RIG_TEST(test_idle_connection_is_closed),
        RIG_TEST(test_tls),
    };
    return cmocka_run_group_tests_name("otlp_http", tests, NULL, NULL);
}
