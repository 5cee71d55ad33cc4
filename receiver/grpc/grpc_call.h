/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One unary call, Export or a health check: from its first header to its trailers. Private to the
 * gRPC server. Thread: loop. A call that is at the intake outlives its stream, its connection and
 * the server.
 */
#include "proto/http/h2.h"
#include "receiver/grpc/grpc_server.h"

/* Of a stream, until the call is admitted. Not less: peers may send a first frame of the largest
 * size that is always allowed (RFC 9113, 4.2) before they know the window; and OkHttp, which Java's
 * SDK uses, announces less than 8 KiB at a time, and so would wait for ever. */
#define GRPC_CALL_FIRST_WINDOW 16384
/* The same on a connection with few calls at a time: those of less than 48 KiB need no
 * WINDOW_UPDATE, which costs a write, and a wake-up for the rest of the message. */
#define GRPC_CALL_CALM_WINDOW (96 * 1024)

/* What all calls of a server share. */
struct grpc_call_scope {
    struct intake *intake;
    struct budget *budget;
    const struct health *health;    /* may be NULL */
    struct health_watches *watches; /* NULL: there is no Watch */
    uint32_t signals;               /* served ones, 1 << enum signal */
    size_t max_message_bytes;
    struct list calls; /* all that are alive */
};

/* The owner of a connection whose handler is grpc_call_handler. Embedded by the server. */
struct grpc_connection {
    struct grpc_call_scope *scope;
    void (*ended)(struct grpc_connection *connection, int error); /* as h2_handler.ended */
};

extern const struct h2_handler grpc_call_handler;

/* Before the scope is freed, when all streams are closed: calls that are still at the intake are
 * freed when that is done. */
void grpc_call_forget(struct grpc_call_scope *scope);
