/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * OTLP/HTTP on HTTP/1.1, by libmicrohttpd inside our loop: POST /v1/traces and the other signals'
 * paths, protobuf or JSON. A connection is suspended while its request is at the intake; done()
 * answers it. Thread: loop. Limits: config's max_connections, max_request_body_size, idle_timeout;
 * the budget; 32 KiB of headers.
 */
#include "base/loop.h"
#include "config/config.h"
#include "proto/http/http_sniffer.h"
#include "receiver/budget.h"
#include "receiver/intake/intake.h"
#include "receiver/listen.h"
#include "receiver/peers.h"

struct http_server;
struct tls_context;

struct http_server_settings {
    struct loop *loop;
    struct intake *intake;
    struct budget *budget;
    uint32_t signals; /* mask of 1 << enum signal: pipelines that name this receiver; 0 = all */
    const struct config_otlp_http_server *config;
    struct tls_context *tls;     /* outlives the server; NULL: plain text */
    struct peers *peers;         /* outlives the server; NULL: peers are not known */
    const struct bearer *bearer; /* outlives the server; NULL: no token is needed */
};

/* Takes over the sockets, on success only. */
int http_server_open(const struct http_server_settings *settings, struct listen_sockets *sockets,
                     struct http_server **server);
/* Plain-text HTTP/2 connections are passed to take(), which owns their socket from then on. Without
 * it they are served as HTTP/1. */
void http_server_set_http2(struct http_server *server,
                           void (*take)(void *context, const struct http_arrival *arrival),
                           void *context);
/* Serves a connection that another server has accepted; takes its socket over. server: a struct
 * http_server. */
void http_server_take(void *server, const struct http_arrival *arrival);
/* Stops listening. stopped() is called once no request is being received or answered, not from
 * within this call. */
void http_server_drain(struct http_server *server, void (*stopped)(void *context), void *context);
/* Answers suspended requests with 503 first: libmicrohttpd cannot end while a connection is
 * suspended. Their done() may come later and then only frees them. NULL is fine. */
void http_server_close(struct http_server *server);
