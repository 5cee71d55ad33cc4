/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * OTLP/HTTP as a client: Export calls over HTTP/1.1. Each signal has a URL and one persistent
 * connection per concurrent call. Redirects are not followed; proxies are not used. Thread: loop.
 * Limit: the first 64 KiB of an answer's body are read.
 */
#include "base/loop.h"
#include "config/config.h"
#include "exporter/otlp/export_result.h"
#include "proto/otlp/otlp_service.h"

struct otlp_http;
struct tls_context;

/* Embedded by its owner; num_consumers of a signal running at a time. */
struct otlp_http_call {
    void (*done)(struct otlp_http_call *call, const struct export_result *result);
    /* private */
    struct otlp_http_connection *connection; /* NULL: not running */
    struct buf head;
    struct bytes body;
    bool again; /* the persistent connection was closed: sent again on a new one */
};

struct otlp_http_settings {
    struct loop *loop;
    const struct config_exporter_otlp *config;
    struct tls_context *tls; /* for https:// URLs; outlives the client; NULL: there are none */
    const char *version;     /* for user-agent */
};

int otlp_http_open(const struct otlp_http_settings *settings, struct otlp_http **client);
/* done() is not called after this. NULL is fine. */
void otlp_http_close(struct otlp_http *client);

/* message: otlp_http_message(), borrowed until done() or cancel. done() follows, never from within
 * this call. */
void otlp_http_send(struct otlp_http *client, struct otlp_http_call *call, enum signal signal,
                    struct bytes message);
void otlp_http_cancel(struct otlp_http_call *call); /* no done(); also when not running */

/* Any thread: encodes a request (protobuf) as config says: as JSON, compressed. 0, BUF_FULL,
 * -ENOMEM; -EBADMSG: config asks for JSON, and body is not a request of that signal. */
int otlp_http_message(const struct config_exporter_otlp *config, enum signal signal,
                      struct bytes body, struct buf *out);
