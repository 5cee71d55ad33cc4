/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the answer to an Export call means: whether the same request is sent again. Pure; thread:
 * any. Source: OTLP specification 1.11, "Failures" of OTLP/gRPC and OTLP/HTTP; how HTTP/2 errors
 * become statuses: doc/PROTOCOL-HTTP2.md of gRPC. What neither names is in export_result.c.
 */
#include "proto/http/grpc.h"

enum export_verdict {
    EXPORT_OK,    /* also partial success: never sent again */
    EXPORT_RETRY, /* the same request, later */
    EXPORT_DROP,  /* never */
};

struct export_result {
    enum export_verdict verdict;
    bool unimplemented;      /* the backend has no such service */
    bool too_big;            /* EXPORT_DROP: a part of it may be taken */
    uint64_t retry_delay_ns; /* what the server asked for; 0 = nothing */
    int64_t rejected;        /* partial success: items that the backend did not take */
    char code[32];           /* "UNAVAILABLE", "HTTP 503" */
    char message[256];       /* of the backend or about the connection; sanitized */
};

/* asked_to_retry: with a RetryInfo. */
enum export_verdict export_verdict_grpc(enum grpc_status status, bool asked_to_retry);
/* A call that ended without grpc-status. h2_error and unprocessed: as h2.h's closed() tells. */
enum export_verdict export_verdict_h2(uint32_t h2_error, bool unprocessed);
enum export_verdict export_verdict_http(unsigned status);

/* Whether it is for its size that a call was refused: gRPC has no status for that alone, the
 * message has to say so. */
bool export_is_too_big(enum grpc_status status, const char *message);

void export_result_say(struct export_result *result, struct bytes text);
/* Of an Export...ServiceResponse of any signal. */
void export_result_partial(struct export_result *result, struct bytes response);
