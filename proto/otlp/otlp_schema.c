/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/otlp_schema.h"
#include "logs_service.pb-c.h"
#include "metrics_service.pb-c.h"
#include "profiles_service.pb-c.h"
#include "trace_service.pb-c.h"

#define MESSAGE(package, name) &opentelemetry__proto__collector__##package##__##name##__descriptor

const ProtobufCMessageDescriptor *otlp_schema_request(enum signal signal)
{
    static const ProtobufCMessageDescriptor *const requests[SIGNAL_COUNT] = {
        [SIGNAL_TRACES] = MESSAGE(trace__v1, export_trace_service_request),
        [SIGNAL_PROFILES] = MESSAGE(profiles__v1development, export_profiles_service_request),
        [SIGNAL_METRICS] = MESSAGE(metrics__v1, export_metrics_service_request),
        [SIGNAL_LOGS] = MESSAGE(logs__v1, export_logs_service_request),
    };
    return requests[signal];
}

const ProtobufCMessageDescriptor *otlp_schema_response(enum signal signal)
{
    static const ProtobufCMessageDescriptor *const responses[SIGNAL_COUNT] = {
        [SIGNAL_TRACES] = MESSAGE(trace__v1, export_trace_service_response),
        [SIGNAL_PROFILES] = MESSAGE(profiles__v1development, export_profiles_service_response),
        [SIGNAL_METRICS] = MESSAGE(metrics__v1, export_metrics_service_response),
        [SIGNAL_LOGS] = MESSAGE(logs__v1, export_logs_service_response),
    };
    return responses[signal];
}
