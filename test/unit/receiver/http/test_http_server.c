/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stats.h"
#include "proto/http/grpc.h"
#include "test/support/fixtures/skip.h"
#include "test/support/net/h2_end.h"
#include "test/support/net/http_rig.h"
#include "test/support/net/otlp_client.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

/* ---- success ---- */

static void test_success(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk;
    talk_open(&talk, rig);
    for (int i = 0; i < 3; i++) { /* one connection for all */
        talk_say_traces(&talk, "", BYTES_LIT("hello"));
        assert_int_equal(talk_hear(&talk), 200);
        assert_true(talk_has(&talk, "Content-Type: application/x-protobuf"));
        assert_true(talk_has(&talk, "Content-Length: 0"));
        talk_forget(&talk);
        assert_int_equal(rig->intake.n_requests, i + 1);
        assert_int_equal(rig->intake.last_signal, SIGNAL_TRACES);
        assert_int_equal(rig->intake.last_encoding, ENCODING_IDENTITY);
        assert_true(bytes_is(buf_bytes(&rig->intake.last_body), "hello"));
    }
    assert_int_equal(stats_find("spanprof_http_server_connections", ""), 1);
    talk_close(&talk);
}

static void test_both_families(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk = {.rig = rig, .fd = otlp_client_connect(rig->port, true)};
    if (talk.fd < 0)
        skip_because("this node has no IPv6");
    talk_say_traces(&talk, "", BYTES_LIT("hello"));
    assert_int_equal(talk_hear(&talk), 200);
    talk_close(&talk);
}

static void test_bodies(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk;
    uint8_t *large = malloc(BODY_MAX);
    for (size_t i = 0; i < BODY_MAX; i++)
        large[i] = (uint8_t)(i * 31 >> 3);
    talk_open(&talk, rig);
    talk_say_traces(&talk, "", (struct bytes){0});
    assert_int_equal(talk_hear(&talk), 200);
    assert_int_equal(rig->intake.last_body.len, 0);
    talk_forget(&talk);
    talk_say_traces(&talk, "", BYTES(large, BODY_MAX));
    assert_int_equal(talk_hear(&talk), 200);
    assert_int_equal(rig->intake.last_body.len, BODY_MAX);
    assert_memory_equal(rig->intake.last_body.data, large, BODY_MAX);
    talk_close(&talk);
    free(large);
}

static void test_chunked(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk;
    talk_open(&talk, rig);
    talk_say(&talk, "POST", "/v1/traces", PROTOBUF "Transfer-Encoding: chunked\r\n",
             (struct bytes){0});
    for (int i = 0; i < 10; i++) {
        assert_int_equal(buf_printf(&talk.out, "5\r\nhello\r\n"), 0);
        http_rig_pause(rig, &talk, 2);
        assert_int_equal(rig->intake.n_requests, 0);
    }
    assert_int_equal(buf_printf(&talk.out, "0\r\n\r\n"), 0);
    assert_int_equal(talk_hear(&talk), 200);
    assert_int_equal(rig->intake.last_body.len, 50);
    talk_close(&talk);
}

static void test_encodings(void **state)
{
    static const struct {
        const char *line;
        unsigned status;
        enum intake_encoding encoding;
    } cases[] = {
        {"Content-Encoding: gzip\r\n", 200, ENCODING_GZIP},
        {"content-encoding: GZIP\r\n", 200, ENCODING_GZIP},
        {"Content-Encoding: zstd\r\n", 200, ENCODING_ZSTD},
        {"Content-Encoding: deflate\r\n", 200, ENCODING_DEFLATE},
        {"Content-Encoding: zlib\r\n", 200, ENCODING_DEFLATE},
        {"Content-Encoding: identity\r\n", 200, ENCODING_IDENTITY},
        {"Content-Encoding: br\r\n", 415, 0},
        {"Content-Encoding: gzip, gzip\r\n", 415, 0},
    };
    struct http_rig *rig = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct talk talk;
        size_t before = rig->intake.n_requests;
        talk_open(&talk, rig);
        talk_say_traces(&talk, cases[i].line, BYTES_LIT("x"));
        assert_int_equal(talk_hear(&talk), cases[i].status);
        assert_int_equal(rig->intake.n_requests - before, cases[i].status == 200);
        if (cases[i].status == 200)
            assert_int_equal(rig->intake.last_encoding, cases[i].encoding);
        talk_close(&talk);
    }
}

/* Answered when it is committed, not before; and other connections do not wait for it. */
static void test_answer_follows_the_commit(void **state)
{
    struct http_rig *rig = *state;
    struct talk slow, other;
    talk_open(&slow, rig);
    talk_open(&other, rig);
    rig->intake.hold = true;
    talk_say_traces(&slow, "", BYTES_LIT("slow"));
    http_rig_pause(rig, &slow, 50);
    assert_int_equal(rig->intake.n_waiting, 1);
    assert_int_equal(slow.in.len, 0);
    talk_say(&other, "GET", "/v1/traces", "", (struct bytes){0});
    assert_int_equal(talk_hear(&other), 405);
    assert_int_equal(slow.in.len, 0);
    fake_intake_release(&rig->intake);
    assert_int_equal(talk_hear(&slow), 200);
    talk_close(&slow);
    talk_close(&other);
}

/* ---- refusals ---- */

static void assert_status_body(const struct talk *talk, enum grpc_status expected)
{
    enum grpc_status status;
    struct bytes message;
    assert_true(talk_has(talk, "Content-Type: application/x-protobuf"));
    assert_true(grpc_details_read(talk_body(talk), &status, &message));
    assert_int_equal(status, expected);
    assert_true(message.len > 0);
}

static void test_outcomes_of_the_intake(void **state)
{
    static const struct {
        enum intake_outcome outcome;
        unsigned http;
        enum grpc_status grpc;
    } cases[] = {
        {INTAKE_BUSY, 503, GRPC_UNAVAILABLE},
        {INTAKE_MALFORMED, 400, GRPC_INVALID_ARGUMENT},
        {INTAKE_TOO_BIG, 413, GRPC_RESOURCE_EXHAUSTED},
        {INTAKE_NO_PIPELINE, 404, GRPC_UNIMPLEMENTED},
    };
    struct http_rig *rig = *state;
    struct talk talk;
    talk_open(&talk, rig);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rig->intake.outcome = cases[i].outcome;
        talk_say_traces(&talk, "", BYTES_LIT("x"));
        assert_int_equal(talk_hear(&talk), cases[i].http);
        assert_status_body(&talk, cases[i].grpc);
        assert_int_equal(talk_has(&talk, "Retry-After: 1"), cases[i].outcome == INTAKE_BUSY);
        talk_forget(&talk); /* the connection serves on */
    }
    rig->intake.outcome = INTAKE_ACCEPTED;
    talk_say_traces(&talk, "", BYTES_LIT("x"));
    assert_int_equal(talk_hear(&talk), 200);
    talk_close(&talk);
}

static void test_not_welcome(void **state)
{
    static const struct {
        const char *method, *path, *lines;
        unsigned status;
    } cases[] = {
        {"POST", "/v1/trace", PROTOBUF "Content-Length: 1\r\n", 404},
        {"POST", "/", PROTOBUF "Content-Length: 1\r\n", 404},
        {"POST", "/v1/logs", PROTOBUF "Content-Length: 1\r\n", 404}, /* no pipeline */
        {"GET", "/v1/traces", "", 405},
        {"PUT", "/v1/traces", PROTOBUF "Content-Length: 1\r\n", 405},
        {"POST", "/v1/traces", "Content-Length: 1\r\n", 415},
        {"POST", "/v1/traces", "Content-Type: application/jsonp\r\nContent-Length: 1\r\n", 415},
        {"POST", "/v1/traces", "Content-Type: text/plain\r\nContent-Length: 1\r\n", 415},
        {"POST", "/v1/traces", "Content-Type: application/x-protobuffer\r\nContent-Length: 1\r\n",
         415},
        {"POST", "/v1/traces",
         "Content-Type: Application/X-Protobuf ; a=b\r\nContent-Length: 1\r\n", 200},
        {"POST", "/v1/traces?x=y", PROTOBUF "Content-Length: 1\r\n", 200},
        {"POST", "/v1/traces", PROTOBUF "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400},
        {"POST", "/v1/traces", PROTOBUF "Content-Length: 1x\r\n", 400},
    };
    struct http_rig *rig = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct talk talk;
        size_t before = rig->intake.n_requests;
        talk_open(&talk, rig);
        talk_say(&talk, cases[i].method, cases[i].path, cases[i].lines, BYTES_LIT("x"));
        unsigned status = talk_hear(&talk);
        if (status != cases[i].status)
            fail_msg("%s %s %s: %u", cases[i].method, cases[i].path, cases[i].lines, status);
        assert_int_equal(rig->intake.n_requests - before, status == 200);
        if (status == 405)
            assert_true(talk_has(&talk, "Allow: POST"));
        talk_close(&talk);
    }
}

/* In the encoding of the request, errors too; and the intake knows of it. */
static void test_json_is_answered_in_json(void **state)
{
    static const char json[] = "Content-Type: Application/JSON; charset=utf-8\r\n"
                               "Content-Length: 2\r\n";
    struct http_rig *rig = *state;
    struct talk talk;
    talk_open(&talk, rig);
    talk_say(&talk, "POST", "/v1/traces", json, BYTES_LIT("{}"));
    assert_int_equal(talk_hear(&talk), 200);
    assert_true(rig->intake.last_json);
    assert_true(talk_has(&talk, "Content-Type: application/json"));
    assert_true(bytes_is(talk_body(&talk), "{}"));
    talk_forget(&talk);
    rig->intake.outcome = INTAKE_MALFORMED;
    talk_say(&talk, "POST", "/v1/traces", json, BYTES_LIT("{}"));
    assert_int_equal(talk_hear(&talk), 400);
    assert_true(talk_has(&talk, "Content-Type: application/json"));
    assert_true(
        bytes_is(talk_body(&talk), "{\"code\":3,\"message\":\"the request cannot be decoded\"}"));
    talk_forget(&talk);
    talk_say(&talk, "POST", "/v1/nothing", json, BYTES_LIT("{}"));
    assert_int_equal(talk_hear(&talk), 404);
    assert_true(talk_has(&talk, "Content-Type: application/json"));
    talk_forget(&talk);
    rig->intake.outcome = INTAKE_ACCEPTED;
    talk_say_traces(&talk, "", BYTES_LIT("x"));
    assert_int_equal(talk_hear(&talk), 200);
    assert_false(rig->intake.last_json);
    assert_true(talk_has(&talk, "Content-Type: application/x-protobuf"));
    assert_int_equal(talk_body(&talk).len, 0);
    talk_close(&talk);
}

static void test_too_big(void **state)
{
    static const char chunked[] = PROTOBUF "Transfer-Encoding: chunked\r\n";
    struct http_rig *rig = *state;
    struct talk talk;
    uint8_t *large = calloc(1, 40 << 20);
    static const char refused[] = "signal=\"traces\",reason=\"too_big\"";
    int64_t before = stats_find("spanprof_requests_refused_total", refused);
    /* one byte too many, announced: answered, and the connection goes on */
    talk_open(&talk, rig);
    talk_say_traces(&talk, "", BYTES(large, BODY_MAX + 1));
    assert_int_equal(talk_hear(&talk), 413);
    assert_status_body(&talk, GRPC_RESOURCE_EXHAUSTED);
    talk_forget(&talk);
    /* in chunks: found at the byte that is too many */
    talk_say(&talk, "POST", "/v1/traces", chunked, (struct bytes){0});
    for (int i = 0; i < 11; i++)
        assert_int_equal(buf_printf(&talk.out, "2710\r\n%010000d\r\n", i), 0);
    assert_int_equal(buf_printf(&talk.out, "0\r\n\r\n"), 0);
    assert_int_equal(talk_hear(&talk), 413);
    talk_forget(&talk);
    talk_say_traces(&talk, "", BYTES_LIT("x"));
    assert_int_equal(talk_hear(&talk), 200);
    talk_close(&talk);
    /* asking first: answered instead of the word to go on */
    talk_open(&talk, rig);
    talk_say(&talk, "POST", "/v1/traces",
             PROTOBUF "Content-Length: 200000\r\nExpect: 100-continue\r\n", (struct bytes){0});
    assert_int_equal(talk_hear(&talk), 413);
    talk_close(&talk);
    /* without end: cut off */
    talk_open(&talk, rig);
    talk_say(&talk, "POST", "/v1/traces", chunked, (struct bytes){0});
    assert_int_equal(buf_printf(&talk.out, "%x\r\n", 40 << 20), 0);
    assert_int_equal(buf_append(&talk.out, large, 40 << 20), 0);
    assert_true(h2_run_loop(rig->loop, talk_closed, &talk, 10000));
    assert_int_equal(rig->budget.used_bytes, 0);
    assert_int_equal(rig->intake.n_requests, 1);
    assert_int_equal(stats_find("spanprof_requests_refused_total", refused) - before, 4);
    talk_close(&talk);
    free(large);
}

static void test_expect_continue(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk;
    talk_open(&talk, rig);
    talk_say(&talk, "POST", "/v1/traces", PROTOBUF "Content-Length: 5\r\nExpect: 100-continue\r\n",
             (struct bytes){0});
    assert_int_equal(talk_hear(&talk), 100);
    talk_forget(&talk);
    assert_int_equal(buf_append(&talk.out, "hello", 5), 0);
    assert_int_equal(talk_hear(&talk), 200);
    assert_true(bytes_is(buf_bytes(&rig->intake.last_body), "hello"));
    talk_close(&talk);
}

static void test_budget(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk;
    uint8_t *large = calloc(1, BODY_MAX);
    rig->budget.limit_bytes = 50000;
    talk_open(&talk, rig);
    talk_say_traces(&talk, "", BYTES(large, BODY_MAX));
    assert_int_equal(talk_hear(&talk), 503);
    assert_true(talk_has(&talk, "Retry-After: 1"));
    assert_int_equal(rig->budget.used_bytes, 0);
    talk_forget(&talk);
    talk_say_traces(&talk, "", BYTES(large, 1000));
    assert_int_equal(talk_hear(&talk), 200);
    talk_close(&talk);
    free(large);
}

static void test_not_http(void **state)
{
    static const char *const texts[] = {"\r\n\r\n\r\n\r\nnonsense\r\n\r\n",
                                        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01"};
    struct http_rig *rig = *state;
    for (size_t i = 0; i < 2; i++) {
        struct talk talk;
        talk_open(&talk, rig);
        assert_int_equal(buf_append(&talk.out, texts[i], strlen(texts[i])), 0);
        assert_true(talk_hear(&talk) != 200);
        talk_close(&talk);
    }
    assert_int_equal(rig->intake.n_requests, 0);
}

static void test_header_memory(void **state)
{
    struct http_rig *rig = *state;
    struct talk talk;
    talk_open(&talk, rig);
    assert_int_equal(buf_printf(&talk.out,
                                "POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-Large: %060000d\r\n\r\n",
                                1),
                     0);
    unsigned status = talk_hear(&talk);
    assert_true(status == 431 || status == 413 || status == 0);
    talk_close(&talk);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, http_rig_setup, http_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_success),
        RIG_TEST(test_both_families),
        RIG_TEST(test_bodies),
        RIG_TEST(test_chunked),
        RIG_TEST(test_encodings),
        RIG_TEST(test_answer_follows_the_commit),
        RIG_TEST(test_outcomes_of_the_intake),
        RIG_TEST(test_not_welcome),
        RIG_TEST(test_json_is_answered_in_json),
        RIG_TEST(test_too_big),
        RIG_TEST(test_expect_continue),
        RIG_TEST(test_budget),
        RIG_TEST(test_not_http),
        RIG_TEST(test_header_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
