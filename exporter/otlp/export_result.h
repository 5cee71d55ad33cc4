/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the answer to an Export call means: whether the same request is sent again. Pure; thread:
 * any. Sources: OTLP specification 1.11, "Failures" of OTLP/gRPC and OTLP/HTTP;
 * doc/PROTOCOL-HTTP2.md of gRPC for how HTTP/2 errors map to statuses. export_result.c lists the
 * rules that neither source covers.
 */
#include "proto/http/grpc.h"

enum export_verdict {
    EXPORT_OK,    /* including partial success: never sent again */
    EXPORT_RETRY, /* the same request, later */
    EXPORT_DROP,  /* never */
};

struct export_result {
    enum export_verdict verdict;
    bool unimplemented;      /* the backend has no such service */
    bool too_big;            /* with EXPORT_DROP: a part of the request may still be accepted */
    uint64_t retry_delay_ns; /* the delay that the server asked for; 0 = none */
    int64_t rejected;        /* partial success: items that the backend did not take */
    char code[32];           /* "UNAVAILABLE", "HTTP 503" */
    char message[256];       /* from the backend, or about the connection; sanitized */
};

/* asked_to_retry: the status carries a RetryInfo. */
enum export_verdict export_verdict_grpc(enum grpc_status status, bool asked_to_retry);
/* For a call that ended without grpc-status. h2_error and unprocessed: as closed() of h2.h reports
 * them. */
enum export_verdict export_verdict_h2(uint32_t h2_error, bool unprocessed);
enum export_verdict export_verdict_http(unsigned status);

/* Whether a call was refused for its size. gRPC has no status that means only this, so the message
 * decides. */
bool export_is_too_big(enum grpc_status status, const char *message);

void export_result_say(struct export_result *result, struct bytes text);
/* Reads partial_success from an Export...ServiceResponse of any signal. */
void export_result_partial(struct export_result *result, struct bytes response);
