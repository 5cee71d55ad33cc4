/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What debug_exporter.c chooses from. Private to exporter/debug_*.c. */
#include "exporter/debug/debug_text.h"
#include "logs_service.pb-c.h"
#include "metrics_service.pb-c.h"
#include "trace_service.pb-c.h"

typedef Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceRequest TraceRequest;
typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest
    ProfilesRequest;
typedef Opentelemetry__Proto__Collector__Metrics__V1__ExportMetricsServiceRequest MetricsRequest;
typedef Opentelemetry__Proto__Collector__Logs__V1__ExportLogsServiceRequest LogsRequest;
typedef Opentelemetry__Proto__Common__V1__InstrumentationScope Scope;
typedef Opentelemetry__Proto__Resource__V1__Resource Resource;

void debug_normal_traces(struct debug_text *text, const TraceRequest *request);
void debug_normal_profiles(struct debug_text *text, const ProfilesRequest *request);
void debug_normal_metrics(struct debug_text *text, const MetricsRequest *request);
void debug_normal_logs(struct debug_text *text, const LogsRequest *request);
/* Lines that all signals share: "ScopeSpans #0 name@version key=value". NULL: the request has none.
 */
void debug_resource_line(struct debug_text *text, const char *what, size_t i,
                         const Resource *resource);
void debug_scope_line(struct debug_text *text, const char *what, size_t i, const Scope *scope);
/* Any message, by its generated descriptor. */
void debug_detailed(struct debug_text *text, const ProtobufCMessage *message);
