/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/otlp_answer.h"
#include "receiver/intake/intake_refused.h"

static const struct otlp_answer answers[] = {
    [INTAKE_ACCEPTED] = {GRPC_OK, 200, GRPC_NO_RETRY_INFO, NULL},
    [INTAKE_BUSY] = {GRPC_UNAVAILABLE, 503, OTLP_RETRY_DELAY_NS, "the node is busy: try again"},
    [INTAKE_MALFORMED] = {GRPC_INVALID_ARGUMENT, 400, GRPC_NO_RETRY_INFO,
                          "the request cannot be decoded"},
    [INTAKE_TOO_BIG] = {GRPC_RESOURCE_EXHAUSTED, 413, GRPC_NO_RETRY_INFO, "the request is too big"},
    [INTAKE_NO_PIPELINE] = {GRPC_UNIMPLEMENTED, 404, GRPC_NO_RETRY_INFO,
                            "no pipeline takes this signal"},
};

struct otlp_answer otlp_answer_of(enum intake_outcome outcome, const char *message)
{
    struct otlp_answer answer = answers[outcome];
    if (message && outcome != INTAKE_ACCEPTED)
        answer.message = message;
    return answer;
}

struct otlp_answer otlp_answer_no_budget(void)
{
    return otlp_answer_of(INTAKE_BUSY, "too many bytes are being received: try again");
}

void otlp_count_refused(const struct otlp_route *route, const struct otlp_answer *answer)
{
    if (!route)
        return;
    switch (answer->grpc) {
    case GRPC_UNAVAILABLE:
        return intake_refused(route->signal, REFUSED_BUSY);
    case GRPC_RESOURCE_EXHAUSTED:
        return intake_refused(route->signal, REFUSED_TOO_BIG);
    case GRPC_INVALID_ARGUMENT:
    case GRPC_INTERNAL: /* gRPC's framing */
        return intake_refused(route->signal, REFUSED_MALFORMED);
    default:
        return;
    }
}

bool otlp_serves(const struct intake *intake, uint32_t signals, enum signal signal)
{
    return (!signals || signals >> signal & 1) && intake_has_pipeline(intake, signal);
}
