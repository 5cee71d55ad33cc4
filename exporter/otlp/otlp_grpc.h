/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * OTLP/gRPC as a client: one Export call.
 * Thread: loop.
 */
#include "base/loop.h"
#include "config/config.h"
#include "exporter/otlp/channel.h"
#include "exporter/otlp/export_result.h"
#include "proto/http/grpc.h"
#include "store/outbox/outbox.h"

struct otlp_grpc;

/* Embedded by its owner, one running at a time. */
struct otlp_grpc_call {
    void (*done)(struct otlp_grpc_call *call, const struct export_result *result);
    /* private */
    struct otlp_grpc *client;
    enum signal signal;
    struct bytes message;
    struct channel_waiter waiter;
    struct h2_stream *stream;
    struct timer timeout;
    struct grpc_reader reader;
    struct export_result result;
    enum grpc_status status;
    unsigned http_status;
    bool running;
    bool has_status;
    bool compressed;         /* the message */
    bool wants_other_coding; /* the backend does not accept our compression */
    bool is_malformed;
    bool timed_out;
    uint64_t details_delay_ns;
};

struct otlp_grpc_settings {
    struct loop *loop;
    const struct config_exporter_otlp *config;
    struct tls_context *tls; /* outlives the client; NULL: plain text */
    const char *version;     /* for user-agent */
};

int otlp_grpc_open(const struct otlp_grpc_settings *settings, struct otlp_grpc **client);
void otlp_grpc_close(struct otlp_grpc *client); /* done() is not called after this. NULL is fine */

/* message: a gRPC message with its prefix (otlp_grpc_message()), borrowed until done() or cancel.
 * done() follows, never from within this call. */
void otlp_grpc_send(struct otlp_grpc *client, struct otlp_grpc_call *call, enum signal signal,
                    struct bytes message);
void otlp_grpc_cancel(struct otlp_grpc_call *call); /* no done(); also when not running */

/* Any thread: prefix and body, compressed if it is worth it. 0, BUF_FULL, -ENOMEM. */
int otlp_grpc_message(struct bytes body, enum config_compression compression, struct buf *out);
