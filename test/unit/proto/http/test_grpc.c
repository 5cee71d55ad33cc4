/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/grpc.h"
#include "base/clock.h"
#include "proto/http/h2.h"
#include "test/support/faults/fail_alloc.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

/* ---- status ---- */

static void test_status(void **state)
{
    (void)state;
    assert_string_equal(grpc_status_name(GRPC_UNAVAILABLE), "UNAVAILABLE");
    assert_string_equal(grpc_status_name(GRPC_UNAUTHENTICATED), "UNAUTHENTICATED");
    assert_string_equal(grpc_status_name((enum grpc_status)99), "UNKNOWN");
    for (unsigned i = 0; i < GRPC_STATUS_COUNT; i++) {
        char text[4];
        snprintf(text, sizeof(text), "%u", i % 100);
        assert_int_equal(grpc_status_parse(BYTES_STR(text)), i);
    }
    static const char *const wrong[] = {"", "17", "99", "100", "-1", "1x", " 1", "+1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(grpc_status_parse(BYTES_STR(wrong[i])), GRPC_UNKNOWN);
}

static void test_status_of_other_layers(void **state)
{
    (void)state;
    assert_int_equal(grpc_status_from_http(401), GRPC_UNAUTHENTICATED);
    assert_int_equal(grpc_status_from_http(403), GRPC_PERMISSION_DENIED);
    assert_int_equal(grpc_status_from_http(404), GRPC_UNIMPLEMENTED);
    assert_int_equal(grpc_status_from_http(429), GRPC_UNAVAILABLE);
    assert_int_equal(grpc_status_from_http(503), GRPC_UNAVAILABLE);
    assert_int_equal(grpc_status_from_http(200), GRPC_UNKNOWN);
    assert_int_equal(grpc_status_from_http(500), GRPC_UNKNOWN);
    assert_int_equal(grpc_status_from_h2(7), GRPC_UNAVAILABLE);
    assert_int_equal(grpc_status_from_h2(H2_CONNECTION_LOST), GRPC_UNAVAILABLE);
    assert_int_equal(grpc_status_from_h2(8), GRPC_CANCELLED);
    assert_int_equal(grpc_status_from_h2(11), GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(grpc_status_from_h2(12), GRPC_PERMISSION_DENIED);
    assert_int_equal(grpc_status_from_h2(2), GRPC_INTERNAL);
    assert_int_equal(grpc_status_from_h2(12345), GRPC_INTERNAL);
}

/* ---- messages ---- */

/* Feeds the stream in pieces of that size; the first outcome that is not OK, or that of the end. */
static int feed_in_pieces(struct grpc_reader *reader, struct bytes stream, size_t size)
{
    for (size_t at = 0; at < stream.len; at += size) {
        size_t n = stream.len - at < size ? stream.len - at : size;
        int outcome = grpc_reader_feed(reader, BYTES(stream.data + at, n));
        if (outcome)
            return outcome;
    }
    return grpc_reader_end(reader);
}

static int read_in_pieces(struct bytes stream, size_t max_bytes, size_t size)
{
    struct grpc_reader reader;
    grpc_reader_init(&reader, max_bytes);
    int outcome = feed_in_pieces(&reader, stream, size);
    grpc_reader_close(&reader);
    return outcome;
}

static void test_message_in_any_pieces(void **state)
{
    uint8_t stream[GRPC_PREFIX_SIZE + 300];
    (void)state;
    grpc_prefix_write(stream, true, 300);
    for (size_t i = 0; i < 300; i++)
        stream[GRPC_PREFIX_SIZE + i] = (uint8_t)i;
    for (size_t size = 1; size <= sizeof(stream); size++) {
        struct grpc_reader reader;
        grpc_reader_init(&reader, 300);
        assert_int_equal(feed_in_pieces(&reader, BYTES(stream, sizeof(stream)), size),
                         GRPC_READ_OK);
        assert_true(reader.compressed);
        assert_int_equal(reader.message.len, 300);
        assert_memory_equal(reader.message.data, stream + GRPC_PREFIX_SIZE, 300);
        grpc_reader_close(&reader);
    }
}

static void test_message_limits(void **state)
{
    uint8_t stream[GRPC_PREFIX_SIZE + 11] = {0};
    struct bytes all = BYTES(stream, sizeof(stream));
    (void)state;
    for (size_t size = 1; size <= sizeof(stream); size++) {
        grpc_prefix_write(stream, false, 11);
        assert_int_equal(read_in_pieces(all, 11, size), GRPC_READ_OK);
        assert_int_equal(read_in_pieces(all, 10, size), GRPC_READ_TOO_BIG);
        assert_int_equal(read_in_pieces(BYTES(stream, 15), 11, size), GRPC_READ_TRUNCATED);
        assert_int_equal(read_in_pieces(BYTES(stream, 4), 11, size), GRPC_READ_TRUNCATED);
        assert_int_equal(read_in_pieces(BYTES(stream, 0), 11, size), GRPC_READ_MISSING);
        grpc_prefix_write(stream, false, 10);
        assert_int_equal(read_in_pieces(all, 11, size), GRPC_READ_TWICE);
        grpc_prefix_write(stream, false, 0);
        assert_int_equal(read_in_pieces(BYTES(stream, 5), 11, size), GRPC_READ_OK);
        assert_int_equal(read_in_pieces(all, 11, size), GRPC_READ_TWICE);
        stream[0] = 2;
        assert_int_equal(read_in_pieces(all, 11, size), GRPC_READ_BAD_FLAG);
    }
}

/* 4 GiB announced: neither taken nor reserved. */
static void test_announcement_costs_nothing(void **state)
{
    struct grpc_reader reader;
    uint8_t prefix[GRPC_PREFIX_SIZE];
    (void)state;
    grpc_prefix_write(prefix, false, UINT32_MAX);
    assert_int_equal(read_in_pieces(BYTES(prefix, 5), 4 << 20, 5), GRPC_READ_TOO_BIG);
    grpc_reader_init(&reader, SIZE_MAX / 4);
    assert_int_equal(grpc_reader_feed(&reader, BYTES(prefix, 5)), GRPC_READ_OK);
    assert_int_equal(grpc_reader_feed(&reader, BYTES("abc", 3)), GRPC_READ_OK);
    assert_true(reader.message.cap < 4096);
    assert_int_equal(grpc_reader_end(&reader), GRPC_READ_TRUNCATED);
    grpc_reader_close(&reader);
}

static void test_message_without_memory(void **state)
{
    struct grpc_reader reader;
    uint8_t prefix[GRPC_PREFIX_SIZE];
    (void)state;
    grpc_prefix_write(prefix, false, 100);
    grpc_reader_init(&reader, 100);
    assert_int_equal(grpc_reader_feed(&reader, BYTES(prefix, 5)), GRPC_READ_OK);
    fail_alloc_at(1);
    assert_int_equal(grpc_reader_feed(&reader, BYTES("abc", 3)), -ENOMEM);
    assert_true(fail_alloc_hit());
    grpc_reader_close(&reader);
}

/* ---- header values ---- */

static void test_timeout_parse(void **state)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {
        {"0n", 0},
        {"1n", 1},
        {"9988m", 9988 * NS_PER_MS},
        {"99999999u", 99999999 * UINT64_C(1000)},
        {"10S", 10 * NS_PER_SEC},
        {"2M", 120 * NS_PER_SEC},
        {"1H", 3600 * NS_PER_SEC},
        {"00000001S", NS_PER_SEC},
        {"99999999H", UINT64_MAX},
    };
    static const char *const bad[] = {"",    "S",   "1",    "1s",         "1h",   "-1S",
                                      "+1S", "1 S", "1.5S", "123456789S", "0x1S", "1SS"};
    uint64_t ns;
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(grpc_timeout_parse(BYTES_STR(good[i].text), &ns), 0);
        assert_true(ns == good[i].ns);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(grpc_timeout_parse(BYTES_STR(bad[i]), &ns), -EINVAL);
}

/* What is written reads back as no less, and as at most one unit more. */
static void test_timeout_format(void **state)
{
    char text[GRPC_TIMEOUT_TEXT];
    (void)state;
    grpc_timeout_format(5 * NS_PER_SEC, text);
    assert_string_equal(text, "5000000u");
    grpc_timeout_format(99999999, text);
    assert_string_equal(text, "99999999n");
    grpc_timeout_format(100000001, text);
    assert_string_equal(text, "100001u");
    for (uint64_t ns = 1; ns < UINT64_MAX / 3; ns = ns * 3 + 1) {
        uint64_t back;
        grpc_timeout_format(ns, text);
        assert_true(strlen(text) <= 9);
        assert_int_equal(grpc_timeout_parse(BYTES_STR(text), &back), 0);
        assert_true(back >= ns);
        assert_true(back - ns <= ns / 100000 + 1 || back == UINT64_MAX);
    }
    grpc_timeout_format(UINT64_MAX, text);
    assert_string_equal(text, "5124096H");
}

static void test_percent(void **state)
{
    static const struct {
        const char *plain, *encoded;
    } pairs[] = {
        {"", ""},
        {"all is well ~", "all is well ~"},
        {"100%", "100%25"},
        {"a\tb\n\x7f", "a%09b%0A%7F"},
        {"\xc3\xa9", "%C3%A9"},
    };
    static const struct {
        const char *encoded, *plain;
    } lenient[] = {
        {"%", "%"}, {"%4", "%4"}, {"%zz%41", "%zzA"}, {"%c3%a9", "\xc3\xa9"}, {"%%41", "%A"}};
    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        _cleanup_buf_ struct buf encoded = BUF_INIT(0), decoded = BUF_INIT(0);
        assert_int_equal(grpc_percent_encode(BYTES_STR(pairs[i].plain), &encoded), 0);
        assert_true(bytes_is(buf_bytes(&encoded), pairs[i].encoded));
        assert_int_equal(grpc_percent_decode(buf_bytes(&encoded), &decoded), 0);
        assert_true(bytes_is(buf_bytes(&decoded), pairs[i].plain));
    }
    for (size_t i = 0; i < sizeof(lenient) / sizeof(lenient[0]); i++) {
        _cleanup_buf_ struct buf decoded = BUF_INIT(0);
        assert_int_equal(grpc_percent_decode(BYTES_STR(lenient[i].encoded), &decoded), 0);
        assert_true(bytes_is(buf_bytes(&decoded), lenient[i].plain));
    }
    _cleanup_buf_ struct buf small = BUF_INIT(5);
    assert_int_equal(grpc_percent_encode(BYTES_LIT("abc%"), &small), BUF_FULL);
    assert_int_equal(grpc_percent_decode(BYTES_LIT("abcdef"), &small), BUF_FULL);
    assert_int_equal(small.len, 0);
}

/* ---- error details ---- */

/* As protobuf's own encoder writes them: code 14, message "busy", RetryInfo of 1.5 s. */
static const char known_details[] =
    "080e1204627573791a36"
    "0a28747970652e676f6f676c65617069732e636f6d2f676f6f676c652e7270632e5265747279496e666f"
    "120a0a0808011080cab5ee01";

static void test_details_known_bytes(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    uint8_t known[(sizeof(known_details) - 1) / 2];
    enum grpc_status status;
    struct bytes message;
    (void)state;
    assert_true(bytes_from_hex(BYTES_LIT(known_details), known, sizeof(known)));
    assert_int_equal(
        grpc_details_write(GRPC_UNAVAILABLE, BYTES_LIT("busy"), 1500 * NS_PER_MS, &out), 0);
    assert_int_equal(out.len, sizeof(known));
    assert_memory_equal(out.data, known, sizeof(known));
    assert_true(grpc_details_retry_delay(buf_bytes(&out)) == 1500 * NS_PER_MS);
    assert_true(grpc_details_read(buf_bytes(&out), &status, &message));
    assert_int_equal(status, GRPC_UNAVAILABLE);
    assert_true(bytes_is(message, "busy"));
    buf_clear(&out);
    assert_int_equal(grpc_retry_info_write(1500 * NS_PER_MS, &out), 0);
    assert_memory_equal(out.data, known + sizeof(known) - out.len, out.len);
}

static uint64_t delay_of_hex(const char *hex)
{
    uint8_t bytes[128];
    size_t n = strlen(hex) / 2;
    assert_true(n <= sizeof(bytes) && bytes_from_hex(BYTES_STR(hex), bytes, n));
    return grpc_details_retry_delay(BYTES(bytes, n));
}

#define URL "0a28747970652e676f6f676c65617069732e636f6d2f676f6f676c652e7270632e5265747279496e666f"
static void test_retry_delay_of_strangers(void **state)
{
    _cleanup_buf_ struct buf none = BUF_INIT(0);
    (void)state;
    assert_int_equal(grpc_details_write(GRPC_INTERNAL, BYTES_LIT("no"), GRPC_NO_RETRY_INFO, &none),
                     0);
    assert_true(grpc_details_retry_delay(buf_bytes(&none)) == GRPC_NO_RETRY_INFO);
    assert_true(delay_of_hex("") == GRPC_NO_RETRY_INFO);
    assert_true(delay_of_hex("1a2a" URL) == 0);            /* no value: at once */
    assert_true(delay_of_hex("1a2c" URL "1200") == 0);     /* no delay */
    assert_true(delay_of_hex("1a2e" URL "12020a00") == 0); /* delay of nothing */
    assert_true(delay_of_hex("1a30" URL "12040a020805") == 5 * NS_PER_SEC);
    assert_true(delay_of_hex("1a0012001a30" URL "12040a020805") ==
                5 * NS_PER_SEC); /* not the first detail */
    /* -1 s; and more seconds than there are nanoseconds for: a year */
    assert_true(delay_of_hex("1a39" URL "120d0a0b08ffffffffffffffffff01") == 0);
    assert_true(delay_of_hex("1a38" URL "120c0a0a08ffffffffffffffff7f") ==
                UINT64_C(366) * 86400 * NS_PER_SEC);
    assert_true(delay_of_hex("1a30" URL "12040a0208") == GRPC_NO_RETRY_INFO); /* cut off */
    assert_true(delay_of_hex("1a30" URL "12040a0308ff") ==
                GRPC_NO_RETRY_INFO); /* a length too long */
    assert_true(delay_of_hex("ffffffffff") == GRPC_NO_RETRY_INFO);
}

static void test_details_cut_and_without_memory(void **state)
{
    uint8_t known[(sizeof(known_details) - 1) / 2];
    enum grpc_status status;
    struct bytes message;
    (void)state;
    bytes_from_hex(BYTES_LIT(known_details), known, sizeof(known));
    for (size_t n = 7; n < sizeof(known); n++) {
        bool whole = n == 8; /* behind the message */
        assert_int_equal(grpc_details_read(BYTES(known, n), &status, &message), whole);
        assert_true(grpc_details_retry_delay(BYTES(known, n)) == GRPC_NO_RETRY_INFO);
    }
    for (unsigned n = 1;; n++) {
        _cleanup_buf_ struct buf out = BUF_INIT(0);
        fail_alloc_at(n);
        int error = grpc_details_write(GRPC_UNAVAILABLE, BYTES_LIT("busy"), NS_PER_SEC, &out);
        if (!fail_alloc_hit())
            break;
        assert_int_equal(error, -ENOMEM);
        assert_int_equal(out.len, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_status_of_other_layers),
        cmocka_unit_test(test_message_in_any_pieces),
        cmocka_unit_test(test_message_limits),
        cmocka_unit_test(test_announcement_costs_nothing),
        cmocka_unit_test(test_message_without_memory),
        cmocka_unit_test(test_timeout_parse),
        cmocka_unit_test(test_timeout_format),
        cmocka_unit_test(test_percent),
        cmocka_unit_test(test_details_known_bytes),
        cmocka_unit_test(test_retry_delay_of_strangers),
        cmocka_unit_test(test_details_cut_and_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
