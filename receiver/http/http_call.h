/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One OTLP/HTTP request: from its head to its answer. Private to the HTTP server. Thread: loop.
 * A call that is at the intake outlives its connection and the server.
 */
#include "receiver/http/http_server.h"
#include <microhttpd.h>

/* What the calls of a server share. */
struct http_call_scope {
    struct intake *intake;
    struct budget *budget;
    uint32_t signals; /* that are served */
    size_t max_body_bytes;
    const struct config_cors *cors;
    struct list calls;                            /* all that are alive */
    size_t n_active;                              /* calls with a connection */
    bool draining;                                /* answers close their connection */
    bool closing;                                 /* nothing sleeps or pauses any more */
    void (*woken)(struct http_call_scope *scope); /* a sleeping connection was resumed */
};

struct http_call;

/* The handler of libmicrohttpd, of which *call is the per-request pointer. */
enum MHD_Result http_call_step(struct http_call_scope *scope, struct MHD_Connection *connection,
                               const char *path, const char *method, const char *data, size_t *size,
                               struct http_call **call);
/* The request is over, answered or not. */
void http_call_completed(struct http_call *call);
/* The server closes: connections that sleep are resumed, to be answered 503; those that were paused
 * go on. */
void http_call_wake_all(struct http_call_scope *scope);
/* The scope goes, all connections are closed: calls still at the intake forget it. */
void http_call_forget(struct http_call_scope *scope);
