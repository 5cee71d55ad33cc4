/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One unary call, Export or a health check: from its first header to its trailers. Private to the
 * gRPC server. Thread: loop. A call that is at the intake outlives its stream, its connection and
 * the server.
 */
#include "proto/http/h2.h"
#include "receiver/grpc/grpc_server.h"

/* Of a stream; it grows once the call is let in. Not less: peers may send a first frame of the
 * largest size that is always allowed (RFC 9113, 4.2) before they know of it; and OkHttp, which
 * Java's SDK has, keeps less than 8 KiB to itself while it waits for window, and so waits for ever.
 */
#define GRPC_CALL_FIRST_WINDOW 16384
/* The same on a connection with few calls at a time: those of less than 48 KiB need no
 * WINDOW_UPDATE, which costs a write, and a wake-up for the rest of the message. */
#define GRPC_CALL_CALM_WINDOW (96 * 1024)

/* The begin, header, headers, data, end and closed of a connection whose owner is a grpc_call_scope
 * *. */
struct grpc_call_scope {
    struct intake *intake;
    struct budget *budget;
    const struct health *health;    /* may be NULL */
    struct health_watches *watches; /* NULL: there is no Watch */
    uint32_t signals;               /* that are served */
    size_t max_message_bytes;
    struct list calls; /* all that are alive */
};

int grpc_call_begin(struct h2_stream *stream, struct grpc_call_scope *scope);
void grpc_call_header(struct h2_stream *stream, struct bytes name, struct bytes value,
                      bool trailer);
void grpc_call_headers(struct h2_stream *stream);
void grpc_call_data(struct h2_stream *stream, struct bytes piece);
void grpc_call_end(struct h2_stream *stream);
void grpc_call_closed(struct h2_stream *stream, uint32_t h2_error, bool unprocessed);
/* The handler's verbs that are a call's; .begin (calls the above) and .ended are the owner's. */
#define GRPC_CALL_VERBS                                                                            \
    .header = grpc_call_header, .headers = grpc_call_headers, .data = grpc_call_data,              \
    .end = grpc_call_end, .closed = grpc_call_closed
/* The scope goes: calls still at the intake forget it. All streams are closed by now. */
void grpc_call_forget(struct grpc_call_scope *scope);
