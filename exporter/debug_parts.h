/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What debug_exporter.c chooses from. Private to exporter/debug_*.c. */
#include "exporter/debug_text.h"
#include "trace_service.pb-c.h"

typedef Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceRequest TraceRequest;
typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest
    ProfilesRequest;

void debug_normal_traces(struct debug_text *text, const TraceRequest *request);
void debug_normal_profiles(struct debug_text *text, const ProfilesRequest *request);
/* Any message, by its generated descriptor. */
void debug_detailed(struct debug_text *text, const ProtobufCMessage *message);
