/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beyond the specifications: an answer that only concerns the path to the backend (a redirect, a
 * reset that asks us to slow down, a proxy that cannot connect) drops no data. The request is
 * retried, and the answer is logged.
 */
#include "exporter/otlp/export_result.h"
#include "proto/http/h2.h"
#include "proto/wire.h"
#include <string.h>

/* Statuses not listed: dropped. */
static const enum export_verdict of_grpc[GRPC_STATUS_COUNT] = {
    [GRPC_CANCELLED] = EXPORT_RETRY,   [GRPC_DEADLINE_EXCEEDED] = EXPORT_RETRY,
    [GRPC_ABORTED] = EXPORT_RETRY,     [GRPC_OUT_OF_RANGE] = EXPORT_RETRY,
    [GRPC_UNAVAILABLE] = EXPORT_RETRY, [GRPC_DATA_LOSS] = EXPORT_RETRY,
};

/* Other codes (PROTOCOL_ERROR, INTERNAL_ERROR, FRAME_SIZE_ERROR...) are gRPC's INTERNAL: the same
 * request would fail the same way. */
static const struct {
    uint32_t error;
    enum export_verdict verdict;
} of_h2[] = {
    {H2_NO_ERROR, EXPORT_RETRY},
    {H2_REFUSED_STREAM, EXPORT_RETRY},
    {H2_CANCEL, EXPORT_RETRY},
    {10, EXPORT_RETRY}, /* CONNECT_ERROR */
    {H2_ENHANCE_YOUR_CALM, EXPORT_RETRY},
    {13, EXPORT_RETRY}, /* HTTP_1_1_REQUIRED: caused by the path, not by the request */
    {H2_CONNECTION_LOST, EXPORT_RETRY},
};

enum export_verdict export_verdict_grpc(enum grpc_status status, bool asked_to_retry)
{
    if (status == GRPC_OK)
        return EXPORT_OK;
    bool listed = (unsigned)status < GRPC_STATUS_COUNT && of_grpc[status] == EXPORT_RETRY;
    return listed || (status == GRPC_RESOURCE_EXHAUSTED && asked_to_retry) ? EXPORT_RETRY
                                                                           : EXPORT_DROP;
}

enum export_verdict export_verdict_h2(uint32_t h2_error, bool unprocessed)
{
    for (size_t i = 0; i < sizeof(of_h2) / sizeof(of_h2[0]); i++)
        if (of_h2[i].error == h2_error)
            return of_h2[i].verdict;
    return unprocessed ? EXPORT_RETRY : EXPORT_DROP;
}

enum export_verdict export_verdict_http(unsigned status)
{
    switch (status) {
    case 200 ... 299:
        return EXPORT_OK;
    case 300 ... 399: /* redirects are not followed: the operator has to check the target */
    case 429:
    case 502:
    case 503:
    case 504:
        return EXPORT_RETRY;
    default:
        return EXPORT_DROP;
    }
}

/* The words are those of gRPC's libraries and of this program. They are needed because
 * RESOURCE_EXHAUSTED also means quotas; and tonic's OUT_OF_RANGE would be retried forever. */
bool export_is_too_big(enum grpc_status status, const char *message)
{
    static const char *const words[] = {"larger than", "too large", "too big", "message exceeds"};
    if (status != GRPC_RESOURCE_EXHAUSTED && status != GRPC_OUT_OF_RANGE)
        return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasestr(message, words[i]))
            return true;
    return false;
}

void export_result_say(struct export_result *result, struct bytes text)
{
    bytes_sanitize(text, result->message, sizeof(result->message));
}

/* Export...PartialSuccess, the same for each signal: field 1 counts rejected items, field 2 is the
 * message. */
void export_result_partial(struct export_result *result, struct bytes response)
{
    struct wire_field field, inner;
    struct wire_reader reader = wire_read(response);
    while (wire_next(&reader, &field) == WIRE_FIELD) {
        if (field.number != 1 || field.type != WIRE_BYTES)
            continue;
        struct wire_reader partial = wire_read(field.bytes);
        while (wire_next(&partial, &inner) == WIRE_FIELD) {
            if (inner.number == 1 && inner.type == WIRE_VARINT)
                result->rejected = (int64_t)inner.value;
            else if (inner.number == 2 && inner.type == WIRE_BYTES)
                export_result_say(result, inner.bytes);
        }
    }
}
