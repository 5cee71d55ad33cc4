/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * OTLP/gRPC as a client: one Export call, and what its answer means (otlp.md: retry or drop).
 * Thread: loop.
 */
#include "base/loop.h"
#include "config/config.h"
#include "exporter/channel.h"
#include "proto/grpc.h"
#include "store/outbox.h"

struct otlp_grpc;

enum otlp_grpc_verdict {
    EXPORT_OK,    /* also partial success: never sent again */
    EXPORT_RETRY, /* the same request, later */
    EXPORT_DROP,  /* never */
};

struct otlp_grpc_result {
    enum otlp_grpc_verdict verdict;
    enum grpc_status status;
    uint64_t retry_delay_ns; /* what the server asked for; 0 = nothing */
    int64_t rejected;        /* partial success: items that the backend did not take */
    char message[256];       /* of the backend or about the connection; sanitized */
};

/* Embedded by its owner, one running at a time. */
struct otlp_grpc_call {
    void (*done)(struct otlp_grpc_call *call, const struct otlp_grpc_result *result);
    /* private */
    struct otlp_grpc *client;
    enum signal signal;
    struct buf message;
    struct channel_waiter waiter;
    struct h2_stream *stream;
    struct timer timeout;
    struct grpc_reader reader;
    struct otlp_grpc_result result;
    unsigned http_status;
    bool running;
    bool has_status;
    bool is_malformed;
    bool timed_out;
    uint64_t details_delay_ns;
};

struct otlp_grpc_settings {
    struct loop *loop;
    const struct config_exporter_otlp_grpc *config;
    struct tls_context *tls; /* outlives the client; NULL: plain text */
    const char *version;     /* for user-agent */
};

int otlp_grpc_open(const struct otlp_grpc_settings *settings, struct otlp_grpc **client);
void otlp_grpc_close(
    struct otlp_grpc *client); /* calls that run are not done() any more. NULL is fine */

/* message: a gRPC message with its prefix (otlp_grpc_message()); taken over. done() follows, never
 * from within this call. */
void otlp_grpc_send(struct otlp_grpc *client, struct otlp_grpc_call *call, enum signal signal,
                    struct buf *message);
void otlp_grpc_cancel(struct otlp_grpc_call *call); /* no done(); also when not running */

/* Any thread: prefix and body, compressed if gzip is set and it helps. 0, BUF_FULL, -ENOMEM. */
int otlp_grpc_message(struct bytes body, bool gzip, struct buf *out);
