/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which HTTP a client speaks, so that one port serves both: HTTP/2 without TLS begins with a
 * preface (RFC 9113, section 3.4) that looks like a request of no known method, and clients send
 * it, or their request, at once. The bytes stay in the socket. Thread: loop. Embedded.
 *
 * Limits: HTTP_SNIFFER_WAIT_NS for the first bytes, HTTP_SNIFFER_MAX connections at a time that
 * wait for them. A connection beyond either is said to speak what the port is for: so idle ones
 * take no place from others here, and the server's own limits decide.
 */
#include "base/clock.h"
#include "base/loop.h"
#include "base/peer.h"

enum { HTTP_SNIFFER_MAX = 256 };
#define HTTP_SNIFFER_WAIT_NS NS_PER_SEC

enum http_version { HTTP_1, HTTP_2 };

/* A connection that was accepted, and who is at its other end. */
struct http_arrival {
    int fd;
    struct peer peer;
    uint64_t peer_key; /* equal for connections of one peer (crowd.h) */
};

struct http_sniffer {
    struct loop *loop;
    enum http_version own; /* what the port is for */
    /* Passes the connection to the owner. May call any function except http_sniffer_stop(). */
    void (*told)(struct http_sniffer *sniffer, const struct http_arrival *arrival,
                 enum http_version version);
    /* private */
    struct list waiting; /* in the order of their arrival */
    size_t n_waiting;
    struct timer late;
};

void http_sniffer_init(struct http_sniffer *sniffer); /* the fields above are set */
/* Takes the socket over. told() may be called from here. */
void http_sniffer_enter(struct http_sniffer *sniffer, const struct http_arrival *arrival);
/* All that wait are told to speak what the port is for. Again: no harm. */
void http_sniffer_stop(struct http_sniffer *sniffer);
