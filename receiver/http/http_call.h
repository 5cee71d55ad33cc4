/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One OTLP/HTTP request: from its head to its answer. Private to the HTTP server. Thread: loop. A
 * call at the intake outlives its connection and the server.
 */
#include "proto/http/http1_server.h"
#include "receiver/http/http_server.h"

/* Shared by the calls of a server: the context of their http1_server. */
struct http_call_scope {
    struct intake *intake;
    struct budget *budget;
    uint32_t signals; /* served ones, 1 << enum signal */
    size_t max_body_bytes;
    const struct config_cors *cors;
    const struct config_endpoint *endpoint;
    struct peers *peers;         /* may be NULL */
    const struct bearer *bearer; /* NULL: no token is needed */
};

extern const struct http1_handler http_call_handler;
