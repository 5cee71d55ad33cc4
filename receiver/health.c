/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/health.h"
#include "proto/otlp/otlp_service.h"
#include "proto/wire.h"
#include <errno.h>
#include <string.h>

enum { REQUEST_SERVICE = 1, RESPONSE_STATUS = 1 };
enum { STATUS_SERVING = 1, STATUS_NOT_SERVING = 2, STATUS_SERVICE_UNKNOWN = 3 };

/* Of several values the last counts, as in any protobuf message. */
static bool read_service(struct bytes request, struct bytes *service)
{
    struct wire_reader reader = wire_read(request);
    struct wire_field field;
    int outcome;
    *service = (struct bytes){0};
    while ((outcome = wire_next(&reader, &field)) == WIRE_FIELD)
        if (field.number == REQUEST_SERVICE && field.type == WIRE_BYTES)
            *service = field.bytes;
    return outcome == WIRE_END;
}

/* "/package.Service/Method" */
static bool is_service_of(struct bytes service, const char *method)
{
    size_t len = (size_t)(strrchr(method, '/') - method) - 1;
    return service.len == len && !memcmp(service.data, method + 1, len);
}

static bool is_known(struct bytes service, uint32_t signals)
{
    if (!service.len || is_service_of(service, HEALTH_CHECK_METHOD))
        return true;
    for (size_t signal = 0; signal < SIGNAL_COUNT; signal++)
        if (signals >> signal & 1 && is_service_of(service, otlp_routes[signal].grpc_path))
            return true;
    return false;
}

int health_check(const struct health *health, uint32_t signals, struct bytes request,
                 struct buf *response)
{
    struct bytes service;
    if (!read_service(request, &service))
        return GRPC_INVALID_ARGUMENT;
    if (!is_known(service, signals))
        return GRPC_NOT_FOUND;
    bool well = !health || !health->problem(health->context);
    return wire_put_varint(response, RESPONSE_STATUS, well ? STATUS_SERVING : STATUS_NOT_SERVING);
}

int health_unknown(struct buf *response)
{
    return wire_put_varint(response, RESPONSE_STATUS, STATUS_SERVICE_UNKNOWN);
}
