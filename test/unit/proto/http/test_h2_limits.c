/* SPDX-License-Identifier: Apache-2.0 */
/* A server's connection against bytes written by hand: floods, slow peers, broken frames. */
#include "base/clock.h"
#include "test/support/net/h2_rig.h"
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- broken ---- */

static void test_not_http2(void **state)
{
    struct rig *rig = *state;
    rig_start(rig, &rig_no_settings, true);
    buf_clear(&rig->out);
    assert_int_equal(buf_printf(&rig->out, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 0);
    assert_true(rig_run(rig, rig_ended, 5000));
    assert_int_equal(rig->end.error, -EPROTO);
    assert_int_equal(rig->end.n_streams, 0);
}

static void test_broken_frames(void **state)
{
    static const uint8_t zero[20000];
    static const struct {
        uint8_t type, flags;
        uint32_t stream;
        struct bytes payload;
    } cases[] = {
        {RAW_DATA, 0, 1, {zero, 5}},          /* of a stream that is not open */
        {RAW_DATA, 0, 0, {zero, 5}},          /* of the connection */
        {RAW_HEADERS, 4, 2, {zero, 0}},       /* of an even stream */
        {RAW_HEADERS, 4, 1, {zero, 10}},      /* index 0 in HPACK */
        {RAW_CONTINUATION, 4, 1, {zero, 1}},  /* of nothing */
        {RAW_SETTINGS, 0, 0, {zero, 5}},      /* not a multiple of 6 */
        {RAW_PING, 0, 0, {zero, 7}},          /* not 8 */
        {RAW_WINDOW_UPDATE, 0, 0, {zero, 4}}, /* by nothing */
        {RAW_RST_STREAM, 0, 1, {zero, 4}},    /* of an idle stream */
        {RAW_DATA, 0, 1, {zero, 20000}},      /* larger than SETTINGS_MAX_FRAME_SIZE */
        {5, 4, 1, {zero, 4}},                 /* PUSH_PROMISE from a client */
    };
    struct rig *rig = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rig_start(rig, &rig_no_settings, true);
        rig_frame(rig, cases[i].type, cases[i].flags, cases[i].stream, cases[i].payload);
        assert_true(rig_run(rig, rig_ended, 5000));
        assert_int_equal(rig->end.error, -EPROTO);
        assert_int_equal(h2_end_last(&rig->end) ? h2_end_last(&rig->end)->headers_seen : 0, 0);
        h2_end_clear(&rig->end);
        close(rig->fd);
        buf_clear(&rig->in);
        buf_clear(&rig->out);
    }
}

static bool stream_closed(struct rig *rig)
{
    struct h2_end_stream *stream = h2_end_last(&rig->end);
    return stream && stream->closed;
}

/* A request that is no HTTP costs itself, not the connection. */
static void test_broken_request(void **state)
{
    struct rig *rig = *state;
    struct h2_raw_seen seen;
    _cleanup_buf_ struct buf block = BUF_INIT(0);
    rig_start(rig, &rig_no_settings, true);
    h2_raw_header(&block, ":method", BYTES_LIT("POST"));
    h2_raw_header(&block, "Upper", BYTES_LIT("case"));
    rig_frame(rig, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, 1, buf_bytes(&block));
    assert_true(rig_run(rig, stream_closed, 5000));
    assert_false(h2_end_last(&rig->end)->ended);
    rig_open_stream(rig, 3, RAW_END_HEADERS | RAW_END_STREAM);
    assert_false(rig_run(rig, rig_ended, 50));
    assert_true(h2_end_last(&rig->end)->ended);
    assert_true(rig_saw(rig, RAW_RST_STREAM, 1, &seen));
}

/* A stream that both sides have ended is over: a frame behind that is an error (RFC 9113, 5.1). */
static void test_frames_too_late(void **state)
{
    static const uint8_t types[] = {RAW_DATA, RAW_HEADERS};
    struct rig *rig = *state;
    for (size_t i = 0; i < sizeof(types); i++) {
        rig_start(rig, &rig_no_settings, true);
        rig->end.answer = H2_END_HEADERS_ONLY;
        rig_open_stream(rig, 1, RAW_END_HEADERS | RAW_END_STREAM);
        assert_true(rig_run(rig, stream_closed, 5000));
        _cleanup_buf_ struct buf block = BUF_INIT(0);
        h2_raw_header(&block, ":method", BYTES_LIT("POST"));
        rig_frame(rig, types[i], RAW_END_HEADERS, 1, buf_bytes(&block));
        assert_true(rig_run(rig, rig_ended, 5000));
        assert_int_equal(rig->end.error, -EPROTO);
        h2_end_clear(&rig->end);
        close(rig->fd);
        buf_clear(&rig->in);
        buf_clear(&rig->out);
    }
}

/* A request on a number that was passed over. */
static void test_numbers_that_fall(void **state)
{
    struct rig *rig = *state;
    rig_start(rig, &rig_no_settings, true);
    rig_open_stream(rig, 1, RAW_END_HEADERS);
    rig_open_stream(rig, 5, RAW_END_HEADERS);
    rig_open_stream(rig, 3, RAW_END_HEADERS);
    assert_true(rig_run(rig, rig_ended, 5000));
    rig_assert_goaway(rig, 1 /* PROTOCOL_ERROR */);
    assert_int_equal(rig->end.n_streams, 2);
}

/* Padding takes window but is no body: 100 bytes arrive behind far more padding than there is
 * window. */
static void test_padding(void **state)
{
    struct rig *rig = *state;
    uint8_t padded[1 + 1 + 255] = {255, 'x'};
    rig_start(rig, &rig_no_settings, true);
    rig_open_stream(rig, 1, RAW_END_HEADERS);
    for (int i = 0; i < 1000; i++) {
        rig_frame(rig, RAW_DATA, 8 /* PADDED */, 1, BYTES(padded, sizeof(padded)));
        if (i % 100 == 99)
            rig_run(rig, rig_never, 10);
    }
    rig_frame(rig, RAW_DATA, RAW_END_STREAM, 1, BYTES_LIT("!"));
    assert_false(rig_run(rig, rig_ended, 50));
    assert_int_equal(h2_end_last(&rig->end)->body.len, 1001);
    assert_true(h2_end_last(&rig->end)->ended);
}

/* ---- too much ---- */

static unsigned status_of(struct bytes block)
{
    nghttp2_hd_inflater *inflater;
    unsigned status = 0;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    while (block.len) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, block.data, block.len, 1);
        assert_true(n >= 0);
        block.data += n;
        block.len -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT && nv.namelen == 7)
            status = (unsigned)strtoul((const char *)nv.value, NULL, 10);
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
    }
    nghttp2_hd_inflate_del(inflater);
    return status;
}

static void test_header_list(void **state)
{
    struct rig *rig = *state;
    struct h2_raw_seen seen;
    char value[1000];
    memset(value, 'v', sizeof(value));
    int64_t before = rig_limit("header_list");
    rig_start(rig, &rig_no_settings, true);
    for (uint32_t id = 1; id <= 3; id += 2) {
        _cleanup_buf_ struct buf block = BUF_INIT(0);
        h2_raw_request_block(&block, "/x");
        for (int i = 0; i < (id == 1 ? 7 : 8); i++)
            h2_raw_header(&block, "x-large", BYTES(value, sizeof(value)));
        rig_frame(rig, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, id, buf_bytes(&block));
    }
    assert_true(rig_run(rig, stream_closed, 5000));
    assert_false(rig_run(rig, rig_ended, 20));
    assert_int_equal(rig_limit("header_list"), before + 1);
    assert_true(rig_saw(rig, RAW_HEADERS, 3, &seen));
    assert_int_equal(status_of(seen.payload), 431);
    assert_false(h2_end_last(&rig->end)->headers_seen);
    assert_int_equal(rig->end.n_streams, 2);
    assert_true(container_of(rig->end.streams.next, struct h2_end_stream, link)->ended);
}

static void test_continuation_flood(void **state)
{
    struct rig *rig = *state;
    rig_start(rig, &rig_no_settings, true);
    rig_open_stream(rig, 1, 0);
    for (int i = 0; i < 1000; i++)
        rig_frame(rig, RAW_CONTINUATION, 0, 1, (struct bytes){0});
    assert_true(rig_run(rig, rig_ended, 5000));
    assert_int_equal(rig->end.error, -EPROTO);
    assert_false(h2_end_last(&rig->end)->headers_seen);
}

static void test_rapid_reset(void **state)
{
    static const uint8_t cancel[4] = {0, 0, 0, H2_CANCEL};
    struct rig *rig = *state;
    rig->end.answer = H2_END_SILENT;
    rig_start(rig, &rig_no_settings, true);
    for (uint32_t i = 0; i < 5000; i++) {
        rig_open_stream(rig, 1 + 2 * i, RAW_END_HEADERS | RAW_END_STREAM);
        rig_frame(rig, RAW_RST_STREAM, 0, 1 + 2 * i, BYTES(cancel, 4));
        if (i % 50 == 49 && rig_run(rig, rig_ended, 4))
            break;
    }
    assert_true(rig->end.ended);
    assert_int_equal(rig->end.error, -EPROTO);
    assert_in_range(rig->end.n_streams, H2_RESET_BURST, H2_RESET_BURST + 200);
}

/* The other rapid reset: the peer makes us reset its streams. */
static void test_made_to_reset(void **state)
{
    static const uint8_t too_much[4] = {0x7f, 0xff, 0xff, 0xff};
    struct rig *rig = *state;
    rig->end.answer = H2_END_SILENT;
    rig_start(rig, &(struct h2_settings){.max_streams = 100}, true);
    for (uint32_t i = 0; i < 1000; i++) {
        rig_open_stream(rig, 1 + 2 * i, RAW_END_HEADERS);
        rig_frame(rig, RAW_WINDOW_UPDATE, 0, 1 + 2 * i, BYTES(too_much, 4));
        if (i % 10 == 9 && rig_run(rig, rig_ended, 4))
            break;
    }
    assert_true(rig->end.ended);
    assert_int_equal(rig->end.error, -EPROTO);
    assert_in_range(rig->end.n_streams, H2_GLITCH_BURST / 3, H2_GLITCH_BURST + 20);
}

static void test_senseless_frames(void **state)
{
    static const uint8_t priority[5] = {0, 0, 0, 0, 16};
    struct rig *rig = *state;
    for (int kind = 0; kind < 2; kind++) {
        int64_t before = rig_limit("glitches");
        rig->end.answer = H2_END_SILENT;
        rig_start(rig, &rig_no_settings, true);
        rig_open_stream(rig, 1, RAW_END_HEADERS);
        for (int i = 0; i < 300; i++) {
            if (kind)
                rig_frame(rig, RAW_PRIORITY, 0, 1, BYTES(priority, 5));
            else
                rig_frame(rig, RAW_DATA, 0, 1, (struct bytes){0});
            if (i == H2_GLITCH_BURST - 10)
                assert_false(rig_run(rig, rig_ended, 10)); /* a few are nothing */
        }
        assert_true(rig_run(rig, rig_ended, 5000));
        assert_int_equal(rig->end.error, -EPROTO);
        assert_int_equal(rig_limit("glitches"), before + 1);
        rig_assert_goaway(rig, H2_ENHANCE_YOUR_CALM);
        h2_end_clear(&rig->end);
        close(rig->fd);
        buf_clear(&rig->in);
        buf_clear(&rig->out);
    }
}

/* Questions whose answers are not read: no queue grows without end. */
static void test_ping_and_settings_flood(void **state)
{
    static const uint8_t opaque[8];
    struct rig *rig = *state;
    for (int kind = 0; kind < 2; kind++) {
        int64_t before = rig_limit("flood");
        rig_start(rig, &rig_no_settings, true);
        rig->reads = false;
        for (int i = 0; i < 100000; i++) {
            if (kind)
                rig_frame(rig, RAW_PING, 0, 0, BYTES(opaque, 8));
            else
                rig_frame(rig, RAW_SETTINGS, 0, 0, (struct bytes){0});
        }
        assert_true(rig_run(rig, rig_ended, 5000));
        assert_int_equal(rig->end.error, -EPROTO);
        assert_int_equal(rig_limit("flood"), before + 1);
        h2_end_clear(&rig->end);
        close(rig->fd);
        buf_clear(&rig->out);
    }
}

static void test_settings_entries(void **state)
{
    uint8_t entries[6 * (H2_SETTINGS_MAX + 1)] = {0};
    struct rig *rig = *state;
    for (size_t i = 0; i < sizeof(entries); i += 6)
        entries[i + 1] = 99; /* unknown: to be ignored */
    rig_start(rig, &rig_no_settings, true);
    rig_frame(rig, RAW_SETTINGS, 0, 0, BYTES(entries, sizeof(entries) - 6));
    assert_false(rig_run(rig, rig_ended, 50));
    rig_frame(rig, RAW_SETTINGS, 0, 0, BYTES(entries, sizeof(entries)));
    assert_true(rig_run(rig, rig_ended, 5000));
    assert_int_equal(rig->end.error, -EPROTO);
}

/* ---- too slow ---- */

static void test_no_handshake(void **state)
{
    struct rig *rig = *state;
    int64_t before = rig_limit("handshake_timeout");
    rig_start(rig, &(struct h2_settings){.handshake_timeout_ns = 50 * NS_PER_MS}, true);
    rig->out.len = 10; /* of the preface */
    assert_true(rig_run(rig, rig_ended, 5000));
    assert_int_equal(rig->end.error, -ETIMEDOUT);
    assert_int_equal(rig_limit("handshake_timeout"), before + 1);
}

static void test_slow_headers(void **state)
{
    struct rig *rig = *state;
    int64_t before = rig_limit("header_timeout");
    rig_start(rig, &(struct h2_settings){.header_timeout_ns = 50 * NS_PER_MS}, true);
    rig_open_stream(rig, 1, 0); /* no END_HEADERS */
    assert_true(rig_run(rig, rig_ended, 5000));
    assert_int_equal(rig->end.error, -ETIMEDOUT);
    assert_int_equal(rig_limit("header_timeout"), before + 1);
    assert_true(stream_closed(rig));
}

static void test_slow_body(void **state)
{
    struct rig *rig = *state;
    struct h2_raw_seen seen;
    int64_t before = rig_limit("request_timeout");
    uint64_t start_ns = clock_monotonic_ns();
    rig_start(rig, &(struct h2_settings){.request_timeout_ns = 100 * NS_PER_MS}, true);
    rig_open_stream(rig, 1, RAW_END_HEADERS);
    /* A byte now and then changes nothing: else the stream would outlive all of them. */
    for (int i = 0; i < 50 && !stream_closed(rig); i++) {
        rig_frame(rig, RAW_DATA, 0, 1, BYTES_LIT("x"));
        rig_run(rig, stream_closed, 10);
    }
    assert_true(stream_closed(rig));
    assert_true(clock_monotonic_ns() - start_ns >= 90 * NS_PER_MS);
    assert_int_equal(rig_limit("request_timeout"), before + 1);
    assert_false(rig_run(rig, rig_ended, 20));
    assert_true(rig_saw(rig, RAW_RST_STREAM, 1, &seen));
    assert_int_equal(h2_raw_u32(seen.payload.data), H2_CANCEL);
    rig->end.answer = H2_END_HEADERS_ONLY;
    rig_open_stream(rig, 3, RAW_END_HEADERS | RAW_END_STREAM); /* the connection serves on */
    assert_true(rig_run(rig, stream_closed, 5000));
}

static const uint8_t window_settings[6] = {0, 4, 0x7f, 0xff, 0xff, 0xff};

static void test_answer_not_read(void **state)
{
    static const uint8_t piece[16000];
    static const uint8_t much[4] = {0x70, 0, 0, 0};
    struct rig *rig = *state;
    int64_t before = rig_limit("slow_reader");
    rig_start(rig, &(struct h2_settings){.write_timeout_ns = 100 * NS_PER_MS}, true);
    rig_frame(rig, RAW_SETTINGS, 0, 0, BYTES(window_settings, 6));
    rig_frame(rig, RAW_WINDOW_UPDATE, 0, 0, BYTES(much, 4));
    rig_open_stream(rig, 1, RAW_END_HEADERS);
    for (int i = 0; i < 100; i++) {
        rig_frame(rig, RAW_DATA, i == 99 ? RAW_END_STREAM : 0, 1, BYTES(piece, sizeof(piece)));
        rig->reads = i < 99; /* of the answer, which follows the last piece, nothing */
        rig_run(rig, rig_never, 4);
    }
    assert_true(rig_run(rig, rig_ended, 5000));
    assert_int_equal(rig->end.error, -ETIMEDOUT);
    assert_int_equal(rig_limit("slow_reader"), before + 1);
}

/* The peer reads, but gives the answer no window. */
static void test_answer_without_window(void **state)
{
    static const uint8_t no_window[6] = {0, 4, 0, 0, 0, 0};
    struct rig *rig = *state;
    int64_t before = rig_limit("slow_reader");
    rig_start(rig, &(struct h2_settings){.write_timeout_ns = 100 * NS_PER_MS}, true);
    rig_frame(rig, RAW_SETTINGS, 0, 0, BYTES(no_window, 6));
    rig_open_stream(rig, 1, RAW_END_HEADERS);
    rig_frame(rig, RAW_DATA, RAW_END_STREAM, 1, BYTES_LIT("body"));
    assert_true(rig_run(rig, rig_ended, 5000));
    assert_int_equal(rig->end.error, -ETIMEDOUT);
    assert_int_equal(rig_limit("slow_reader"), before + 1);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_not_http2),         RIG_TEST(test_broken_frames),
        RIG_TEST(test_broken_request),    RIG_TEST(test_frames_too_late),
        RIG_TEST(test_numbers_that_fall), RIG_TEST(test_padding),
        RIG_TEST(test_header_list),       RIG_TEST(test_continuation_flood),
        RIG_TEST(test_rapid_reset),       RIG_TEST(test_made_to_reset),
        RIG_TEST(test_senseless_frames),  RIG_TEST(test_ping_and_settings_flood),
        RIG_TEST(test_settings_entries),  RIG_TEST(test_no_handshake),
        RIG_TEST(test_slow_headers),      RIG_TEST(test_slow_body),
        RIG_TEST(test_answer_not_read),   RIG_TEST(test_answer_without_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
