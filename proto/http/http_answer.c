/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict where a wrong guess would shift the boundary between answers: contradicting lengths,
 * unknown codings, folded lines. A connection carries one request at a time, and bytes after the
 * answer end the connection, so response smuggling is impossible.
 */
#include "proto/http/http_answer.h"
#include "base/clock.h"
#include <strings.h>
#include <time.h>

#define LINE_MAX_ 8192

void http_answer_begin(struct http_answer *answer, size_t max_body_bytes)
{
    *answer = (struct http_answer){.body = BUF_INIT(max_body_bytes), .line = BUF_INIT(LINE_MAX_)};
}

void http_answer_close(struct http_answer *answer)
{
    buf_close(&answer->body);
    buf_close(&answer->line);
}

/* ---- texts ---- */

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

static struct bytes bytes_trim(struct bytes text)
{
    while (text.len && is_blank(text.data[0])) {
        text.data++;
        text.len--;
    }
    while (text.len && is_blank(text.data[text.len - 1]))
        text.len--;
    return text;
}

static bool is_word(struct bytes text, const char *word)
{
    return text.len == strlen(word) && strncasecmp((const char *)text.data, word, text.len) == 0;
}

/* Keeps the whole text or nothing. */
static void keep_text(struct bytes text, char *out, size_t size)
{
    out[0] = 0;
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < 0x20 || text.data[i] > 0x7e)
            return;
    if (text.len >= size)
        return;
    memcpy(out, text.data, text.len);
    out[text.len] = 0;
}

static void keep_media_type(struct bytes value, char *out, size_t size)
{
    const uint8_t *parameters = value.len ? memchr(value.data, ';', value.len) : NULL;
    if (parameters)
        value.len = (size_t)(parameters - value.data);
    keep_text(bytes_trim(value), out, size);
    for (; *out; out++)
        if (*out >= 'A' && *out <= 'Z')
            *out = (char)(*out | 0x20);
}

/* Up to the next comma; false: no more. */
static bool next_token(struct bytes *list, struct bytes *token)
{
    if (!list->len)
        return false;
    const uint8_t *comma = memchr(list->data, ',', list->len);
    size_t len = comma ? (size_t)(comma - list->data) : list->len;
    *token = bytes_trim(BYTES(list->data, len));
    len += comma != NULL;
    list->data += len;
    list->len -= len;
    return true;
}

/* ---- header lines ---- */

static bool set_length(struct http_answer *answer, struct bytes value)
{
    uint64_t length = 0;
    if (value.len == 0 || value.len > 18)
        return false;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9')
            return false;
        length = length * 10 + (uint64_t)(value.data[i] - '0');
    }
    if (answer->has_length && answer->left != length)
        return false;
    answer->has_length = true;
    answer->left = length;
    return true;
}

static void set_connection(struct http_answer *answer, struct bytes value)
{
    for (struct bytes token; next_token(&value, &token);) {
        if (is_word(token, "close"))
            answer->keeps_connection = false;
        else if (is_word(token, "keep-alive"))
            answer->keeps_connection = true;
    }
}

static bool set_header(struct http_answer *answer, struct bytes name, struct bytes value)
{
    if (is_word(name, "content-length"))
        return set_length(answer, value);
    if (is_word(name, "transfer-encoding")) {
        bool first = !answer->is_chunked;
        answer->is_chunked = true;
        return first && is_word(value, "chunked");
    }
    if (is_word(name, "connection"))
        set_connection(answer, value);
    else if (is_word(name, "content-encoding"))
        answer->encoded = !is_word(value, "identity");
    else if (is_word(name, "content-type"))
        keep_media_type(value, answer->content_type, sizeof(answer->content_type));
    else if (is_word(name, "retry-after"))
        keep_text(value, answer->retry_after, sizeof(answer->retry_after));
    else if (is_word(name, "spanprof-more"))
        answer->more = is_word(value, "true");
    else if (is_word(name, "location"))
        keep_text(value, answer->location, sizeof(answer->location));
    return true;
}

static bool parse_header_line(struct http_answer *answer, struct bytes line)
{
    const uint8_t *colon = memchr(line.data, ':', line.len);
    if (!colon || colon == line.data || is_blank(line.data[0]) || is_blank(colon[-1]))
        return false;
    struct bytes name = BYTES(line.data, (size_t)(colon - line.data));
    struct bytes value = bytes_trim(BYTES(colon + 1, line.len - name.len - 1));
    return answer->part == HTTP_PART_TRAILERS || set_header(answer, name, value);
}

/* "HTTP/1.1 200 OK"; the reason may be missing. */
static bool parse_status_line(struct http_answer *answer, struct bytes line)
{
    if (line.len < 12 || memcmp(line.data, "HTTP/1.", 7) != 0 ||
        (line.data[7] != '0' && line.data[7] != '1') || line.data[8] != ' ' ||
        (line.len > 12 && line.data[12] != ' '))
        return false;
    answer->status = 0;
    for (size_t i = 9; i < 12; i++) {
        if (line.data[i] < '0' || line.data[i] > '9')
            return false;
        answer->status = answer->status * 10 + (unsigned)(line.data[i] - '0');
    }
    answer->keeps_connection = line.data[7] == '1';
    answer->part = HTTP_PART_HEADERS;
    return answer->status >= 100 && answer->status < 600 && answer->status != 101;
}

static int answer_over(struct http_answer *answer)
{
    answer->part = HTTP_PART_OVER;
    return HTTP_ANSWER_WHOLE;
}

/* After the empty line: the headers say which body follows (RFC 9112, 6.3). */
static int headers_done(struct http_answer *answer)
{
    if (answer->status < 200) { /* interim; the head's limit bounds their number */
        answer->part = HTTP_PART_STATUS;
        answer->has_length = answer->is_chunked = false;
        return HTTP_ANSWER_MORE;
    }
    if (answer->is_chunked) {
        if (answer->has_length)
            answer->keeps_connection = false; /* a proxy on the way is broken */
        answer->part = HTTP_PART_CHUNK_SIZE;
    } else if (answer->status == 204 || answer->status == 304 ||
               (answer->has_length && answer->left == 0)) {
        return answer_over(answer);
    } else if (answer->has_length) {
        answer->part = HTTP_PART_BODY;
    } else {
        answer->keeps_connection = false;
        answer->part = HTTP_PART_BODY_TO_END;
    }
    return HTTP_ANSWER_MORE;
}

static bool parse_chunk_line(struct http_answer *answer, struct bytes line)
{
    size_t digits = 0;
    uint64_t size = 0;
    for (; digits < line.len && digits < 16; digits++) {
        uint8_t c = line.data[digits];
        uint8_t lower = c | 0x20;
        if (c >= '0' && c <= '9')
            size = size * 16 + (uint64_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            size = size * 16 + (uint64_t)(lower - 'a' + 10);
        else
            break;
    }
    bool ended = digits == line.len || line.data[digits] == ';' || is_blank(line.data[digits]);
    answer->left = size;
    answer->part = size ? HTTP_PART_CHUNK : HTTP_PART_TRAILERS;
    return digits > 0 && digits < 16 && ended;
}

static int parse_line(struct http_answer *answer, struct bytes line)
{
    bool good = true;
    switch (answer->part) {
    case HTTP_PART_STATUS:
        good = parse_status_line(answer, line);
        break;
    case HTTP_PART_CHUNK_SIZE:
        good = parse_chunk_line(answer, line);
        break;
    case HTTP_PART_CHUNK_END:
        good = line.len == 0;
        answer->part = HTTP_PART_CHUNK_SIZE;
        break;
    default:
        if (line.len == 0)
            return answer->part == HTTP_PART_TRAILERS ? answer_over(answer) : headers_done(answer);
        good = parse_header_line(answer, line);
    }
    return good ? HTTP_ANSWER_MORE : HTTP_ANSWER_MALFORMED;
}

/* ---- bytes ---- */

static void input_skip(struct bytes *in, size_t n)
{
    in->data += n;
    in->len -= n;
}

static int feed_line(struct http_answer *answer, struct bytes *in)
{
    const uint8_t *end = memchr(in->data, '\n', in->len);
    size_t n = end ? (size_t)(end - in->data) + 1 : in->len;
    answer->head_bytes += n;
    if (answer->head_bytes > HTTP_ANSWER_HEAD_MAX)
        return HTTP_ANSWER_MALFORMED;
    int error = buf_append(&answer->line, in->data, n);
    if (error)
        return error == BUF_FULL ? (int)HTTP_ANSWER_MALFORMED : error;
    input_skip(in, n);
    if (!end)
        return HTTP_ANSWER_MORE;
    struct bytes line = buf_bytes(&answer->line);
    line.len--;
    line.len -= line.len && line.data[line.len - 1] == '\r';
    int outcome = parse_line(answer, line);
    buf_clear(&answer->line);
    return outcome;
}

static int feed_body(struct http_answer *answer, struct bytes *in)
{
    bool to_end = answer->part == HTTP_PART_BODY_TO_END;
    size_t n = to_end || in->len < answer->left ? in->len : (size_t)answer->left;
    size_t room = answer->body.limit_bytes - answer->body.len;
    size_t kept = n < room ? n : room;
    int error = buf_append(&answer->body, in->data, kept);
    if (error)
        return error;
    input_skip(in, n);
    if (kept < n) { /* the rest is not read */
        answer->cut = true;
        answer->keeps_connection = false;
        return answer_over(answer);
    }
    answer->left -= to_end ? 0 : n;
    if (answer->left || to_end)
        return HTTP_ANSWER_MORE;
    if (answer->part == HTTP_PART_BODY)
        return answer_over(answer);
    answer->part = HTTP_PART_CHUNK_END;
    return HTTP_ANSWER_MORE;
}

static bool is_body(const struct http_answer *answer)
{
    return answer->part == HTTP_PART_BODY || answer->part == HTTP_PART_BODY_TO_END ||
           answer->part == HTTP_PART_CHUNK;
}

int http_answer_feed(struct http_answer *answer, struct bytes *in)
{
    int outcome = answer->part == HTTP_PART_OVER ? HTTP_ANSWER_WHOLE : HTTP_ANSWER_MORE;
    while (outcome == HTTP_ANSWER_MORE && in->len)
        outcome = is_body(answer) ? feed_body(answer, in) : feed_line(answer, in);
    return outcome;
}

int http_answer_end(struct http_answer *answer)
{
    bool whole = answer->part == HTTP_PART_BODY_TO_END || answer->part == HTTP_PART_OVER;
    answer->keeps_connection = false;
    return whole ? answer_over(answer) : (int)HTTP_ANSWER_MALFORMED;
}

/* ---- Retry-After ---- */

static uint64_t seconds_ns(const char *text)
{
    uint64_t seconds = 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return HTTP_NO_RETRY_AFTER;
        if (seconds < 1000000000)
            seconds = seconds * 10 + (uint64_t)(*text - '0');
    }
    return seconds * NS_PER_SEC;
}

uint64_t http_retry_after_ns(const char *text, uint64_t now_unix_ns)
{
    static const char *const forms[] = {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT",
                                        "%a %b %e %H:%M:%S %Y"};
    if (*text >= '0' && *text <= '9')
        return seconds_ns(text);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct tm tm = {0};
        const char *end = strptime(text, forms[i], &tm);
        if (!end || *end)
            continue;
        time_t then = timegm(&tm);
        time_t now = (time_t)(now_unix_ns / NS_PER_SEC);
        return then > now ? (uint64_t)(then - now) * NS_PER_SEC : 0;
    }
    return HTTP_NO_RETRY_AFTER;
}
