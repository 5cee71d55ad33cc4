/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The way to one endpoint: keeps an HTTP/2 connection, and replaces one that is going away (GOAWAY)
 * while its last streams end. Connects (exporter/otlp/dialer.h) when a call asks for it. Thread:
 * loop.
 */
#include "base/list.h"
#include "config/config.h"
#include "proto/http/h2.h"

struct channel;
struct tls_context;

/* Who waits for the connection. Embedded; called once: conn is NULL if it could not be had, and why
 * says so (valid for the call). Never from within channel_want(). */
struct channel_waiter {
    struct list link;
    void (*ready)(struct channel_waiter *waiter, struct h2_conn *conn, const char *why);
};

struct channel_settings {
    struct loop *loop;
    const struct config_endpoint *endpoint;
    uint64_t connect_timeout_ns; /* of each address; again for its TLS handshake; 0: 20 s */
    struct tls_context *tls;     /* outlives the channel; NULL: plain text */
    const struct config_keepalive *keepalive; /* outlives the channel */
    /* Streams of the channel's connections; its begin, goaway and ended are the channel's. */
    const struct h2_handler *handler;
};

int channel_open(const struct channel_settings *settings, struct channel **channel);
void channel_close(
    struct channel *channel); /* streams get closed(); waiters are forgotten. NULL is fine */
void channel_want(struct channel *channel, struct channel_waiter *waiter);
void channel_unwant(struct channel_waiter *waiter); /* also when it does not wait */
