/* SPDX-License-Identifier: Apache-2.0 */
/* Two connections of ours, one in each role, over a socket pair; for what a good peer never does
 * see test_h2_limits.c. */
#include "proto/http/h2.h"
#include "base/clock.h"
#include "base/stats.h"
#include "test/support/faults/fail_alloc.h"
#include "test/support/net/h2_end.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static const struct h2_header request_headers[] = {
    {":method", {(const uint8_t *)"POST", 4}, false},
    {":scheme", {(const uint8_t *)"http", 4}, false},
    {":path", {(const uint8_t *)"/x", 2}, false},
    {":authority", {(const uint8_t *)"here", 4}, false},
    {"authorization", {(const uint8_t *)"Bearer key", 10}, true},
};
#define N_REQUEST_HEADERS (sizeof(request_headers) / sizeof(request_headers[0]))

static struct buf body_of(size_t size)
{
    struct buf body = BUF_INIT(0);
    assert_int_equal(buf_reserve(&body, size + 1), 0);
    for (size_t i = 0; i < size; i++)
        body.data[i] = (uint8_t)(i * 7 + i / 251);
    body.len = size;
    return body;
}

static struct h2_end_stream *request(struct h2_end *client, size_t body_size)
{
    struct buf body = body_of(body_size);
    return h2_end_request(client, request_headers, N_REQUEST_HEADERS, &body);
}

static bool stream_closed(void *context)
{
    return ((struct h2_end_stream *)context)->closed;
}

/* ---- calls ---- */

static void test_call(void **state)
{
    static const size_t sizes[] = {0, 1, 16384, 16385, 1 << 20};
    struct h2_pair *pair = *state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        _cleanup_buf_ struct buf sent = body_of(sizes[i]);
        struct h2_end_stream *stream = request(&pair->client, sizes[i]);
        assert_true(h2_pair_run(pair, stream_closed, stream));
        assert_int_equal(stream->h2_error, 0);
        assert_true(stream->ended);
        struct h2_end_stream *served = h2_end_last(&pair->server);
        assert_int_equal(served->body.len, sizes[i]);
        assert_memory_equal(served->body.data, sent.data, sizes[i]);
        assert_string_equal(h2_end_headers(served),
                            ":method: POST\n:scheme: http\n:path: /x\n:authority: "
                            "here\nauthorization: Bearer key\n");
        assert_string_equal(h2_end_headers(stream), ":status: 200\nx-kind: echo\n");
        assert_string_equal(h2_end_trailers(stream), "grpc-status: 0\nx-note: all of it\n");
        assert_int_equal(stream->body.len, sizes[i]); /* the server echoes */
        assert_memory_equal(stream->body.data, sent.data, sizes[i]);
    }
    assert_int_equal(pair->client.n_open, 0);
    assert_int_equal(pair->server.n_open, 0);
}

static void test_many_calls_wait_for_their_turn(void **state)
{
    struct h2_pair *pair = *state; /* the server takes 4 at once */
    struct h2_end_stream *streams[50];
    assert_true(
        h2_pair_run(pair, stream_closed, request(&pair->client, 0))); /* its SETTINGS are known */
    for (size_t i = 0; i < 50; i++)
        streams[i] = request(&pair->client, 1000 * i);
    for (size_t i = 0; i < 50; i++) {
        assert_true(h2_pair_run(pair, stream_closed, streams[i]));
        assert_int_equal(streams[i]->h2_error, 0);
        assert_int_equal(streams[i]->body.len, 1000 * i);
    }
    assert_true(pair->server.most_open <= 4);
    assert_int_equal(pair->server.n_streams, 51);
}

static void test_answer_without_body(void **state)
{
    struct h2_pair *pair = *state;
    pair->server.answer = H2_END_HEADERS_ONLY;
    struct h2_end_stream *stream = request(&pair->client, 10);
    assert_true(h2_pair_run(pair, stream_closed, stream));
    assert_string_equal(h2_end_headers(stream), ":status: 200\nx-kind: echo\n");
    assert_string_equal(h2_end_trailers(stream), "");
    assert_int_equal(stream->body.len, 0);
    assert_true(stream->ended);
}

/* An answer before the end of a request: the client gets it whole, the rest of the body is not
 * wanted, and other streams do not starve for the window that it held. */
static void test_early_answer(void **state)
{
    struct h2_pair *pair = *state;
    for (int i = 0; i < 20; i++) {
        pair->server.answer = H2_END_AT_HEADERS;
        struct h2_end_stream *stream = request(&pair->client, 1 << 20);
        assert_true(h2_pair_run(pair, stream_closed, stream));
        assert_int_equal(stream->h2_error, 0);
        assert_true(stream->ended);
        assert_string_equal(h2_end_headers(stream), ":status: 200\nx-kind: echo\n");
        assert_true(h2_end_last(&pair->server)->body.len < 1 << 20);
    }
    pair->server.answer = H2_END_ECHO;
    struct h2_end_stream *stream = request(&pair->client, 1 << 20);
    assert_true(h2_pair_run(pair, stream_closed, stream));
    assert_int_equal(stream->body.len, 1 << 20);
}

/* ---- windows ---- */

static bool never(void *context)
{
    (void)context;
    return false;
}

static void test_window_is_given_by_the_owner(void **state)
{
    struct h2_pair *pair = *state;
    pair->server.keeps_window = true;
    struct h2_end_stream *stream = request(&pair->client, 200000);
    assert_false(h2_pair_run_for(pair, never, NULL, 100));
    struct h2_end_stream *served = h2_end_last(&pair->server);
    assert_int_equal(served->body.len, H2_PAIR_WINDOW);
    h2_consumed(served->stream, 40000, true);
    assert_false(h2_pair_run_for(pair, never, NULL, 100));
    assert_true(served->body.len > H2_PAIR_WINDOW && served->body.len <= H2_PAIR_WINDOW + 40000);
    pair->server.keeps_window = false;
    h2_consumed(served->stream, served->body.len, true);
    assert_true(h2_pair_run(pair, stream_closed, stream));
    assert_int_equal(served->body.len, 200000);
}

/* With its window given to the connection alone, a stream stops and the others go on. */
static void test_unwanted_stream_stops_alone(void **state)
{
    struct h2_pair *pair = *state;
    pair->server.connection_window_only = true;
    struct h2_end_stream *unwanted = request(&pair->client, 200000);
    assert_false(h2_pair_run_for(pair, never, NULL, 100));
    assert_int_equal(h2_end_last(&pair->server)->body.len, H2_PAIR_WINDOW);
    pair->server.connection_window_only = false;
    for (int i = 0; i < 10; i++) {
        struct h2_end_stream *stream = request(&pair->client, 100000);
        assert_true(h2_pair_run(pair, stream_closed, stream));
    }
    assert_false(unwanted->closed);
    h2_reset(unwanted->stream, H2_CANCEL);
    assert_true(h2_pair_run(pair, stream_closed, unwanted));
}

/* ---- resets and ends ---- */

static void test_reset_by_either_side(void **state)
{
    struct h2_pair *pair = *state;
    pair->server.answer = H2_END_SILENT;
    struct h2_end_stream *stream = request(&pair->client, 10);
    assert_false(h2_pair_run_for(pair, never, NULL, 50));
    h2_reset(h2_end_last(&pair->server)->stream, H2_ENHANCE_YOUR_CALM);
    assert_true(h2_pair_run(pair, stream_closed, stream));
    assert_int_equal(stream->h2_error, H2_ENHANCE_YOUR_CALM);
    assert_false(stream->unprocessed);

    stream = request(&pair->client, 10);
    assert_false(h2_pair_run_for(pair, never, NULL, 50));
    h2_reset(stream->stream, H2_CANCEL);
    struct h2_end_stream *served = h2_end_last(&pair->server);
    assert_true(h2_pair_run(pair, stream_closed, served));
    assert_int_equal(served->h2_error, H2_CANCEL);
}

static void test_refused_stream(void **state)
{
    struct h2_pair *pair = *state;
    pair->server.refuses = true;
    struct h2_end_stream *stream = request(&pair->client, 10);
    assert_true(h2_pair_run(pair, stream_closed, stream));
    assert_true(stream->unprocessed);
    assert_int_equal(pair->server.n_streams, 0);
}

static bool both_ended(void *context)
{
    struct h2_pair *pair = context;
    return pair->client.ended && pair->server.ended;
}

/* The server ends: what it has begun it answers, and both sides end in order. */
static void test_graceful_end(void **state)
{
    struct h2_pair *pair = *state;
    pair->server.answer = H2_END_SILENT;
    struct h2_end_stream *stream = request(&pair->client, 10);
    assert_false(h2_pair_run_for(pair, never, NULL, 50));
    h2_shutdown(pair->server.conn);
    h2_shutdown(pair->server.conn);
    assert_false(h2_pair_run_for(pair, never, NULL, 50));
    assert_true(pair->client.goaway);
    assert_true(h2_closing(pair->client.conn));
    struct h2_stream *none;
    assert_int_equal(h2_request(pair->client.conn, request_headers, N_REQUEST_HEADERS,
                                BYTES_LIT(""), NULL, &none),
                     -ENOTCONN);
    h2_end_answer(h2_end_last(&pair->server));
    assert_true(h2_pair_run(pair, stream_closed, stream));
    assert_true(stream->ended);
    assert_int_equal(stream->h2_error, 0);
    assert_true(h2_pair_run(pair, both_ended, pair));
    assert_int_equal(pair->server.error, 0);
    assert_int_equal(pair->client.error, 0);
}

static void test_client_ends_when_its_streams_have(void **state)
{
    struct h2_pair *pair = *state;
    struct h2_end_stream *stream = request(&pair->client, 100);
    h2_shutdown(pair->client.conn);
    assert_true(h2_pair_run(pair, both_ended, pair));
    assert_true(stream->ended);
    assert_int_equal(pair->client.error, 0);
    assert_int_equal(pair->server.error, 0);
}

/* A peer that vanishes in mid-call: its stream and then its connection end, each once. */
static void test_peer_vanishes(void **state)
{
    struct h2_pair *pair = *state;
    pair->server.answer = H2_END_SILENT;
    struct h2_end_stream *stream = request(&pair->client, 10);
    assert_false(h2_pair_run_for(pair, never, NULL, 50));
    struct h2_end_stream *served = h2_end_last(&pair->server);
    h2_close(pair->client.conn);
    pair->client.conn = NULL;
    assert_true(stream->closed);
    assert_int_equal(stream->h2_error, H2_CANCEL);
    assert_true(h2_pair_run(pair, stream_closed, served));
    assert_int_equal(served->h2_error, H2_CONNECTION_LOST);
    assert_true(pair->server.ended);
    assert_int_equal(pair->server.error, -ECONNRESET);
}

/* ---- time ---- */

static void test_deadline(void **state)
{
    struct h2_pair *pair = *state;
    pair->server.answer = H2_END_SILENT;
    struct h2_end_stream *stream = request(&pair->client, 10);
    assert_false(h2_pair_run_for(pair, never, NULL, 50));
    h2_deadline(h2_end_last(&pair->server)->stream, clock_monotonic_ns() + 20 * NS_PER_MS);
    assert_true(h2_pair_run(pair, stream_closed, stream));
    assert_int_equal(stream->h2_error, H2_CANCEL);
}

static bool goaway_seen(void *context)
{
    return ((struct h2_end *)context)->goaway;
}

/* The call that runs when the connection has its age is answered still; within the grace alone. */
static void test_max_age(void **state)
{
    struct h2_pair *pair = *state;
    int64_t before = stats_find("spanprof_h2_limit_total", "limit=\"max_age\"");
    h2_pair_reopen(pair, &(struct h2_settings){.max_age_ns = 50 * NS_PER_MS});
    pair->server.answer = H2_END_SILENT;
    struct h2_end_stream *stream = request(&pair->client, 10);
    assert_true(h2_pair_run(pair, goaway_seen, &pair->client));
    assert_false(stream->closed);
    h2_end_answer(h2_end_last(&pair->server));
    assert_true(h2_pair_run(pair, both_ended, pair));
    assert_int_equal(stream->h2_error, 0);
    assert_int_equal(pair->server.error, 0);
    assert_int_equal(stats_find("spanprof_h2_limit_total", "limit=\"max_age\""), before + 1);

    h2_pair_reopen(pair, &(struct h2_settings){.max_age_ns = 50 * NS_PER_MS,
                                               .max_age_grace_ns = 50 * NS_PER_MS});
    pair->server.answer = H2_END_SILENT;
    request(&pair->client, 10);
    assert_true(h2_pair_run(pair, both_ended, pair));
    assert_int_equal(pair->server.error, -ETIMEDOUT);
}

static void test_idle_timeout(void **state)
{
    struct h2_pair *pair = *state;
    int64_t before = stats_find("spanprof_h2_limit_total", "limit=\"idle_timeout\"");
    h2_pair_reopen(pair, &(struct h2_settings){.idle_timeout_ns = 50 * NS_PER_MS});
    struct h2_end_stream *stream = request(&pair->client, 10);
    assert_true(h2_pair_run(pair, stream_closed, stream));
    uint64_t start_ns = clock_monotonic_ns();
    assert_true(h2_pair_run(pair, both_ended, pair));
    assert_true(clock_monotonic_ns() - start_ns >= 45 * NS_PER_MS);
    assert_int_equal(pair->server.error, 0);
    assert_int_equal(stats_find("spanprof_h2_limit_total", "limit=\"idle_timeout\""), before + 1);
}

/* ---- memory ---- */

/* Wherever memory runs out: no crash, no leak, and each stream is closed once. */
static void test_no_memory(void **state)
{
    struct h2_pair *pair = *state;
    unsigned failures = 0;
    for (unsigned n = 1; n < 200; n++) {
        _cleanup_buf_ struct buf body = body_of(5000);
        struct h2_stream *stream;
        struct h2_end_stream *record = h2_end_record(&pair->client);
        fail_alloc_at(n);
        int error = h2_request(pair->client.conn, request_headers, N_REQUEST_HEADERS,
                               buf_bytes(&body), record, &stream);
        if (!error)
            h2_pair_run_for(pair, stream_closed, record, 1000);
        bool hit = fail_alloc_hit();
        failures += hit;
        if (error)
            assert_int_equal(error, -ENOMEM);
        else
            assert_true(record->closed || pair->client.ended || pair->server.ended);
        h2_pair_reopen(pair, &(struct h2_settings){0});
        if (!hit)
            break;
    }
    assert_true(failures >= 5);
}

static int setup(void **state)
{
    return (*state = h2_pair_open(&(struct h2_settings){0})) ? 0 : -1;
}

static int teardown(void **state)
{
    h2_pair_close(*state);
    return 0;
}

#define PAIR_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(test_call),
        PAIR_TEST(test_many_calls_wait_for_their_turn),
        PAIR_TEST(test_answer_without_body),
        PAIR_TEST(test_early_answer),
        PAIR_TEST(test_window_is_given_by_the_owner),
        PAIR_TEST(test_unwanted_stream_stops_alone),
        PAIR_TEST(test_reset_by_either_side),
        PAIR_TEST(test_refused_stream),
        PAIR_TEST(test_graceful_end),
        PAIR_TEST(test_client_ends_when_its_streams_have),
        PAIR_TEST(test_peer_vanishes),
        PAIR_TEST(test_deadline),
        PAIR_TEST(test_max_age),
        PAIR_TEST(test_idle_timeout),
        PAIR_TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
