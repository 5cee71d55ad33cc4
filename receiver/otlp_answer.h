/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The answer to a peer, for both protocols: one table from the outcome to gRPC status, HTTP status
 * and retry delay. Thread: any.
 */
#include "proto/http/grpc.h"
#include "proto/otlp/otlp_service.h"
#include "receiver/intake/intake.h"

#define OTLP_RETRY_DELAY_NS                                                                        \
    UINT64_C(1000000000) /* the delay that peers are asked for before a retry */

#define OTLP_NO_TOKEN "a token is needed: Authorization: Bearer ..."

struct otlp_answer {
    enum grpc_status grpc;
    unsigned http;
    uint64_t retry_delay_ns; /* or GRPC_NO_RETRY_INFO: final */
    const char *message;     /* static; NULL if accepted */
};

struct otlp_answer otlp_answer_of(enum intake_outcome outcome, const char *message);
/* Whether a receiver whose settings have this mask serves the signal. */
bool otlp_serves(const struct intake *intake, uint32_t signals, enum signal signal);
/* By a receiver, before the intake had it; what is no request of a signal (NULL), or of none that
 * is served, is not counted. */
void otlp_count_refused(const struct otlp_route *route, const struct otlp_answer *answer);
/* The budget of bytes being received is used up. */
struct otlp_answer otlp_answer_no_budget(void);
