/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The HTTP/2 connection to one endpoint. The channel connects (exporter/otlp/dialer.h) when a call
 * needs it, and keeps the connection. After GOAWAY, a new connection takes new streams while the
 * last streams of the old one end. Thread: loop.
 */
#include "base/list.h"
#include "config/config.h"
#include "proto/http/h2.h"

struct channel;
struct tls_context;

/* Waits for the connection. Embedded. ready() is called once, never from within channel_want().
 * conn NULL: connecting failed, and why holds the reason (valid during the call). */
struct channel_waiter {
    struct list link;
    void (*ready)(struct channel_waiter *waiter, struct h2_conn *conn, const char *why);
};

struct channel_settings {
    struct loop *loop;
    const struct config_endpoint *endpoint;
    const struct config_users *socket_users; /* who may listen at its path; outlives the channel */
    uint64_t connect_timeout_ns; /* of each address; again for its TLS handshake; 0: 20 s */
    struct tls_context *tls;     /* outlives the channel; NULL: plain text */
    const struct config_keepalive *keepalive; /* outlives the channel */
    /* Handles the streams of the channel's connections. The channel itself handles begin, goaway
     * and ended. */
    const struct h2_handler *handler;
};

int channel_open(const struct channel_settings *settings, struct channel **channel);
void channel_close(struct channel *channel); /* closed() is called for each stream, ready() for no
                                                waiter. NULL is fine */
void channel_want(struct channel *channel, struct channel_waiter *waiter);
void channel_unwant(struct channel_waiter *waiter); /* no-op if it does not wait */
