/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A gRPC client for tests of the server: an h2_end on a TCP connection.
 */
#include "proto/http/grpc.h"
#include "test/support/net/h2_end.h"

#define OTLP_TRACES_PATH "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

struct otlp_client_call { /* NULL: the usual, or left out */
    const char *method, *path, *content_type, *encoding, *timeout;
    bool no_message;
    bool compressed;
    struct bytes message;
    struct bytes behind; /* more bytes of body */
    size_t announced;    /* instead of message.len, if not 0 */
};

int otlp_client_connect(uint16_t port, bool v6); /* an fd, or negative errno */
void otlp_client_open(struct h2_end *end, struct loop *loop, uint16_t port);
struct h2_end_stream *otlp_client_send(struct h2_end *end, const struct otlp_client_call *call);
/* A header or trailer of the answer; -1 if it is not a number or not there. */
int otlp_client_number(struct h2_end_stream *stream, const char *name);
/* Copies the value to out and returns whether it is there. */
bool otlp_client_value(struct h2_end_stream *stream, const char *name, char *out, size_t size);
