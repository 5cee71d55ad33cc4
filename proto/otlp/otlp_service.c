/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/otlp_service.h"

const char *const signal_names[SIGNAL_COUNT] = {"traces", "profiles", "metrics", "logs"};

#define COLLECTOR "/opentelemetry.proto.collector."

const struct otlp_route otlp_routes[SIGNAL_COUNT] = {
    [SIGNAL_TRACES] = {SIGNAL_TRACES, COLLECTOR "trace.v1.TraceService/Export", "/v1/traces"},
    [SIGNAL_PROFILES] = {SIGNAL_PROFILES, COLLECTOR "profiles.v1development.ProfilesService/Export",
                         "/v1development/profiles"},
    [SIGNAL_METRICS] = {SIGNAL_METRICS, COLLECTOR "metrics.v1.MetricsService/Export",
                        "/v1/metrics"},
    [SIGNAL_LOGS] = {SIGNAL_LOGS, COLLECTOR "logs.v1.LogsService/Export", "/v1/logs"},
};

const struct otlp_route *otlp_route_of_grpc(struct bytes path)
{
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        if (bytes_is(path, otlp_routes[i].grpc_path))
            return &otlp_routes[i];
    return NULL;
}

const struct otlp_route *otlp_route_of_http(struct bytes path)
{
    const uint8_t *query = path.len ? memchr(path.data, '?', path.len) : NULL;
    if (query)
        path.len = (size_t)(query - path.data);
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        if (bytes_is(path, otlp_routes[i].http_path))
            return &otlp_routes[i];
    return NULL;
}
