/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One call, Export or a health check: from its first header to its trailers. Private to the gRPC
 * server. Thread: loop. A call at the intake outlives its stream, its connection and the server.
 */
#include "base/peer.h"
#include "proto/http/h2.h"
#include "receiver/grpc/grpc_server.h"

/* Window of a stream until its call is admitted. It must not be smaller. Peers may send a first
 * frame of the largest size that is always allowed (RFC 9113, 4.2) before they know the window. And
 * OkHttp, which Java's SDK uses, announces less than 8 KiB at a time: with a smaller window it
 * would wait forever. */
#define GRPC_CALL_FIRST_WINDOW 16384
/* The same on a connection with few concurrent calls. Calls of less than 48 KiB then need no
 * WINDOW_UPDATE, which costs a write and a wake-up for the rest of the message. */
#define GRPC_CALL_CALM_WINDOW (96 * 1024)

/* Shared by all calls of a server. */
struct grpc_call_scope {
    struct intake *intake;
    struct budget *budget;
    const struct health *health;    /* may be NULL */
    struct health_watches *watches; /* NULL: Watch is not served */
    const struct bearer *bearer;    /* NULL: no token is needed */
    uint32_t signals;               /* served ones, 1 << enum signal */
    size_t max_message_bytes;
    struct list calls; /* all calls alive */
};

/* The owner of a connection whose handler is grpc_call_handler. Embedded by the server. */
struct grpc_connection {
    struct grpc_call_scope *scope;
    struct peer peer;
    struct sender *sender;                                        /* its calls hold it too */
    void (*ended)(struct grpc_connection *connection, int error); /* as h2_handler.ended */
    /* Its first call begins, or its last one ends. NULL is fine. */
    void (*busy)(struct grpc_connection *connection, bool busy);
    size_t n_calls; /* private */
};

extern const struct h2_handler grpc_call_handler;

/* Call before the scope is freed, when all streams are closed. Calls still at the intake are freed
 * when the intake is done. */
void grpc_call_forget(struct grpc_call_scope *scope);
