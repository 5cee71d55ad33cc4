/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Pages for programs that look often, such as health and metrics: small, made at once, for GET and
 * HEAD. Whoever reaches the port may dial, so a connection has 10 s from its beginning or its last
 * request, and of HTTP1_PAGE_CONNECTIONS_MAX the one with the least of that left is ended: silent
 * peers keep nobody out. 4 KiB of headers; no request body is read.
 * Thread: loop. Embedded by its owner.
 */
#include "base/buf.h"
#include "proto/http/http1.h"
#include "proto/http/http1_connections.h"

#define HTTP1_PAGE_SOCKETS_MAX     8
#define HTTP1_PAGE_CONNECTIONS_MAX 16 /* over all sockets */

struct http1_page_answer {
    unsigned status;  /* 0: there is no memory for it */
    const char *type; /* static; "text/plain" to begin with */
    struct buf body;
};

/* Fills in the answer to GET `path`. */
typedef void http1_page_make(void *context, const char *path, struct http1_page_answer *answer);

struct http1_page {
    struct http1 daemons[HTTP1_PAGE_SOCKETS_MAX];
    size_t n;
    struct http1_connections connections;
    http1_page_make *make;
    void *context;
    size_t bytes_max; /* of a body */
};

/* Listening sockets, which stay the caller's (see http1_open()). make, context, bytes_max are set.
 * 0; -E2BIG: more than HTTP1_PAGE_SOCKETS_MAX; as http1_open(), and then nothing is open. */
int http1_page_open(struct http1_page *page, struct loop *loop, const int *fds, size_t n);
void http1_page_close(struct http1_page *page);
/* The whole of an answer, a static text. */
void http1_page_text(struct http1_page_answer *answer, unsigned status, const char *text);
