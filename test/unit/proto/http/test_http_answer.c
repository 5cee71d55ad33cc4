/* SPDX-License-Identifier: Apache-2.0 */
/* Answers in every form that RFC 9112 knows, and what is none; the same however they are cut. */
#include "base/clock.h"
#include "proto/http/http_answer.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { BODY_MAX = 20 };

/* In pieces of so many bytes, then the end of the connection. *left: what was not taken. */
static int feed(struct http_answer *answer, struct bytes text, size_t piece, size_t *left)
{
    int outcome = HTTP_ANSWER_MORE;
    http_answer_begin(answer, BODY_MAX);
    while (outcome == HTTP_ANSWER_MORE && text.len) {
        struct bytes in = BYTES(text.data, text.len < piece ? text.len : piece);
        size_t n = in.len;
        outcome = http_answer_feed(answer, &in);
        text.data += n - in.len;
        text.len -= n - in.len;
    }
    *left = text.len;
    return outcome == HTTP_ANSWER_MORE ? http_answer_end(answer) : outcome;
}

#define OK "HTTP/1.1 200 OK\r\n"

static const struct {
    const char *text;
    unsigned status; /* 0: malformed */
    const char *body;
    bool keeps;
    size_t left;
} cases[] = {
    {OK "Content-Length: 0\r\n\r\n", 200, "", true, 0},
    {OK "Content-Length: 5\r\n\r\nhello", 200, "hello", true, 0},
    {OK "content-length:5 \r\nCONTENT-LENGTH: 5\r\n\r\nhello", 200, "hello", true, 0},
    {"HTTP/1.1 503\nContent-Length: 2\n\nhi", 503, "hi", true, 0}, /* bare LF, no reason */
    {"HTTP/1.1 204 No Content\r\n\r\n", 204, "", true, 0},
    {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", false, 0},
    {"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", true,
     0},
    {OK "Connection: x, close\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", false, 0},
    {OK "\r\nto the end", 200, "to the end", false, 0},
    {OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", 200, "abcde",
     true, 0},
    {OK "Transfer-Encoding: Chunked\r\n\r\nA \r\n0123456789\r\n00\r\nTrailer: x\r\n\r\n", 200,
     "0123456789", true, 0},
    {OK "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\na\r\n0\r\n\r\n", 200, "a",
     false, 0},
    {"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 103 Early\r\nContent-Length: 9\r\n\r\n" OK
     "Content-Length: 1\r\n\r\na",
     200, "a", true, 0},
    {OK "Content-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\n", 200, "a", true, 17},
    {OK "Content-Length: 30\r\n\r\n012345678901234567890123456789", 200, "01234567890123456789",
     false, SIZE_MAX}, /* cut at the limit */

    {"", 0, NULL, false, 0},
    {"\r\n", 0, NULL, false, 0},
    {"HTTP/2 200\r\n\r\n", 0, NULL, false, 0},
    {"HTTP/1.1 20x OK\r\n\r\n", 0, NULL, false, 0},
    {"HTTP/1.1 2000\r\n\r\n", 0, NULL, false, 0},
    {"HTTP/1.1 099 No\r\n\r\n", 0, NULL, false, 0},
    {"HTTP/1.1 600 No\r\n\r\n", 0, NULL, false, 0},
    {"HTTP/1.1 101 Switching\r\n\r\n", 0, NULL, false, 0},
    {"SSH-2.0-OpenSSH_9.2\r\n", 0, NULL, false, 0},
    {OK "no colon\r\n\r\n", 0, NULL, false, 0},
    {OK ": no name\r\n\r\n", 0, NULL, false, 0},
    {OK "Name : x\r\n\r\n", 0, NULL, false, 0},
    {OK "A: b\r\n folded: x\r\n\r\n", 0, NULL, false, 0},
    {OK "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 0, NULL, false, 0},
    {OK "Content-Length: -1\r\n\r\n", 0, NULL, false, 0},
    {OK "Content-Length: \r\n\r\n", 0, NULL, false, 0},
    {OK "Content-Length: 99999999999999999999\r\n\r\n", 0, NULL, false, 0},
    {OK "Content-Length: 5\r\n\r\nhell", 0, NULL, false, 0},
    {OK "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 0, NULL, false, 0},
    {OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, NULL, false,
     0},
    {OK "Transfer-Encoding: chunked\r\n\r\n\r\n", 0, NULL, false, 0},
    {OK "Transfer-Encoding: chunked\r\n\r\nx\r\n", 0, NULL, false, 0},
    {OK "Transfer-Encoding: chunked\r\n\r\n1x\r\na\r\n", 0, NULL, false, 0},
    {OK "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\na", 0, NULL, false, 0},
    {OK "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 0, NULL, false, 0},
    {OK "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", 0, NULL, false, 0},
    {OK "Transfer-Encoding: chunked\r\n\r\n0\r\nno trailer\r\n\r\n", 0, NULL, false, 0},
};

static void check_case(size_t i, size_t piece)
{
    struct http_answer answer;
    size_t left = 0;
    int outcome = feed(&answer, BYTES_STR(cases[i].text), piece, &left);
    if (outcome != (cases[i].status ? HTTP_ANSWER_WHOLE : HTTP_ANSWER_MALFORMED))
        fail_msg("case %zu in pieces of %zu: outcome %d", i, piece, outcome);
    if (cases[i].status) {
        assert_int_equal(answer.status, cases[i].status);
        assert_true(bytes_is(buf_bytes(&answer.body), cases[i].body));
        assert_int_equal(answer.keeps_connection, cases[i].keeps);
        assert_int_equal(answer.cut, cases[i].left == SIZE_MAX);
        if (!answer.cut)
            assert_int_equal(left, cases[i].left);
    }
    http_answer_close(&answer);
}

static void test_forms(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t piece = 1; piece < 200; piece++)
            check_case(i, piece);
}

static void test_headers_that_count(void **state)
{
    struct http_answer answer;
    size_t left;
    (void)state;
    const char *text = "HTTP/1.1 503 Busy\r\nContent-Type: Application/JSON ; charset=utf-8\r\n"
                       "Retry-After: 7\r\nLocation: http://elsewhere/\r\n"
                       "Content-Encoding: gzip\r\nSpanprof-More: true\r\n"
                       "Content-Length: 0\r\n\r\n";
    assert_int_equal(feed(&answer, BYTES_STR(text), 7, &left), HTTP_ANSWER_WHOLE);
    assert_string_equal(answer.content_type, "application/json");
    assert_string_equal(answer.retry_after, "7");
    assert_string_equal(answer.location, "http://elsewhere/");
    assert_true(answer.encoded && answer.more);
    http_answer_close(&answer);
    text = OK "Retry-After: 12345678901234567890123456789012345678901\r\nLocation: a\x1b[31m\r\n"
              "Content-Encoding: identity\r\nContent-Length: 0\r\n\r\n";
    assert_int_equal(feed(&answer, BYTES_STR(text), 9, &left), HTTP_ANSWER_WHOLE);
    assert_string_equal(answer.retry_after, "");
    assert_string_equal(answer.location, "");
    assert_false(answer.encoded || answer.more);
    http_answer_close(&answer);
}

/* Without end, and each piece legal by itself. */
static void endless(const char *begin, const char *piece)
{
    struct http_answer answer;
    size_t fed = strlen(begin);
    struct bytes in = BYTES_STR(begin);
    http_answer_begin(&answer, BODY_MAX);
    int outcome = http_answer_feed(&answer, &in);
    while (outcome == HTTP_ANSWER_MORE) {
        in = BYTES_STR(piece);
        fed += in.len;
        outcome = http_answer_feed(&answer, &in);
        assert_true(fed < 4 * HTTP_ANSWER_HEAD_MAX);
    }
    assert_int_equal(outcome, HTTP_ANSWER_MALFORMED);
    assert_true(answer.line.cap <= 2 * HTTP_ANSWER_HEAD_MAX);
    http_answer_close(&answer);
}

static void test_endless(void **state)
{
    (void)state;
    endless("HTTP/1.1 200 ", "xxxxxxx");
    endless(OK, "Name: value\r\n");
    endless(OK "Name: ", "xxxxxxx");
    endless("", "HTTP/1.1 100 Continue\r\n\r\n");
    endless(OK "Transfer-Encoding: chunked\r\n\r\n0\r\n", "Trailer: x\r\n");
    endless(OK "Transfer-Encoding: chunked\r\n\r\n1;", "extension");
}

static void test_retry_after(void **state)
{
    const uint64_t now_ns = UINT64_C(784111770) * NS_PER_SEC; /* 1994-11-06 08:49:30 */
    const struct {
        const char *text;
        uint64_t ns;
    } texts[] = {
        {"0", 0},
        {"120", 120 * NS_PER_SEC},
        {"99999999999999999999", UINT64_C(9999999999) * NS_PER_SEC},
        {"Sun, 06 Nov 1994 08:49:37 GMT", 7 * NS_PER_SEC},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 7 * NS_PER_SEC},
        {"Sun Nov  6 08:49:37 1994", 7 * NS_PER_SEC},
        {"Sun, 06 Nov 1994 08:49:07 GMT", 0},
        {"Sun, 06 Nov 1994 08:49:37 GMT+1", HTTP_NO_RETRY_AFTER},
        {"", HTTP_NO_RETRY_AFTER},
        {"-1", HTTP_NO_RETRY_AFTER},
        {"1.5", HTTP_NO_RETRY_AFTER},
        {"soon", HTTP_NO_RETRY_AFTER},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (http_retry_after_ns(texts[i].text, now_ns) != texts[i].ns)
            fail_msg("%s", texts[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_headers_that_count),
        cmocka_unit_test(test_endless),
        cmocka_unit_test(test_retry_after),
    };
    return cmocka_run_group_tests_name("http_answer", tests, NULL, NULL);
}
