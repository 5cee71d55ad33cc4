/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A gRPC server whose answers the test chooses: on the test's loop, on a port of loopback.
 */
#include "base/buf.h"
#include "proto/http/grpc.h"
#include "proto/http/h2.h"
#include "proto/tls/tls_accept.h"

enum backend_manner {
    BACKEND_ANSWERS, /* status, and what belongs to it */
    BACKEND_RESETS,  /* RST_STREAM with h2_error */
    BACKEND_CUTS,    /* headers of an answer, then RST_STREAM with h2_error */
    BACKEND_HANGS_UP,
    BACKEND_SILENT,
    BACKEND_HTTP,      /* http_status without a word of gRPC */
    BACKEND_CALMS,     /* answers, with GOAWAY ENHANCE_YOUR_CALM (too_many_pings) */
    BACKEND_GOES_AWAY, /* answers, and wants no more on this connection */
};

struct backend_answer {
    enum backend_manner manner;
    enum grpc_status status;
    uint64_t retry_delay_ns; /* GRPC_NO_RETRY_INFO or 0: none */
    bool bare_retry_info;    /* as the trailer google.rpc.retryinfo-bin */
    const char *accept_encoding;
    const char *message;
    struct bytes response; /* a message for OK */
    uint32_t h2_error;
    const char *http_status;
};

struct backend_request {
    struct list link;
    struct backend_connection *connection; /* NULL once it has ended */
    struct h2_stream *stream;              /* likewise */
    struct buf path, headers;              /* headers: "name: value\n" */
    struct grpc_reader reader;
    bool whole; /* it has come to its end */
    uint64_t time_ns;
};

struct backend {
    struct loop *loop;
    struct watch listener; /* fd -1: away */
    uint16_t port;
    struct tls_accept gate; /* with a context: TLS */
    struct list connections;
    size_t n_connections; /* that ever were */
    struct list requests; /* struct backend_request, in order */
    size_t n_requests;    /* whole ones */
    /* For whole requests to a path that contains this (NULL: any). The first that fits is used; one
     * with `times` is gone after so many. Without any: OK. */
    struct backend_rule {
        const char *path;
        struct backend_answer answer;
        unsigned times; /* 0 = always */
        bool used_up;
        const char *body;   /* only if the message contains this; NULL: any */
        size_t larger_than; /* only if the message is */
    } rules[8];
    size_t n_rules;
};

void backend_open(struct backend *backend, struct loop *loop);
void backend_close(struct backend *backend);
void backend_leave(struct backend *backend); /* hangs up and stops listening */
/* What is connected is not listened to any more, as if its machine had died. */
void backend_deafen(struct backend *backend);
void backend_return(struct backend *backend); /* on the same port */
void backend_rule(struct backend *backend, const char *path, unsigned times,
                  struct backend_answer answer);
void backend_no_rules(struct backend *backend);
/* The n-th whole request whose path contains this; NULL if there are fewer. */
struct backend_request *backend_request(const struct backend *backend, const char *path, size_t n);
