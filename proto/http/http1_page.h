/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Pages for programs that poll, such as health and metrics: small, made at once, for GET and HEAD.
 * Silent peers cannot keep others out: a connection has 10 s for a request, and when
 * HTTP1_PAGE_CONNECTIONS_MAX are open the one with the least time left is ended. 4 KiB of headers;
 * request bodies are dropped.
 * Thread: loop.
 */
#include "base/buf.h"
#include "base/loop.h"
#include <microhttpd.h>

#define HTTP1_PAGE_CONNECTIONS_MAX 16 /* over all sockets */

struct http1_pages;

struct http1_page_answer {
    unsigned status;  /* 200 at first */
    const char *type; /* static; the route's at first */
    struct buf body;
};

/* Makes the answer to GET. 0; another value: there is no memory for it, the connection ends. */
typedef int http1_page_make(void *context, struct http1_page_answer *answer);

struct http1_page_route {
    const char *path;
    const char *type; /* Content-Type */
    http1_page_make *make;
};

struct http1_pages_settings {
    const char *area; /* of log records; static */
    struct loop *loop;
    const struct http1_page_route *routes; /* outlive the pages, as do context and not_found */
    size_t n_routes;
    const char *not_found; /* the text at other paths */
    void *context;
    size_t bytes_max; /* of a body */
};

/* Listening sockets, taken over (and set to -1) on success only. 0 or negative errno. */
int http1_pages_open(const struct http1_pages_settings *settings, int *fds, size_t n,
                     struct http1_pages **pages);
void http1_pages_close(struct http1_pages *pages); /* NULL is fine */
