/* SPDX-License-Identifier: Apache-2.0 */
/* A client's connection against a server written by hand. */
#include "test/support/net/h2_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static bool stream_closed(struct rig *rig)
{
    struct h2_end_stream *stream = h2_end_last(&rig->end);
    return stream && stream->closed;
}

static const struct h2_header get[] = {
    {":method", {(const uint8_t *)"POST", 4}, false},
    {":scheme", {(const uint8_t *)"http", 4}, false},
    {":path", {(const uint8_t *)"/x", 2}, false},
    {":authority", {(const uint8_t *)"here", 4}, false},
};

static struct h2_end_stream *ask(struct rig *rig)
{
    struct buf body = BUF_INIT(0);
    return h2_end_request(&rig->end, get, 4, &body);
}

static void answer(struct rig *rig, uint32_t stream, const char *status, uint8_t flags)
{
    _cleanup_buf_ struct buf block = BUF_INIT(0);
    h2_raw_header(&block, ":status", BYTES_STR(status));
    h2_raw_header(&block, "x-of", BYTES_STR(status));
    rig_frame(rig, RAW_HEADERS, flags | RAW_END_HEADERS, stream, buf_bytes(&block));
}

static void test_interim_answers(void **state)
{
    struct rig *rig = *state;
    _cleanup_buf_ struct buf trailers = BUF_INIT(0);
    rig_start(rig, &rig_no_settings, false);
    struct h2_end_stream *stream = ask(rig);
    rig_run(rig, rig_never, 10);
    answer(rig, 1, "100", 0);
    answer(rig, 1, "103", 0);
    rig_run(rig, rig_never, 10);
    assert_false(stream->headers_seen);
    answer(rig, 1, "200", 0);
    rig_frame(rig, RAW_DATA, 0, 1, BYTES_LIT("body"));
    h2_raw_header(&trailers, "grpc-status", BYTES_LIT("0"));
    rig_frame(rig, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, 1, buf_bytes(&trailers));
    assert_true(rig_run(rig, stream_closed, 5000));
    assert_string_equal(h2_end_headers(stream), ":status: 200\nx-of: 200\n");
    assert_string_equal(h2_end_trailers(stream), "grpc-status: 0\n");
    assert_true(bytes_is(buf_bytes(&stream->body), "body"));
}

static void test_goaway_leaves_out_a_stream(void **state)
{
    static const uint8_t last_1[8] = {0, 0, 0, 1, 0, 0, 0, 0};
    struct rig *rig = *state;
    rig_start(rig, &rig_no_settings, false);
    struct h2_end_stream *first = ask(rig), *second = ask(rig);
    rig_run(rig, rig_never, 10);
    rig_frame(rig, RAW_GOAWAY, 0, 0, BYTES(last_1, 8));
    assert_true(rig_run(rig, stream_closed, 5000));
    assert_true(second->unprocessed);
    assert_true(rig->end.goaway);
    assert_false(first->closed);
    answer(rig, 1, "200", RAW_END_STREAM);
    assert_true(rig_run(rig, rig_ended, 5000));
    assert_true(first->ended);
    assert_int_equal(first->h2_error, 0);
    assert_int_equal(rig->end.error, 0);
}

static void test_stream_limit_of_the_server(void **state)
{
    static const uint8_t none[6] = {0, 3, 0, 0, 0, 0}, one[6] = {0, 3, 0, 0, 0, 1};
    struct rig *rig = *state;
    struct h2_raw_seen seen;
    rig_start(rig, &rig_no_settings, false);
    rig_frame(rig, RAW_SETTINGS, 0, 0, BYTES(none, 6));
    rig_run(rig, rig_never, 20);
    ask(rig);
    rig_run(rig, rig_never, 20);
    assert_false(rig_saw(rig, RAW_HEADERS, 1, &seen));
    rig_frame(rig, RAW_SETTINGS, 0, 0, BYTES(one, 6));
    rig_run(rig, rig_never, 20);
    assert_true(rig_saw(rig, RAW_HEADERS, 1, &seen));
}

static void test_endless_answer_headers(void **state)
{
    struct rig *rig = *state;
    char value[3000];
    memset(value, 'v', sizeof(value));
    int64_t before = rig_limit("header_list");
    rig_start(rig, &rig_no_settings, false);
    struct h2_end_stream *stream = ask(rig);
    rig_run(rig, rig_never, 10);
    _cleanup_buf_ struct buf block = BUF_INIT(0);
    h2_raw_header(&block, ":status", BYTES_LIT("200"));
    for (int i = 0; i < 4; i++)
        h2_raw_header(&block, "x-large", BYTES(value, sizeof(value)));
    rig_frame(rig, RAW_HEADERS, RAW_END_HEADERS, 1, buf_bytes(&block));
    assert_true(rig_run(rig, stream_closed, 5000));
    assert_int_equal(stream->h2_error, H2_INTERNAL_ERROR);
    assert_false(stream->headers_seen);
    assert_int_equal(rig_limit("header_list"), before + 1);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_interim_answers),
        RIG_TEST(test_goaway_leaves_out_a_stream),
        RIG_TEST(test_stream_limit_of_the_server),
        RIG_TEST(test_endless_answer_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
