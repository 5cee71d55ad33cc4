/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An HTTP/1.1 answer to a POST, from bytes as they come. Pure; thread: any.
 * Source of the format: RFC 9112; Retry-After and HTTP-date: RFC 9110, 10.2.3 and 5.6.7.
 * Limits: HTTP_ANSWER_HEAD_MAX for all lines together (headers, trailers, chunk sizes, interim
 * answers), the limit given at the beginning for the body; a longer body is cut there.
 */
#include "base/buf.h"

#define HTTP_ANSWER_HEAD_MAX (32 << 10)

enum http_answer_outcome {
    HTTP_ANSWER_MORE = 0,
    HTTP_ANSWER_WHOLE = 1,
    HTTP_ANSWER_MALFORMED = 2, /* also ended too early, or past a limit */
};

enum http_answer_part {
    HTTP_PART_STATUS,
    HTTP_PART_HEADERS,
    HTTP_PART_BODY, /* of known length */
    HTTP_PART_BODY_TO_END,
    HTTP_PART_CHUNK_SIZE,
    HTTP_PART_CHUNK,
    HTTP_PART_CHUNK_END,
    HTTP_PART_TRAILERS,
    HTTP_PART_OVER,
};

struct http_answer {
    unsigned status;       /* 200..599 */
    bool keeps_connection; /* the next request may use it too */
    bool encoded;          /* the body has a content coding */
    bool cut;              /* the body was longer than the limit */
    bool more;             /* Spanprof-More: true; the body lacks something (docs/api.md) */
    /* "": none, or too long. Printable ASCII. */
    char content_type[64]; /* lower case, without parameters */
    char retry_after[40];
    char location[200];
    struct buf body;
    /* private */
    enum http_answer_part part;
    struct buf line;
    size_t head_bytes;
    uint64_t left; /* of the body or the chunk */
    bool has_length, is_chunked;
};

void http_answer_begin(struct http_answer *answer, size_t max_body_bytes);
void http_answer_close(struct http_answer *answer); /* may be called twice */
/* Takes bytes from the front of *in; after HTTP_ANSWER_WHOLE what is left there is not part of the
 * answer. An outcome or -ENOMEM. */
int http_answer_feed(struct http_answer *answer, struct bytes *in);
/* The connection has ended: HTTP_ANSWER_WHOLE if that is how the body ends. */
int http_answer_end(struct http_answer *answer);

#define HTTP_NO_RETRY_AFTER UINT64_MAX
/* Seconds, or a date: the time from now_unix_ns until then, 0 for one that has passed. */
uint64_t http_retry_after_ns(const char *text, uint64_t now_unix_ns);
