/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * OTLP/gRPC: unary Export calls on HTTP/2, with TLS or without. Each complete message goes through
 * intake_submit(); the answer is sent from its done(), so success means committed. Health checks
 * are answered at once.
 * Thread: loop. Limits: config's max_connections (then accepted and closed, counted),
 * max_concurrent_streams, max_recv_msg_size; the budget; the time limits in grpc_server.c.
 */
#include "base/loop.h"
#include "config/config.h"
#include "proto/http/http_sniffer.h"
#include "receiver/budget.h"
#include "receiver/health.h"
#include "receiver/intake/intake.h"
#include "receiver/listen.h"
#include "receiver/peers.h"

struct grpc_server;
struct tls_context;

struct grpc_server_settings {
    struct loop *loop;
    struct intake *intake;
    struct budget *budget; /* may be shared with the HTTP server */
    uint32_t signals; /* mask of 1 << enum signal: pipelines that name this receiver; 0 = all */
    const struct config_otlp_grpc_server *config;
    const struct health *health; /* outlives the server; NULL: always healthy */
    struct peers *peers;         /* outlives the server; NULL: peers are not known */
    struct tls_context *tls;     /* outlives the server; NULL: plain text */
    const struct bearer *bearer; /* outlives the server; NULL: no token is needed */
};

/* Takes over the sockets, on success only. 0 or negative errno. */
int grpc_server_open(const struct grpc_server_settings *settings, struct listen_sockets *sockets,
                     struct grpc_server **server);
/* Plain-text HTTP/1 connections are passed to take(), which owns their socket from then on. Without
 * it they are served as HTTP/2. */
void grpc_server_set_http1(struct grpc_server *server,
                           void (*take)(void *context, const struct http_arrival *arrival),
                           void *context);
/* Serves a connection that another server has accepted; takes its socket over. server: a struct
 * grpc_server. */
void grpc_server_take(void *server, const struct http_arrival *arrival);
/* Stops listening, sends GOAWAY, lets running calls end. stopped() is called once no connection is
 * left, not from within this call. The caller bounds the wait: grpc_server_close() is allowed at
 * any time. */
void grpc_server_drain(struct grpc_server *server, void (*stopped)(void *context), void *context);
/* Requests at the intake outlive the server: their done() then only frees them. NULL is fine. */
void grpc_server_close(struct grpc_server *server);
