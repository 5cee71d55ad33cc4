/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An HTTP/1.1 server that says what the test scripts, byte for byte: on the test's loop, on a port
 * of loopback.
 */
#include "base/buf.h"
#include "base/loop.h"
#include "proto/tls/tls_accept.h"

enum http_peer_manner {
    HTTP_PEER_ANSWERS,  /* text, once the request is whole; then waits for the next */
    HTTP_PEER_EARLY,    /* text once the head has come, reads no more, hangs up */
    HTTP_PEER_HANGS_UP, /* text (may be ""), then the end of the connection */
    HTTP_PEER_DRIPS,    /* text, a byte each 2 ms; at its end hangs up */
    HTTP_PEER_SILENT,
    HTTP_PEER_CLOSES_KEPT, /* text, and hangs up with a reset when the next request begins */
};

struct http_peer_answer {
    enum http_peer_manner manner;
    const char *text;
};

struct http_peer_request {
    struct list link;
    struct buf head, body; /* head: NUL-terminated once whole, without the empty line */
    size_t connection;     /* the how-manieth */
    uint64_t time_ns;
};

struct http_peer {
    struct loop *loop;
    struct watch listener;
    uint16_t port;
    struct tls_accept gate; /* with a context: TLS */
    struct list connections, requests;
    size_t n_connections, n_requests;
    /* For whole requests in their order; the last one goes on. Without any: 200, empty. */
    struct http_peer_answer answers[16];
    size_t n_answers, n_answered;
};

void http_peer_open(struct http_peer *peer, struct loop *loop);
void http_peer_close(struct http_peer *peer);
void http_peer_hang_up(struct http_peer *peer); /* all connections */
void http_peer_script(struct http_peer *peer, enum http_peer_manner manner, const char *text);
void http_peer_no_script(struct http_peer *peer);
/* The n-th whole request, from 0; NULL if there are fewer. */
struct http_peer_request *http_peer_request(const struct http_peer *peer, size_t n);
