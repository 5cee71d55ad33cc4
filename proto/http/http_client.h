/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One HTTP/1.1 connection as a client: a request, its answer, the next request. Thread: loop. It
 * has no time limits: the owner enforces them by closing it.
 */
#include "base/loop.h"
#include "proto/http/http_answer.h"

struct http_client;
struct tls;

/* Called on the loop, never from within http_client_send(). The owner may close the connection in
 * both, and has to in ended(). */
struct http_client_handler {
    /* The answer may come before the whole request was sent. With answer->keeps_connection the
     * connection takes another request, else http_client_close() is due. The answer ends with this
     * call. */
    void (*answered)(void *owner, const struct http_answer *answer);
    /* The connection is over. touched: something of an answer had come. error: 0: the peer closed
     * it; negative errno (-EPROTO: this was not HTTP/1.1 as it should be). */
    void (*ended)(void *owner, int error, bool touched);
};

/* Takes over fd and tls (NULL: plain text), also on failure. handler and owner must outlive it. */
int http_client_open(struct loop *loop, int fd, struct tls *tls,
                     const struct http_client_handler *handler, void *owner,
                     struct http_client **client);
void http_client_close(struct http_client *client); /* NULL is fine */
/* None may be under way. Both parts are borrowed until answered(), ended() or the close.
 * max_answer_bytes: of its body. 0 or negative errno. */
int http_client_send(struct http_client *client, struct bytes head, struct bytes body,
                     size_t max_answer_bytes);
